"""Policies and experiments are found in a file, or among installed packages, and nothing else of either is touched.

Guarantee: a file that does not import, has nothing in it or hides another module is refused with the reason; held by
tests/lab/test_discovery.py.
"""

from __future__ import annotations

import hashlib
import keyword
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TypeGuard

from vestige.errors import CheckError, ParameterError
from vestige.lab.experiment import Experiment
from vestige.lab.submission import Origin, Submission
from vestige.plugins import EXPERIMENTS, POLICIES, Plugin, load_plugins
from vestige.policy import Policy


@dataclass(frozen=True, slots=True)
class Contents:
    """What a file, or an installed package, adds to the lab.

    Attributes:
        submissions: its policies.
        experiments: its experiments.
    """

    submissions: tuple[Submission, ...] = ()
    experiments: tuple[Experiment, ...] = ()


def load_file(path: str | Path) -> Contents:
    """Import a file, and find its policies and experiments.

    Policies are the classes derived from `vestige.Policy` that it defines and that can be made without arguments, by
    the name of the class; and all policies at its top level, by the name of the variable. Names that begin with an
    underscore are left out.

    Args:
        path: a Python file.

    Returns:
        What it has.

    Raises:
        ParameterError: there is no such file, its name is not one for a module, or it has nothing for the lab.
        CheckError: it cannot be imported.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "means_of_mine.py"
        ...     _ = path.write_text("from vestige import Mean" + chr(10) + "coarse = Mean(tolerance=1.0)")
        ...     [submission.name for submission in load_file(path).submissions]
        ['coarse']
    """
    path = Path(path).absolute()
    if not path.is_file():
        raise ParameterError(f"FILE={path} does not exist, or is not a file; give a Python file with a policy")
    _check_name(path)
    source = path.read_bytes()
    module = _import_source(path, source)
    origin = Origin(path.name, hashlib.sha256(source).hexdigest(), str(path))
    public = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    submissions = tuple(Submission(name, policy, origin) for name, policy in _find_policies(module, public))
    experiments = tuple(value for value in public.values() if isinstance(value, Experiment))
    if not (submissions or experiments):
        raise ParameterError(f"{path.name} has no policy and no experiment{_find_unfinished(module, public)}")
    return Contents(submissions, experiments)


def _check_name(path: Path) -> None:
    """Refuse a name that other processes could not import, or would import something else by."""
    name = path.stem
    if path.suffix != ".py" or not name.isidentifier() or keyword.iskeyword(name):
        raise ParameterError(
            f"FILE={path.name} cannot be imported by this name; use letters, digits and _, and end it in .py"
        )
    present = sys.modules.get(name)
    spec = find_spec(name) if present is None else None
    if present is None and spec is None:
        return
    found = getattr(present, "__file__", None) or (spec and spec.origin)
    if not found or Path(found).absolute() != path:
        raise ParameterError(f"FILE={path.name} has the name of another module, {name}; rename the file")


def _import_source(path: Path, source: bytes) -> ModuleType:
    """The module of exactly these bytes, which other processes import from the folder of the file."""
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None  # noqa: S101  # the name ends in .py
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        exec(compile(source, str(path), "exec"), vars(module))  # noqa: S102  # it is the user's own
    except (Exception, SystemExit) as problem:
        del sys.modules[path.stem]
        raise CheckError(f"{path.name} cannot be imported: {_explain(problem, path)}") from None
    return module


def _explain(problem: BaseException, path: Path) -> str:
    """What was raised, and in which line."""
    frames = traceback.extract_tb(problem.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    if isinstance(problem, SyntaxError) and problem.filename == str(path):
        lines, text = [problem.lineno], problem.msg
    else:
        text = str(problem)
    return f"{type(problem).__name__}{f' in line {lines[-1]}' if lines else ''}{f': {text}' if text else ''}"


def _find_policies(module: ModuleType, public: dict[str, object]) -> Iterator[tuple[str, Policy]]:
    """The policies by name; a class that needs arguments counts through its instances."""
    made = {type(value) for value in public.values() if isinstance(value, Policy)}
    for name, value in public.items():
        if isinstance(value, Policy):
            yield name, value
        elif _is_own_policy(value, module) and not value.__abstractmethods__:
            try:
                policy = value()
            except Exception as problem:
                if value in made:
                    continue
                raise ParameterError(
                    f"{name} cannot be made without arguments ({problem}); give them defaults, or add a policy to the "
                    f"file, such as: mine = {name}(...)"
                ) from None
            yield name, policy


def _is_own_policy(value: object, module: ModuleType) -> TypeGuard[type[Policy]]:
    return isinstance(value, type) and issubclass(value, Policy) and value.__module__ == module.__name__


def _find_unfinished(module: ModuleType, public: dict[str, object]) -> str:
    """Which policies lack something, and what; or what to do if there are none."""
    for name, value in public.items():
        if _is_own_policy(value, module) and value.__abstractmethods__:
            return f": {name} does not define {' and '.join(sorted(value.__abstractmethods__))}"
    return "; define a class derived from vestige.Policy, or a vestige.lab.Experiment"


def load_installed(names: tuple[str, ...] | None = None) -> tuple[Contents, list[str]]:
    """Load the experiments of installed packages, and those of their policies that are named.

    Args:
        names: names of policies. Default: all.

    Returns:
        What they add, and a sentence for each plug-in that cannot be used.

    Example:
        >>> contents, problems = load_installed(("no such policy",))
        >>> contents.submissions
        ()
    """
    policies = [each for each in load_plugins(POLICIES) if names is None or each.name in names]
    experiments, problems = [], []
    for plugin in load_plugins(EXPERIMENTS):
        fault = plugin.problem or _check_kind(plugin, Experiment)
        problems.extend([fault] if fault else [])
        experiments.extend([plugin.loaded] if isinstance(plugin.loaded, Experiment) else [])
    submissions = []
    for plugin in policies:
        made, fault = _make_installed(plugin)
        problems.extend([fault] if fault else [])
        submissions.extend([made] if made else [])
    return Contents(tuple(submissions), tuple(experiments)), problems


def _make_installed(plugin: Plugin) -> tuple[Submission | None, str]:
    """The policy of a plug-in, or why it cannot be used."""
    if plugin.problem:
        return None, plugin.problem
    try:
        policy = plugin.loaded() if isinstance(plugin.loaded, type) else plugin.loaded
    except Exception as problem:  # whatever a stranger's class does when it is called
        return None, f"plug-in {plugin.name}, of {plugin.package}, cannot be made without arguments ({problem})"
    if not isinstance(policy, Policy):
        return None, _check_kind(plugin, Policy)
    found = Submission.from_policy(policy, plugin.name)
    return Submission(plugin.name, policy, Origin(plugin.package, found.origin.digest)), ""


def _check_kind(plugin: Plugin, kind: type) -> str:
    if isinstance(plugin.loaded, kind):
        return ""
    return f"plug-in {plugin.name} ({plugin.value}, of {plugin.package}) is not a {kind.__name__} of Vestige"
