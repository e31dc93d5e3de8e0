"""Policies by name and parameters: how a store remembers them, and how they are made again.

Guarantee: a policy of ours that is described and made again is equal to itself, and nothing but our own classes is ever
made from a file; held by tests/test_serialization.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass

from vestige import paper, policies
from vestige.errors import StoreError
from vestige.policy import Policy

_OURS: dict[str, type[Policy]] = {
    "vestige.Covariance": policies.Covariance,
    "vestige.LinearRegression": policies.LinearRegression,
    "vestige.LogisticRegression": policies.LogisticRegression,
    "vestige.Mean": policies.Mean,
    "vestige.Moments": policies.Moments,
    "vestige.Private": policies.Private,
    "vestige.Window": policies.Window,
    "vestige.paper.CoordinateMean": paper.CoordinateMean,
    "vestige.paper.Regression": paper.Regression,
    "vestige.paper.SimpleMean": paper.SimpleMean,
}
_NAMES = {kind: name for name, kind in _OURS.items()}


def to_dict(policy: Policy) -> dict[str, object]:
    """The policy as plain data: its class and its parameters.

    >>> from vestige import Mean
    >>> to_dict(Mean(dim=2))["name"]
    'vestige.Mean'
    """
    kind = type(policy)
    names = [field.name for field in fields(policy)] if is_dataclass(policy) else sorted(vars(policy))
    return {
        "name": _NAMES.get(kind, f"{kind.__module__}.{kind.__qualname__}"),
        "parameters": {name: _plain(getattr(policy, name)) for name in names},
    }


def _plain(value: object) -> object:
    if isinstance(value, Policy):
        return to_dict(value)
    if callable(value):
        return f"{value.__module__}.{getattr(value, '__qualname__', type(value).__qualname__)}"
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


def from_dict(description: Mapping[str, object]) -> Policy:
    """The policy that was described; an error if it is none of ours."""
    name, parameters = description["name"], description["parameters"]
    if name not in _OURS or not isinstance(parameters, Mapping):
        raise StoreError(
            f"policy {name} is none of Vestige's own, so it cannot be made from its name; open the stream in Python "
            "with vestige.Stream(policy, ..., store=...)"
        )
    given = {key: from_dict(value) if isinstance(value, Mapping) else value for key, value in parameters.items()}
    try:
        return _OURS[str(name)](**given)
    except (TypeError, ValueError) as problem:
        raise StoreError(
            f"policy {name} cannot be made again from its stored parameters ({problem}); open the stream in Python"
        ) from None
