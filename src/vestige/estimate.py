"""What a stream answers: the statistic, and how many records it counts.

A policy answers with an estimate, of which `value`, `notes` and `missed` are its own; the stream fills in the rest.
Each statistic has a subclass with fields of its own, such as `standard_error`, which completion and type checkers know.
Guarantee: `mypy --strict` knows the type of each stream's estimate; held by tests/test_typed.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vestige.types import Floats

if TYPE_CHECKING:
    from typing_extensions import TypeVar
else:
    from typing import TypeVar


@dataclass(frozen=True, eq=False)
class Estimate:
    """What the retained records say, and how many records that counts.

    Attributes:
        value: the statistic; a float in one dimension, otherwise an array.
        notes: what to know about the answer, in sentences.
        missed: whether the answer may be further off than its standard error says: what is kept has missed its target,
            or rounding matters.
        t: the number of records that have arrived.
        since: the round from which the statistic counts; above 1 where it has started over.
        counted: the number of records that the statistic counts.
        held: the number of records that are retained.
        oldest_age: the number of rounds since the oldest of them arrived.

    Example:
        >>> Estimate(1.5, notes=("Only an example.",)).value
        1.5
    """

    value: float | Floats
    notes: tuple[str, ...] = field(default=(), kw_only=True)
    missed: bool = field(default=False, kw_only=True)
    t: int = field(default=0, kw_only=True)
    since: int = field(default=1, kw_only=True)
    counted: int = field(default=0, kw_only=True)
    held: int = field(default=0, kw_only=True)
    oldest_age: int = field(default=0, kw_only=True)


E = TypeVar("E", bound=Estimate)
"""A kind of estimate, in functions."""

if TYPE_CHECKING:
    E_co = TypeVar("E_co", bound=Estimate, default=Estimate, covariant=True)
else:
    E_co = TypeVar("E_co", bound=Estimate, covariant=True)  # defaults of type variables came with Python 3.13
"""The kind of estimate of a policy or a stream; default: `Estimate`."""
