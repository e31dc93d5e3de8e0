"""Every module opens with a claim, and every test file that a header cites exists and tests that module's package."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "vestige"
MODULES = sorted(SOURCE.rglob("*.py"))
CITED = re.compile(r"tests/[\w/]+(?:\.py\b|/)")


def read_header(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text())) or ""


def name_package(path: Path) -> str:
    """Name the package of a module, or the module itself if it is not in one, such as `vestige.audit`."""
    return "vestige." + path.relative_to(SOURCE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_opens_with_a_claim(path: Path) -> None:
    first = read_header(path).split("\n\n")[0]
    assert first, "the module has no docstring"
    assert re.search(r"[\w)`'\"]\.$", first), f"the first sentence does not end in a full stop: {first!r}"
    assert "\n" not in first, "the first sentence is longer than a line"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_cited_test_exists_and_tests_the_package(path: Path) -> None:
    header = read_header(path)
    cited = CITED.findall(header)
    assert cited or not re.search(r"\bheld\s+by\b", header), "the guarantee cites no test"
    for name in cited:
        assert (ROOT / name).exists(), f"{name} does not exist"
    assert not cited or any(is_tested(path, name) for name in cited), f"{cited} do not name {name_package(path)}"


def is_tested(path: Path, cited: str) -> bool:
    """Whether a test is of the module's package: by its folder, by what it imports, or as one of the whole library."""
    package = name_package(path)
    if cited.startswith(f"tests/{package.removeprefix('vestige.')}/") or cited.count("/") == 1:
        return True
    text = (ROOT / cited).read_text()
    return bool(re.search(rf"\b({re.escape(package)}|{package.removeprefix('vestige.')})\b", text))


def test_every_guarantee_of_docs_cites_tests_that_exist() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for cited in CITED.findall(page.read_text()):
            assert (ROOT / cited).exists(), f"{page.name} cites {cited}"
