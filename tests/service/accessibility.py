"""Checks of a rendered page in its browser, after WCAG 2.2: names, labels, references, headings, targets, contrast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Page


def find_faults(page: Page) -> list[str]:
    """What is wrong with names, labels, references, headings, landmarks and sizes of targets."""
    faults: list[str] = page.evaluate(_read("structure"))
    return faults


def measure_contrast(page: Page) -> list[dict[str, Any]]:
    """The contrast of each text that is shown, from the colours that the browser computed, and what it needs."""
    texts: list[dict[str, Any]] = page.evaluate(_read("contrast"))
    return texts


def find_overflow(page: Page) -> list[str]:
    """What reaches beyond the right edge of the page, where nothing around it scrolls."""
    wide: list[str] = page.evaluate(_read("overflow"))
    return wide


def _read(name: str) -> str:
    return (Path(__file__).parent / f"{name}.js").read_text()
