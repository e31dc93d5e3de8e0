"""Policies as plain data: how a store remembers them, and how they are made again.

A policy of another package registers itself when it is imported, and an entry point of its name says what to import.
Guarantee: a registered policy that is stored and made again is equal to itself, and nothing but registered classes is
ever made from a file; held by tests/test_serialization.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass

from vestige.channels import CHANNELS, Channel
from vestige.errors import MissingExtraError, StoreError
from vestige.plugins import POLICIES as PLUGINS
from vestige.plugins import load_plugins
from vestige.policies import POLICIES
from vestige.policy import Policy


def to_dict(policy: Policy) -> dict[str, object]:
    """Describe a policy as plain data: its name and its parameters.

    Args:
        policy: the policy.

    Returns:
        a dictionary that JSON can hold.

    Example:
        >>> from vestige import Mean
        >>> to_dict(Mean(dim=2))["name"]
        'vestige.Mean'
    """
    kind = type(policy)
    names = _list_parameters(policy) if is_dataclass(policy) else sorted(vars(policy))
    registered = next((name for name, other in POLICIES.items() if other is kind), None)
    return {
        "name": registered or f"{kind.__module__}.{kind.__qualname__}",
        "parameters": {name: _to_plain(getattr(policy, name)) for name in names},
    }


def _list_parameters(policy: Policy) -> list[str]:
    """List the parameters to describe; one that was added to a class later only if it is not the default.

    So the terms of a store that was made before are still the same.
    """
    return [
        field.name
        for field in fields(policy)  # type: ignore[arg-type]  # it is a dataclass
        if not (field.metadata.get("added_later") and getattr(policy, field.name) == field.default)
    ]


def _to_plain(value: object) -> object:
    if isinstance(value, Policy):
        return to_dict(value)
    if isinstance(value, Channel):
        if CHANNELS.get(value.name) == value:
            return value.name
        return repr(value) if is_dataclass(value) else f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, tuple | list):
        return [_to_plain(item) for item in value]
    if callable(value):
        return f"{value.__module__}.{getattr(value, '__qualname__', type(value).__qualname__)}"
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


def from_dict(description: Mapping[str, object]) -> Policy:
    """Make a policy from its description.

    Args:
        description: what `to_dict` returned.

    Returns:
        the policy.

    Raises:
        StoreError: its class is not registered, or the parameters do not fit it.

    Example:
        >>> from vestige import Mean
        >>> from_dict(to_dict(Mean(dim=2))) == Mean(dim=2)
        True
    """
    name, parameters = description["name"], description["parameters"]
    problem = "" if name in POLICIES else _load_plugin(str(name))
    if name not in POLICIES or not isinstance(parameters, Mapping):
        raise StoreError(
            f"policy {name} is not registered, so it cannot be made from its name{problem}; import the module that "
            "registers it with vestige.register_policy, or open the stream in Python with vestige.Stream(policy, ..., "
            "store=...)"
        )
    given = {key: _from_plain(value) for key, value in parameters.items()}
    try:
        return POLICIES[str(name)](**given)
    except (TypeError, ValueError, MissingExtraError) as problem:
        raise StoreError(
            f"policy {name} cannot be made from its stored parameters ({problem}); open the stream in Python"
        ) from None


def _load_plugin(name: str) -> str:
    """Import the packages that declare a policy of this name, which register it; why one could not be, if so."""
    problems = [plugin.problem for plugin in load_plugins(PLUGINS, name) if plugin.problem]
    return f" ({'; '.join(problems)})" if problems else ""


def _from_plain(value: object) -> object:
    if isinstance(value, Mapping):
        return from_dict(value)
    return tuple(_from_plain(item) for item in value) if isinstance(value, list) else value
