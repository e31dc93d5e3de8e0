"""The page: whole, alone, the same for the same results; and figures that can be told apart."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from vestige import figures
from vestige.cli import command
from vestige.lab import EXPERIMENTS, Results, Verdict, run
from vestige.lab.experiment import HELD, INCOMPLETE, REFUTED
from vestige.lab.report import _format_number, collect_findings, render_page

FAST = [EXPERIMENTS["oracle"], EXPERIMENTS["descent"]]


class Tags(HTMLParser):
    """What is open, so that a page is known to close all that it opens; and all ids."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in ("meta", "br", "link", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(
        self,
        tag: str,  # noqa: ARG002
        attrs: list[tuple[str, str | None]],
    ) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("lab")
    run(FAST, made, quick=True, seed=3)
    return made


def vestige(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], prog_name="vestige")


def test_the_page_is_whole_and_alone(folder: Path) -> None:
    text = render_page(collect_findings(FAST, folder), "vestige lab run")
    parser = Tags()
    parser.feed(text)
    assert not parser.open
    assert len(set(parser.ids)) == len(parser.ids)
    assert "http" + ":" not in text
    assert not re.search(r'src="|@import|url\((?!#)|<link|<script', text)
    assert all(target[1:] in parser.ids for target in re.findall(r'href="(#[^"]+)"', text))
    assert all(target in parser.ids for target in re.findall(r"url\(#([^)]+)\)", text))
    for experiment in FAST:
        assert experiment.claim in text
        assert f"vestige lab run {experiment.name} --trials {experiment.quick_trials} --seed 3<" in text
    assert text.count("<svg") == len(FAST)
    assert figures.INK not in text
    assert "prefers-color-scheme: dark" in text
    assert "width=device-width" in text
    assert "@media print" in text


def test_the_same_results_make_the_same_page(folder: Path) -> None:
    assert render_page(collect_findings(FAST, folder), "x") == render_page(collect_findings(FAST, folder), "x")


def test_a_page_says_what_was_refuted(folder: Path) -> None:
    def never(_: Results) -> Verdict:
        return Verdict.from_checks({"<so>": False}, "")

    found = collect_findings([replace(FAST[0], find_verdict=never)], folder)
    text = render_page(found, "vestige lab run")
    assert f'<span class="not">✗ {REFUTED}</span>' in text
    assert "Refuted: &lt;so&gt;." in text
    assert f"✓ {HELD}" not in text


def test_the_command_writes_page_and_figures(folder: Path, tmp_path: Path) -> None:
    done = vestige("lab", "report", "--out", folder, "--html", tmp_path / "a" / "b.html", "--figures", tmp_path / "png")
    assert done.exit_code == 0, done.output
    assert "<svg" in (tmp_path / "a" / "b.html").read_text()
    assert (tmp_path / "png" / "oracle.png").read_bytes().startswith(b"\x89PNG")
    refused = vestige("lab", "report", "--out", tmp_path)
    assert refused.exit_code == 2
    assert f"--out {tmp_path} has no results; make some with: vestige lab run" in refused.output


def test_what_was_not_run_to_its_end_has_no_verdict(tmp_path: Path) -> None:
    half = replace(FAST[0], quick=lambda point: point["retention"] == 2)
    run([half], tmp_path, quick=True)
    found = FAST[0].judge(collect_findings([half], tmp_path)[0].results)
    assert found.outcome == INCOMPLETE
    assert found.reason == "There are 0 trials at dim 1, retention 4; run the experiment to its end."
    assert FAST[0].judge(Results.from_rows([])).outcome == INCOMPLETE


def test_a_missing_library_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    refused = vestige("lab", "report", "--out", folder)
    assert refused.exit_code == 2
    assert "pip install 'vestige[plot]'" in refused.output


def test_a_page_says_what_one_trial_is(folder: Path) -> None:
    audits = [replace(FAST[0], trial_unit="an audit of 9 games")]
    assert "trials, not all points of the grid, each an audit of 9 games." in render_page(
        collect_findings(audits, folder), "x"
    )


@pytest.mark.parametrize(
    ("number", "digits", "text"),
    [(44.7, 1, "45"), (9.6, 1, "10"), (0.0123, 1, "0.01"), (45.42, 3, "45.4"), (60_257.4, 3, "60,257")],
)
def test_errors_in_tables_have_no_exponents(number: float, digits: int, text: str) -> None:
    assert _format_number(number, digits) == text
