"""One table of policies: what a store can reopen, what the command offers, and what plans and tests go through.

A new statistic of the package is one file, and one line here. A policy from outside the package is registered with
`register_policy`; nothing that is not registered is ever made from a file.
Guarantee: held by tests/test_additions.py and tests/test_serialization.py.
"""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import TypeVar

from vestige.errors import ParameterError
from vestige.policies.bundle import Bundle
from vestige.policies.correlation import Correlation
from vestige.policies.count import Count
from vestige.policies.covariance import Covariance
from vestige.policies.distinct import Distinct
from vestige.policies.exact_histogram import ExactHistogram
from vestige.policies.extremes import Extremes
from vestige.policies.histogram import Histogram, Shares
from vestige.policies.histogram_quantiles import HistogramQuantiles
from vestige.policies.linear import LinearRegression
from vestige.policies.logistic import LogisticRegression
from vestige.policies.mean import Mean
from vestige.policies.moments import Moments
from vestige.policies.named_policy import NamedPolicy
from vestige.policies.private import Private
from vestige.policies.quantiles import Quantiles
from vestige.policies.ratio import Ratio
from vestige.policies.sum import Sum
from vestige.policies.top_k import TopK
from vestige.policies.window import Window
from vestige.policy import Policy
from vestige.validation import show_value

P = TypeVar("P", bound=type[Policy])

STATISTICS: dict[str, type[NamedPolicy]] = {
    kind.name: kind
    for kind in (
        Mean,
        Sum,
        Count,
        Histogram,
        ExactHistogram,
        Shares,
        Ratio,
        Moments,
        Covariance,
        Correlation,
        LinearRegression,
        LogisticRegression,
        Extremes,
        Quantiles,
        HistogramQuantiles,
        TopK,
        Distinct,
    )
}
"""The statistics that the command offers, by their names for `--statistic`."""

_WRAPPERS: tuple[type[Policy], ...] = (Bundle, Private, Window)

POLICIES: dict[str, type[Policy]] = {f"vestige.{kind.__name__}": kind for kind in (*STATISTICS.values(), *_WRAPPERS)}
"""The policies that can be made from stored parameters, by the name in the store."""


def register_policy(kind: P, name: str | None = None) -> P:
    """Let stores reopen streams of a policy class; can be used as a decorator.

    Args:
        kind: the class: a frozen dataclass whose fields are numbers, texts, policies or None.
        name: the name in the store; default: the module and the name of the class. Do not change it later.

    Returns:
        the class itself.

    Raises:
        ParameterError: it is not such a class, or the name belongs to another one.

    Example:
        >>> from dataclasses import dataclass
        >>> from vestige import Mean
        >>> @register_policy
        ... @dataclass(frozen=True)
        ... class DoubleMean(Mean):
        ...     pass
    """
    if not (isinstance(kind, type) and issubclass(kind, Policy) and is_dataclass(kind)):
        raise ParameterError(
            f"kind={show_value(kind)} is not a dataclass derived from vestige.Policy; pass such a class"
        )
    name = f"{kind.__module__}.{kind.__qualname__}" if name is None else name
    if POLICIES.get(name, kind) is not kind:
        raise ParameterError(f"name={name!r} belongs to another policy; use another name")
    POLICIES[name] = kind
    return kind
