"""Policies side by side: how exact, how revealing, and which definitions of deletion they meet, as seen from outside.

docs/audit.md explains the definitions. Retention is decided by looking; the others are only bounded: an audit can
refute them, and never prove them.
Guarantee: an honest window meets all, presence bits fail all but retention; held by tests/audit/test_comparison.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vestige import paper
from vestige.audit.game import Data
from vestige.audit.leakage import ADVERSARIES, Leakage, leakage, source_of
from vestige.errors import ParameterError
from vestige.policies import Mean, Private, Window
from vestige.policy import Policy
from vestige.random.generators import make_generator
from vestige.random.keys import AuditSeed
from vestige.stream import Stream
from vestige.types import Floats
from vestige.validation import show_value

HEADER = ("policy", "off by", "retention", "same as replaced", "epsilon", "guessed to", "membership")
_ACCURACY_RUNS = 100


@dataclass(frozen=True, slots=True)
class Compared:
    """One policy, audited by both adversaries.

    Attributes:
        name: what the policy was called.
        off: how far its answer is from the mean of all records, in standard errors of that mean; the root mean square.
        held: whether every record was gone in time, whenever somebody looked.
        known: what he finds who knows all other records.
        drawn: what he finds who knows their distribution.
    """

    name: str
    off: float
    held: bool
    known: Leakage
    drawn: Leakage

    @property
    def same(self) -> bool:
        """Whether the state could be that of the replaced world, as far as the audit can tell: exact unlearning."""
        return self.known.total_variation == 0.0

    @property
    def facts(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "policy": self.name,
            "off": self.off,
            "retention_held": self.held,
            "same_as_replaced": self.same,
            "known": self.known.facts,
            "drawn": self.drawn.facts,
        }

    @property
    def cells(self) -> tuple[str, ...]:
        """What a table shows; see `HEADER`."""
        known, drawn = self.known, self.drawn
        told = f"no: {known.total_variation:.0%} told" if not self.same else "not refuted"
        return (
            self.name,
            f"{self.off:.3g} s.e.",
            "held" if self.held else "NOT HELD",
            told,
            f">= {known.epsilon:.2f}",
            "-" if known.reconstruction > 0.9 else f"{known.reconstruction:.1g}",
            f">= {drawn.epsilon:.2f}, AUC {drawn.auc:.2f}",
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of `compare`.

    Attributes:
        rows: one for each policy.
        batches: how many batches after the record was erased all this was found.
    """

    rows: tuple[Compared, ...]
    batches: float

    def __str__(self) -> str:
        table = [HEADER, *(row.cells for row in self.rows)]
        widths = [max(len(line[i]) for line in table) for i in range(len(HEADER))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in table]
        return "\n".join(line.rstrip() for line in lines)

    def __getitem__(self, name: str) -> Compared:
        """The policy of this name."""
        return {row.name: row for row in self.rows}[name]


def default_policies(bound: float = 3.0) -> dict[str, Policy]:
    """The policies that one would compare; `bound` is for `Private`, whose promise is epsilon 1 at delta 1e-6.

    >>> list(default_policies())
    ['Window', 'paper.SimpleMean', 'Mean, average', 'Mean, bits', 'Private, epsilon 1']
    """
    return {
        "Window": Window(),
        "paper.SimpleMean": paper.SimpleMean(),
        "Mean, average": Mean(channel="average"),
        "Mean, bits": Mean(channel="bits"),
        "Private, epsilon 1": Private(bound=bound, epsilon=1.0, delta=1e-6),
    }


def compare(
    policies: Mapping[str, Policy] | None = None,
    *,
    retention: int = 64,
    t: int = 64 + 32 * 100 + 1,
    trials: int = 1_000,
    data: ArrayLike | Data | None = None,
    seed: int = 0,
    workers: int | None = None,
    progress: Callable[[float], None] = lambda _: None,
    **options: Any,
) -> Comparison:
    """Audit each policy with both adversaries, and measure how near its answer is to the mean of all records.

    Args:
        policies: by name, each a policy whose answer is the mean of its columns; `default_policies()` unless said.
        retention: of their streams.
        t: how many records arrive.
        trials: of each audit, in each world.
        data: see `leakage`.
        seed: makes it reproducible.
        workers: processes to play in.
        progress: is told the share that has been done.
        options: for `leakage`, such as `values`, `confidence` or `delta`.
    """
    named = default_policies() if policies is None else policies
    if not isinstance(named, Mapping):
        raise ParameterError(f"policies={show_value(named)} are not policies by name; pass a dict of them")
    if not named:
        raise ParameterError("policies is empty; pass at least one, by name, or leave it out for the usual ones")
    rows = []
    for i, (name, policy) in enumerate(named.items()):
        found = {}
        for j, adversary in enumerate(ADVERSARIES):
            found[adversary] = leakage(
                policy,
                retention=retention,
                t=t,
                trials=trials,
                adversary=adversary,
                data=data,
                seed=seed,
                workers=workers,
                progress=lambda share, before=2 * i + j: progress((before + share) / (2 * len(named))),  # type: ignore[misc]
                **options,
            )
        off = _off(policy, retention, t, source_of(data, policy.columns), seed)
        known, drawn = (found[adversary] for adversary in ADVERSARIES)
        rows.append(Compared(name, off, not (known.overdue or drawn.overdue), known, drawn))
    return Comparison(tuple(rows), rows[0].known.looks[-1].age / max(1, retention // 2))


def _off(policy: Policy, retention: int, t: int, draw: Data, seed: int) -> float:
    """How far the answer is from the mean of all records, in its standard errors; the root mean square of many runs."""
    gaps: list[Floats] = []
    for run in range(_ACCURACY_RUNS):
        rows = draw(make_generator(seed, 4, run), t)
        stream = Stream(policy, retention=retention, seed=AuditSeed(run))
        stream.extend(rows)
        answer = np.ravel(np.asarray(stream.estimate().value))
        if answer.shape != (policy.columns,):
            raise ParameterError(
                f"{type(policy).__name__} answers with {answer.size} numbers for {policy.columns} columns; compare "
                "takes policies whose answer is the mean of each column: use leakage for others"
            )
        spread = rows.std(axis=0) / np.sqrt(t)
        gaps.append((answer - rows.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0))
    return float(np.sqrt(np.mean(np.square(gaps))))
