"""Policies side by side: how accurate they are, how much they reveal, and which definitions of deletion they meet.

docs/audit.md explains the definitions. Retention is observed directly; the other definitions are only bounded: an audit
can refute them, and never prove them.
Guarantee: a sliding window meets all definitions, presence bits fail all but retention; held by
tests/audit/test_comparison.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vestige import paper
from vestige.audit.data import make_source
from vestige.audit.game import Data
from vestige.audit.leakage import ADVERSARIES, Leakage, measure_leakage
from vestige.errors import ParameterError
from vestige.markup import make_table
from vestige.policies import Mean, Private, Window
from vestige.policy import Policy
from vestige.random.generators import make_generator
from vestige.random.keys import AuditSeed
from vestige.stream import Stream
from vestige.types import Floats
from vestige.validation import show_value

HEADER = ("policy", "error", "retention", "exact unlearning", "epsilon", "reconstruction", "membership")
_ACCURACY_TRIALS = 100


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One policy, audited with both adversaries.

    Attributes:
        name: name of the policy.
        error: root mean square error of its answer as an estimate of the mean of all records, in standard errors of
            that mean.
        meets_retention: whether every record was erased in time, at every checkpoint.
        knows_all: what an adversary who knows all other records finds.
        knows_distribution: what an adversary who knows the distribution of the records finds.
    """

    name: str
    error: float
    meets_retention: bool
    knows_all: Leakage
    knows_distribution: Leakage

    @property
    def refutes_unlearning(self) -> bool:
        """Whether the state depends on the erased value, which refutes exact unlearning."""
        return self.knows_all.total_variation > 0.0

    def to_dict(self) -> dict[str, Any]:
        """Convert the row to plain data, as for JSON.

        Returns:
            A dictionary with a key for each attribute.
        """
        return {
            "policy": self.name,
            "error": self.error,
            "meets_retention": self.meets_retention,
            "refutes_unlearning": self.refutes_unlearning,
            "knows_all": self.knows_all.to_dict(),
            "knows_distribution": self.knows_distribution.to_dict(),
        }

    @property
    def cells(self) -> tuple[str, ...]:
        """Text of each column of the table; see `HEADER`."""
        known, drawn = self.knows_all, self.knows_distribution
        return (
            self.name,
            f"{self.error:.3g} s.e.",
            "met" if self.meets_retention else "NOT MET",
            f"refuted (TV >= {known.total_variation:.2f})" if self.refutes_unlearning else "not refuted",
            f">= {known.epsilon:.2f}",
            "-" if known.reconstruction > 0.9 else f"{known.reconstruction:.1g}",
            f">= {drawn.epsilon:.2f}, AUC {drawn.auc:.2f}",
        )


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """Result of `compare`; prints as a table, in notebooks too.

    Attributes:
        rows: one row for each policy.
        batches: number of batches between the erasure of the record and the last checkpoint.
    """

    rows: tuple[ComparisonRow, ...]
    batches: float

    def __str__(self) -> str:
        table = [HEADER, *(row.cells for row in self.rows)]
        widths = [max(len(line[i]) for line in table) for i in range(len(HEADER))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in table]
        return "\n".join(line.rstrip() for line in lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return make_table("Policies side by side", HEADER, [row.cells for row in self.rows])

    def to_dict(self) -> dict[str, Any]:
        """Convert the comparison to plain data, as for JSON.

        Returns:
            The number of batches, and a dictionary for each policy.
        """
        return {"batches": self.batches, "policies": [row.to_dict() for row in self.rows]}

    def __getitem__(self, name: str) -> ComparisonRow:
        """Return the row of a policy.

        Args:
            name: name of the policy.

        Returns:
            Its row.

        Raises:
            KeyError: if there is no policy of that name.
        """
        return {row.name: row for row in self.rows}[name]


def default_policies(bound: float = 3.0) -> dict[str, Policy]:
    """Make the policies that `compare` compares by default.

    Args:
        bound: largest length of a record's values, for `Private`, which guarantees epsilon 1 at delta 1e-6.

    Returns:
        The policies by name.

    Example:
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
    """Audit each policy with both adversaries, and measure the error of its answer.

    Args:
        policies: policies by name, each of which answers with the mean of its columns. Default: `default_policies()`.
        retention: retention of every stream, in records.
        t: number of records that arrive.
        trials: number of trials of each hypothesis, in each audit.
        data: records to draw from with replacement, or a function `data(rng, n)`. Default: standard normal.
        seed: seed that makes the comparison reproducible.
        workers: number of processes. Default: one for each core, or fewer if there are few trials.
        progress: called with the fraction of the work that is done.
        options: further arguments of `measure_leakage`, such as `values`, `confidence` or `delta`.

    Returns:
        One row for each policy.

    Raises:
        ParameterError: if there is no policy, a policy answers with something else than the mean of its columns, or
            `measure_leakage` rejects an argument.

    Example:
        >>> found = compare({"Window": Window()}, retention=8, t=40, trials=20, workers=1)
        >>> found["Window"].refutes_unlearning
        False
    """
    named = default_policies() if policies is None else policies
    if not isinstance(named, Mapping):
        raise ParameterError(f"policies={show_value(named)} is not a mapping; pass a dict of policies by name")
    if not named:
        raise ParameterError("policies is empty; pass at least one, by name, or omit it for the default policies")
    rows = []
    for i, (name, policy) in enumerate(named.items()):
        audits = [
            measure_leakage(
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
            for j, adversary in enumerate(ADVERSARIES)
        ]
        error = _measure_error(policy, retention, t, make_source(data, policy.columns), seed)
        rows.append(ComparisonRow(name, error, not any(audit.overdue for audit in audits), *audits))
    return Comparison(tuple(rows), rows[0].knows_all.checkpoints[-1].age / max(1, retention // 2))


def _measure_error(policy: Policy, retention: int, t: int, draw: Data, seed: int) -> float:
    """Return the root mean square error as an estimate of the mean of all records, in its standard errors."""
    errors: list[Floats] = []
    for trial in range(_ACCURACY_TRIALS):
        rows = draw(make_generator(seed, 4, trial), t)
        stream = Stream(policy, retention=retention, seed=AuditSeed(trial))
        stream.extend(rows)
        answer = np.ravel(np.asarray(stream.estimate().value))
        if answer.shape != (policy.columns,):
            raise ParameterError(
                f"{type(policy).__name__} answers with {answer.size} numbers for {policy.columns} columns; compare "
                "needs policies that answer with the mean of each column: use measure_leakage for others"
            )
        spread = rows.std(axis=0) / np.sqrt(t)
        errors.append((answer - rows.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0))
    return float(np.sqrt(np.mean(np.square(errors))))
