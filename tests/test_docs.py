"""Docs that cannot lie: every example is run, every name they lean on exists."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import re
import shlex
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner

import vestige.cli

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.M | re.S)


def sessions() -> list[tuple[str, list[tuple[str, str]]]]:
    """The commands of each console block with the output that the page shows; those of a guide are one session."""
    found = []
    for page in PAGES:
        parts = blocks(page, "console")
        for block in ["".join(parts)] if page.parent.name == "guides" else parts:
            if block:
                steps = re.findall(r"^\$ (.*(?:\n>.*)*)\n((?:(?!\$ ).*\n)*)", block, flags=re.M)
                found.append((page.name, [(re.sub(r"^> ?", "", typed, flags=re.M), shown) for typed, shown in steps]))
    return found


@pytest.mark.parametrize(("page", "steps"), sessions(), ids=lambda value: str(value)[:60])
def test_console_examples(
    page: str,
    steps: list[tuple[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    assert steps
    if any("$QUEUE" in command for command, _ in steps):
        monkeypatch.setenv("QUEUE", request.getfixturevalue("redis_server").address("").rstrip("/"))
    if any("$DATABASE" in command for command, _ in steps):
        address = request.getfixturevalue("database").address
        monkeypatch.setenv("DATABASE", address.partition("&schema=")[0] if page == "queue.md" else address)
    with ExitStack() as ended:
        port = DOCUMENTED
        for command, shown in steps:
            if command.endswith("&"):
                port = ended.enter_context(serve_example(command, shown, tmp_path))
            else:
                run_example(command.replace(f":{DOCUMENTED}", f":{port}"), shown, tmp_path)


DOCUMENTED = "8080"
"""The port of a service in the guides; the tests use another, since this one may be taken."""


@contextlib.contextmanager
def serve_example(command: str, shown: str, folder: Path) -> Iterator[str]:
    """Start a service in the background, which is ended with the other steps; the port that it has."""
    line = [sys.executable, "-m", *shlex.split(command)[:-1], "--port", "0"]
    with subprocess.Popen(line, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        limit = threading.Timer(100, process.kill)
        limit.start()
        try:
            assert process.stdout is not None
            printed = process.stdout.readline()
            port = printed.strip().rpartition(":")[2]
            check_output(shown, printed.replace(f":{port}", f":{DOCUMENTED}"))
            yield port
        finally:
            process.terminate()
            process.wait(timeout=20)
            limit.cancel()


def run_example(command: str, shown: str, folder: Path) -> None:
    words = shlex.split(command)
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), flags=re.M), f"no target {words[1]}"
        assert not shown or command == "make demo", "tests/test_demo.py compares what the demo prints"
        return
    if words[:2] == ["pip", "install"]:
        extras = re.findall(r"\[(.*)\]", words[-1])
        assert set(",".join(extras).split(",")) - {""} <= set(PROJECT["project"]["optional-dependencies"])
        return
    check_output(shown, run_command(command, folder))


def check_output(shown: str, printed: str) -> None:
    """Compare what a page shows, where dots stand for anything, with what a command prints."""
    pattern = ".*".join(map(re.escape, shown.strip().split("...")))
    lines = "\n".join(line.rstrip() for line in printed.strip().splitlines())
    assert re.fullmatch(pattern, lines, flags=re.S), lines


def run_command(command: str, folder: Path) -> str:
    """What a command line prints; the shell starts it, except a call of ours at its end, which then runs in here."""
    before, bar, last = command.replace("\\\n", " ").rpartition("| ")
    words = shlex.split(last)
    if words[0] == "vestige" and not set("|<>;&*$") & set(last):
        given = run_shell(before, folder) if bar else None
        with contextlib.chdir(folder):
            result = CliRunner().invoke(
                vestige.cli.command, words[1:], input=given, prog_name="vestige", catch_exceptions=False
            )
        assert result.exit_code == 0, result.output
        return result.stdout
    return run_shell(command, folder)


def run_shell(command: str, folder: Path) -> str:
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    started = ["bash", "-c", command]
    return subprocess.run(started, cwd=folder, env=environment, check=True, capture_output=True, text=True).stdout


def test_no_example_escapes() -> None:
    """Python is shown as a session, which doctest runs; shell as `$ ...`, which the test above runs.

    The script of README's nightly job is run by tests/test_nightly.py.
    """
    for page in PAGES:
        for language in ("python", "py", "sh", "bash", "shell"):
            for block in blocks(page, language) if (page.name, language) != ("README.md", "sh") else ():
                assert language == "python", f"{page.name}: use console"
                assert block.startswith(">>>"), f"{page.name}: show a session"


def test_linked_files_exist() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


THEOREMS, NOTATION = (ROOT / "docs" / name for name in ("theorems.md", "notation.md"))


def named(dotted: str) -> object:
    """What a dotted name means: a module, or something in one."""
    first, *others = dotted.split(".")
    found: object = importlib.import_module(first)
    for i, part in enumerate(others, start=1):
        if not hasattr(found, part):
            importlib.import_module(".".join([first, *others[:i]]))
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_names_exist(page: Path) -> None:
    for name in set(re.findall(r"`(vestige(?:\.\w+)+)", page.read_text())):
        if name != "vestige.toml":  # a file
            named(name)


def test_each_claim_has_its_row() -> None:
    text = THEOREMS.read_text()
    claims = (
        "Proposition 2.1, Theorem 3.1, Lemma 3.2, Lemma 3.3, Proposition 3.4, Theorem 3.5, Theorem 3.6, Theorem 4.1"
    )
    for claim in [*claims.split(", "), "Lemma 4.2", "Appendix D", "Footnote on outliers"]:
        row = re.search(rf"^\| \*\*{claim}\*\*.*$", text, flags=re.M)
        assert row, claim
        assert "`vestige." in row[0], claim
        assert "`tests/" in row[0], claim


def notation() -> list[tuple[str, str]]:
    """Each name in the table of notation, with where it is said to be found."""
    rows = [line.split("|")[1:-1] for line in NOTATION.read_text().splitlines() if line.startswith("|")][2:]
    return [(name, row[3]) for row in rows for name in re.findall(r"`(\w+)`", row[1])]


@pytest.mark.parametrize(("name", "where"), notation(), ids=lambda value: value.strip()[:40])
def test_each_name_is_where_the_notation_says(name: str, where: str) -> None:
    places = [named(dotted) for dotted in re.findall(r"`([\w.]+)`", where)]
    assert places
    assert any(
        hasattr(place, name)
        or (callable(place) and name in inspect.signature(place).parameters)
        or name in getattr(getattr(place, "__code__", None), "co_varnames", ())
        for place in places
    )


def tracked() -> list[str]:
    return subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()


def test_nothing_that_lies_beside_a_store_is_part_of_the_project() -> None:
    assert [name for name in tracked() if ".inbox/" in name] == []


DOI = re.compile("https" + r"://doi\.org/([^\s`'\"]+)")


def cited(text: str) -> set[str]:
    """The DOIs that a text cites, without what follows them; some have brackets of their own."""
    dois = set()
    for match in DOI.findall(text):
        doi = match.rstrip(".,:;>")
        while doi.count(")") > doi.count("("):
            doi = doi[:-1].rstrip(".,:;")
        dois.add(doi)
    return dois


def test_no_host_is_named_but_in_citations() -> None:
    """Stand-ins for any host, names that are reserved for examples, this machine and namespaces are none."""
    stand_ins = r"HOST|host\b|user:|127\.0\.0\.1|0\.0\.0\.0|localhost|\[|[\w.:@-]*\.?example\b|nowhere\.invalid|\W|$"
    scheme = re.compile('(?<!xmlns=")' + "http" + rf"s?://(?!doi\.org/10\.|{stand_ins})", re.M)
    for name in tracked():
        if not name.endswith(".png") and "/vendor/" not in name:
            assert not scheme.search((ROOT / name).read_text(encoding="utf-8", errors="replace")), name


def test_every_cited_paper_is_in_the_bibliography() -> None:
    listed = cited((ROOT / "docs" / "bibliography.md").read_text())
    assert listed
    for name in tracked():
        if name.endswith((".py", ".md")):
            text = (ROOT / name).read_text()
            assert cited(text) <= listed, name
            assert name.endswith(".md") or not re.search("[ (]doi" + ":10", text), f"{name}: write a link"


def test_each_target_of_make_is_defined_once() -> None:
    text = (ROOT / "Makefile").read_text()
    named = re.findall(r"^\.PHONY: (.*)$", text, re.M)[0].split()
    assert sorted(re.findall(r"^([a-z-]+):", text, re.M)) == sorted(named)
