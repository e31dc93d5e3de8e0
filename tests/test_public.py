"""The public surface is an artefact, and importing it is cheap."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from types import ModuleType

import vestige
from vestige import errors

HEAVY = ("numba", "scipy", "pyarrow", "rich", "click", "matplotlib", "pandas")


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


def test_import_is_light() -> None:
    program = "import sys, json, vestige; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout)
    assert not set(HEAVY) & set(loaded)


def test_the_version_is_that_of_the_package() -> None:
    assert vestige.__version__ == version("vestige")
