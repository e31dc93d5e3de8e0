"""What other installed packages add, by entry points; one that cannot be loaded is named, and breaks nothing else.

A package declares a policy in the group `vestige.policies` and an experiment in `vestige.experiments`, as
docs/guides/policy.md shows.
Guarantee: a broken plug-in is reported with its name and the reason, and the others are loaded; held by
tests/test_plugins.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

POLICIES, EXPERIMENTS = "vestige.policies", "vestige.experiments"


@dataclass(frozen=True, slots=True, eq=False)
class Plugin:
    """An entry point of another package.

    Attributes:
        name: name of the entry point.
        value: what it refers to, such as `package.module:Class`.
        package: name and version of the package.
        loaded: the object; None if it cannot be loaded.
        problem: why it cannot be loaded, as a sentence; empty if it is.
    """

    name: str
    value: str
    package: str
    loaded: object
    problem: str = ""


def load_plugins(group: str, name: str | None = None) -> list[Plugin]:
    """Load what installed packages declare in a group.

    Args:
        group: `POLICIES` or `EXPERIMENTS`.
        name: load only those of this name. Default: all.

    Returns:
        The plug-ins by name, those that cannot be loaded among them.

    Example:
        >>> load_plugins("vestige.nothing")
        []
    """
    found = entry_points(group=group) if name is None else entry_points(group=group, name=name)
    return [_load(point) for point in sorted(found, key=lambda point: (point.name, point.value))]


def list_names(group: str) -> list[str]:
    """List the names of a group, without loading anything.

    Args:
        group: `POLICIES` or `EXPERIMENTS`.

    Returns:
        The names, sorted.

    Example:
        >>> list_names("vestige.nothing")
        []
    """
    return sorted({point.name for point in entry_points(group=group)})


def _load(point: EntryPoint) -> Plugin:
    package = f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown package"
    try:
        return Plugin(point.name, point.value, package, point.load())
    except (Exception, SystemExit) as problem:  # whatever a stranger's module does when it is imported
        reason = f"{type(problem).__name__}: {problem}".rstrip(": ")
        said = (
            f"plug-in {point.name} ({point.value}, of {package}) cannot be loaded: {reason}; update or remove {package}"
        )
        return Plugin(point.name, point.value, package, None, said)
