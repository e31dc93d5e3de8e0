"""The page: text has the contrast of WCAG AA in both themes, marks that of graphics, and a strict policy can hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import vestige.service

PAGE = Path(vestige.service.__file__).parent / "page"
THEMES = dict(
    zip(
        ("light", "dark"),
        (dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block)) for block in (PAGE / "style.css").read_text().split("}")),
        strict=False,
    )
)
TEXTS = [(ink, back) for ink in ("ink", "muted", "mean", "window", "private", "watched") for back in ("panel", "back")]
TEXTS += [("ink", "soft"), ("muted", "soft"), ("on", "mean")]
MARKS = [(mark, "panel") for mark in ("mean", "gone", "watched", "edge", "window", "private")]


def find_luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def find_contrast(one: str, other: str) -> float:
    low, high = sorted((find_luminance(one), find_luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_the_standard() -> None:
    assert find_contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert find_contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_palette_has_enough_contrast(theme: str) -> None:
    palette = THEMES[theme]
    for needed, pairs in ((4.5, TEXTS), (3.0, MARKS)):
        for ink, back in pairs:
            assert find_contrast(palette[ink], palette[back]) >= needed, (theme, ink, back)


def test_page_has_nothing_that_a_strict_policy_forbids() -> None:
    html = (PAGE / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", html)
    assert not re.findall(r"(?:src|href)=\"(?:https?:)?//", html)
    for module in PAGE.glob("*.js"):
        assert not re.search(r"https?://|innerHTML|insertAdjacentHTML|localStorage|sessionStorage", module.read_text())


def test_vendored_library_has_its_licence() -> None:
    assert "MIT License" in (PAGE / "vendor" / "uPlot.LICENSE").read_text()
    assert "1.6.32" in (PAGE / "vendor" / "uPlot.iife.min.js").read_text()[:400]
