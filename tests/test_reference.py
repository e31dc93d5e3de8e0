"""The reference is complete: each public callable documents arguments, result and errors, and has an example."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from vestige import errors

ROOT = Path(__file__).parent.parent
MODULES = sorted(path.stem for path in (ROOT / "docs" / "reference").glob("vestige*.md"))


def public_callables(module: str) -> Iterator[tuple[str, Callable[..., Any], str]]:
    """Each public function and class of a module, and the public methods of its classes, with all their docstrings.

    A method that overrides another may leave sections to the one that it overrides.
    """
    found = importlib.import_module(module)
    own = [name for name, value in vars(found).items() if getattr(value, "__module__", None) == module]
    for name in getattr(found, "__all__", [each for each in own if not each.startswith("_")]):
        value = getattr(found, name)
        if inspect.isfunction(value) or (inspect.isclass(value) and not issubclass(value, BaseException)):
            yield f"{module}.{name}", value, value.__doc__ or ""
        if inspect.isclass(value):
            for method, defined in vars(value).items():
                function = getattr(value, method)
                is_ours = inspect.isfunction(defined) or isinstance(defined, (classmethod, staticmethod))
                if is_ours and not method.startswith("_"):
                    overridden = [vars(base)[method] for base in value.__mro__ if method in vars(base)]
                    docs = (inspect.getdoc(each) or "" for each in overridden)
                    yield f"{module}.{name}.{method}", function, "".join(docs)


def missing_sections(value: Callable[..., Any], doc: str) -> list[str]:
    """The sections that a docstring should have and does not."""
    if dataclasses.is_dataclass(value):
        fields = [each.name for each in dataclasses.fields(value) if not each.name.startswith("_")]
        return [] if "Attributes:" in doc or "Args:" in doc or not fields else ["Attributes:"]
    if inspect.isclass(value) and issubclass(value, tuple):
        return [] if "Attributes:" in doc else ["Attributes:"]
    if inspect.isclass(value):
        return [] if ">>>" in doc or inspect.isabstract(value) else [">>>"]
    signature = inspect.signature(value)
    needed = {
        "Args:": bool({name for name in signature.parameters if not name.startswith("_")} - {"self", "cls"}),
        "Returns:": str(signature.return_annotation) not in ("None", "Self") and "Yields:" not in doc,
        ">>>": "." not in value.__qualname__,
    }
    return [each for each, is_needed in needed.items() if is_needed and each not in doc]


@pytest.mark.parametrize("module", MODULES)
def test_every_public_callable_is_documented(module: str) -> None:
    missing = {name: missing_sections(value, doc) for name, value, doc in public_callables(module)}
    assert {name: sections for name, sections in missing.items() if sections} == {}


def raised_errors(function: Callable[..., Any]) -> set[str]:
    """The errors of Vestige that the body of a function raises itself."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    calls = (node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call))
    return {call.func.id for call in calls if isinstance(call.func, ast.Name) and hasattr(errors, call.func.id)}


@pytest.mark.parametrize("module", MODULES)
def test_every_error_that_is_raised_is_documented(module: str) -> None:
    for name, value, doc in public_callables(module):
        if not inspect.isclass(value):
            sections = "".join(doc.split("Raises:")[1:])
            assert [each for each in raised_errors(value) if f"{each}:" not in sections] == [], name
