"""The public surface is an artefact, and importing it is cheap."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from types import ModuleType

import vestige
from vestige import errors

HEAVY = {"numba", "scipy", "pyarrow", "rich", "click", "matplotlib", "pandas", "datasketches"}


def test_all_is_the_sorted_public_names() -> None:
    public = [name for name in vars(vestige) if not name.startswith("_")]
    named = [name for name in public if not isinstance(getattr(vestige, name), ModuleType)]
    assert vestige.__all__ == sorted(vestige.__all__)
    assert set(named) <= set(vestige.__all__)
    assert all(hasattr(vestige, name) for name in vestige.__all__)


def test_the_error_tree_is_drawn_whole() -> None:
    kinds = {name: value for name, value in vars(errors).items() if isinstance(value, type)}
    defined = {name for name, kind in kinds.items() if kind.__module__ == errors.__name__}
    assert all(f"{name} " in (errors.__doc__ or "") or f"{name}\n" in (errors.__doc__ or "") for name in defined)
    assert all(issubclass(getattr(errors, name), errors.VestigeError) for name in defined)


def test_every_error_is_exported() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert all(getattr(vestige, kind.__name__) is kind and kind.__name__ in vestige.__all__ for kind in kinds)


def loaded(statement: str) -> set[str]:
    """The modules that a statement imports."""
    program = f"import json, sys; {statement}; print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_import_is_light() -> None:
    assert not loaded("import vestige") & HEAVY


def test_the_command_starts_light() -> None:
    """What reads files and what computes is imported once there is something to read or to compute."""
    assert not loaded("from vestige.cli.group import load_commands; load_commands()") & HEAVY - {"rich", "click"}
    called = loaded("from vestige.cli import command; command(['estimate', '--help'], standalone_mode=False)")
    assert "vestige.cli.store" in called
    assert "vestige.cli.run" not in called


def test_the_version_is_that_of_the_package() -> None:
    assert vestige.__version__ == version("vestige")
