"""Plug-ins of other packages: loaded by entry points, and harmless if they are broken."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from vestige.errors import StoreError
from vestige.plugins import load_plugins
from vestige.serialization import from_dict

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """A function that installs a package with one module and some entry points, for the length of a test."""
    monkeypatch.syspath_prepend(tmp_path)

    def add(module: str, source: str, points: str) -> None:
        (tmp_path / f"{module}.py").write_text(source)
        facts = tmp_path / f"{module}-1.2.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.2\n")
        (facts / "entry_points.txt").write_text(points)

    return add


def test_a_broken_plugin_is_named_and_the_others_are_loaded(install: Install) -> None:
    install("whole_plugin", "number = 3", "[vestige.some]\nwhole = whole_plugin:number\n")
    install("torn_plugin", "import no_such_module", "[vestige.some]\ntorn = torn_plugin:number\n")
    install("gone_plugin", "import sys; sys.exit(2)", "[vestige.some]\ngone = gone_plugin:number\n")
    gone, torn, whole = load_plugins("vestige.some")
    assert (whole.loaded, whole.problem, whole.package) == (3, "", "whole_plugin 1.2")
    assert torn.loaded is None
    assert torn.problem == (
        "plug-in torn (torn_plugin:number, of torn_plugin 1.2) cannot be loaded: ModuleNotFoundError: No module named "
        "'no_such_module'; update or remove torn_plugin 1.2"
    )
    assert "SystemExit: 2" in gone.problem


SAVED = """
from dataclasses import dataclass
import vestige

@vestige.register_policy
@dataclass(frozen=True)
class Saved(vestige.Mean):
    pass
"""


def test_a_store_finds_the_policy_of_a_plugin_by_its_name(install: Install) -> None:
    stored = {"name": "saved_plugin.Saved", "parameters": {"dim": 2}}
    with pytest.raises(StoreError, match=r"policy saved_plugin\.Saved is not registered"):
        from_dict(stored)
    install("saved_plugin", SAVED, "[vestige.policies]\nsaved_plugin.Saved = saved_plugin:Saved\n")
    install("other_plugin", "", "[vestige.policies]\nother = other_plugin:nothing\n")
    assert from_dict(stored).columns == 2
    assert "other_plugin" not in sys.modules  # nobody asked for it, so none of its code runs


def test_a_store_says_why_the_policy_of_a_plugin_cannot_be_made(install: Install) -> None:
    install("lost_plugin", "1 / 0", "[vestige.policies]\nlost_plugin.Lost = lost_plugin:Lost\n")
    with pytest.raises(StoreError, match=r"plug-in lost_plugin\.Lost .* cannot be loaded: ZeroDivisionError"):
        from_dict({"name": "lost_plugin.Lost", "parameters": {}})
