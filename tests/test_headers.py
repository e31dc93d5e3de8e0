"""Every module opens with a claim, and every test that a header cites exists and has tests."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "vestige"
MODULES = sorted(SOURCE.rglob("*.py"))
CITED = re.compile(r"\btests/[\w/]+(?:\.py\b(?:::\w+)?|/)")


def read_header(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text())) or ""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_opens_with_a_claim(path: Path) -> None:
    first = read_header(path).split("\n\n")[0]
    assert first, "the module has no docstring"
    assert re.search(r"[\w)`'\"]\.$", first), f"the first sentence does not end in a full stop: {first!r}"
    assert "\n" not in first, "the first sentence is longer than a line"
    assert len(first.split()) > 3, f"the first sentence claims nothing: {first!r}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_cited_test_exists(path: Path) -> None:
    header = read_header(path)
    assert CITED.search(header) or not re.search(r"\bheld\s+by\b", header), "the guarantee cites no test"
    for cited in CITED.findall(path.read_text()):
        check_test_exists(cited)


def check_test_exists(cited: str) -> None:
    """A folder or a file that has tests, a program that measures what they test, or one test of a file."""
    name, _, function = cited.partition("::")
    assert (ROOT / name).exists(), f"{name} does not exist"
    files = [ROOT / name] if name.endswith(".py") else list((ROOT / name).glob("test_*.py"))
    wanted = (f"def {function}",) if function else ("def test_", 'if __name__ == "__main__":')
    assert any(text in file.read_text() for file in files for text in wanted), f"{cited} is not a test"


def test_every_guarantee_of_docs_cites_tests_that_exist() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for cited in CITED.findall(page.read_text().replace("test_NAME.py", "")):
            check_test_exists(cited)
