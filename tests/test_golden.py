"""Commands print, streams hold, and the package names what is written down in tests/golden."""

from __future__ import annotations

import difflib

import pytest

import golden


@pytest.mark.parametrize("kind", golden.SHOWN)
def test_what_is_seen_from_outside_is_as_written_down(kind: str) -> None:
    """If a change is meant, `python tests/golden.py` writes the files anew."""
    shown = golden.SHOWN[kind]()
    for name, text in shown.items():
        written = (golden.FOLDER / name).read_text()
        difference = difflib.unified_diff(written.splitlines(), text.splitlines(), "written", "now", lineterm="", n=1)
        assert written == text, "\n".join([name, *difference])[:4_000]


def test_no_file_is_left_over() -> None:
    assert {path.name.split("-")[0].split(".")[0] for path in golden.FOLDER.iterdir()} == {
        "run",
        "session",
        "traces",
        "names",
    }
