"""The site is whole: it builds without a warning, needs no network, has no dead link and leaves no public name out."""

from __future__ import annotations

import fcntl
import importlib
import inspect
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import click
import pytest

from vestige.cli.group import load_commands

ROOT = Path(__file__).parent.parent
MODULES = sorted(path.stem for path in (ROOT / "docs" / "reference").glob("vestige*.md"))


class Page(HTMLParser):
    """What a page links to, what it loads, and where it can be linked to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name == "href" and value and tag == "a":
                self.links.append(value)
            elif name in ("href", "src") and value:
                self.loads.append(value)


@pytest.fixture(scope="module")
def site() -> Path:
    """The site of `make docs`, which is built again if something that it shows has changed since."""
    recipe = re.search(r"^\t\$\(BIN\)/sphinx-build (.*) out/docs$", (ROOT / "Makefile").read_text(), re.M)
    assert recipe
    folder = ROOT / "out" / "docs"
    folder.parent.mkdir(exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the workers of one run build it once
        if not is_current(folder / "built"):
            shutil.rmtree(folder, ignore_errors=True)
            built = [sys.executable, "-m", "sphinx", *recipe[1].split(), str(folder)]
            done = subprocess.run(built, cwd=ROOT, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            (folder / "built").touch()
    return folder


def is_current(stamp: Path) -> bool:
    """Whether the site was built without a warning since the last change of any file of the project."""
    every = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(every, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    sources = [path for path in map(ROOT.joinpath, listed.splitlines()) if path.exists()]
    return stamp.exists() and max(path.stat().st_mtime for path in sources) < stamp.stat().st_mtime


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html")}


def test_examples_end_without_a_blank_line(site: Path) -> None:
    for path in site.glob("**/*.html"):
        assert not re.search(r"\n\s*\n</pre>", path.read_text(encoding="utf-8")), path.name


def test_links_lead_somewhere(pages: dict[Path, Page]) -> None:
    assert len(pages) > 30
    for path, page in pages.items():
        for link in page.links:
            split = urlsplit(link)
            if split.scheme:
                continue
            target = (path.parent / unquote(split.path)).resolve() if split.path else path
            assert target.exists(), f"{path.name} links to {link}"
            if split.fragment and target in pages:
                assert unquote(split.fragment) in pages[target].anchors | {""}, f"{path.name} links to {link}"


def test_nothing_is_loaded_from_elsewhere(pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        for address in page.loads:
            split = urlsplit(address)
            assert split.scheme in ("", "data"), f"{path.name} loads {address}"
            assert not split.netloc, f"{path.name} loads {address}"
            if not split.scheme and split.path:
                assert (path.parent / unquote(split.path)).exists(), f"{path.name} loads {address}"


def public_names(module: str) -> Iterator[str]:
    """Each public callable of a module, and the public methods of each class that is defined here."""
    found = importlib.import_module(module)
    own = [name for name, value in vars(found).items() if getattr(value, "__module__", None) == module]
    for name in getattr(found, "__all__", [each for each in own if not each.startswith("_")]):
        value = getattr(found, name)
        top = importlib.import_module("vestige")
        home = "vestige" if getattr(top, name, None) is value else module
        if inspect.isclass(value) or inspect.isfunction(value):
            yield f"{home}.{name}"
        if inspect.isclass(value):
            for method, function in inspect.getmembers(value, inspect.isfunction):
                if not method.startswith("_") and function.__module__.startswith("vestige"):
                    yield f"{home}.{name}.{method}"


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_in_the_reference(module: str, pages: dict[Path, Page], site: Path) -> None:
    names = list(public_names(module))
    assert names
    anchors = pages[site / "reference" / f"{module}.html"].anchors | pages[site / "reference" / "vestige.html"].anchors
    assert [name for name in names if name not in anchors] == []


def test_every_public_module_has_a_page() -> None:
    top = importlib.import_module("vestige")
    exported = {f"vestige.{name}" for name in top.__all__ if inspect.ismodule(getattr(top, name))}
    named = set(re.findall(r"from (vestige(?:\.\w+)?) import", (ROOT / "README.md").read_text()))
    assert exported | named | {"vestige.planning", "vestige.lab", "vestige.errors"} <= set(MODULES)


def commands(group: click.Command, path: str) -> Iterator[tuple[str, list[str]]]:
    """Each command by its path, with its options."""
    yield path, [option for each in group.params for option in each.opts if option.startswith("--")]
    if isinstance(group, click.Group):
        for name, each in group.commands.items():
            if not each.hidden:
                yield from commands(each, f"{path} {name}")


@pytest.mark.parametrize(
    ("path", "options"), list(commands(load_commands(), "vestige")), ids=lambda value: str(value)[:30]
)
def test_every_command_is_in_the_reference(path: str, options: list[str], pages: dict[Path, Page], site: Path) -> None:
    anchors = pages[site / "reference" / "commands.html"].anchors
    words = path.replace(" ", "-")
    assert words in anchors
    assert [option for option in options if f"cmdoption-{words}{option[1:]}" not in anchors] == []


def test_the_report_of_the_lab_can_be_opened(pages: dict[Path, Page], site: Path) -> None:
    assert "lab/report.html" in pages[site / "lab.html"].links
    assert (site / "lab" / "report.html").exists()
