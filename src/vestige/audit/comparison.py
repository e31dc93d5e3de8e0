"""Policies side by side: how accurate they are, how much they reveal, and which definitions of deletion they meet.

docs/audit.md explains the definitions. Retention is observed directly; the other definitions are only bounded: an audit
can refute them, and never prove them.
Guarantee: a sliding window meets all definitions, presence bits fail all but retention; held by
tests/audit/test_comparison.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from vestige import paper
from vestige.audit.data import make_source
from vestige.audit.game import Data
from vestige.audit.leakage import ADVERSARIES, Leakage, measure_leakage
from vestige.errors import ParameterError
from vestige.markup import make_frame, make_table, make_text
from vestige.policies import Mean, Private, Window
from vestige.policy import Policy
from vestige.random.generators import make_generator
from vestige.random.keys import AuditSeed
from vestige.stream import Stream
from vestige.types import Floats
from vestige.validation import check_int, show_value

if TYPE_CHECKING:
    import pandas as pd

HEADER = (
    "policy",
    "retention",
    "error",
    "erased in time",
    "exact unlearning",
    "epsilon",
    "all states",
    "reconstruction",
    "membership",
)
_MEASURES = ("epsilon", "mu", "total_variation", "auc", "reconstruction", "epsilon_ceiling")
_ACCURACY_TRIALS = 100


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One policy, audited with both adversaries.

    Attributes:
        name: name of the policy.
        retention: retention of its stream, in records.
        error: root mean square error of its answer as an estimate of the mean of all records, in standard errors of
            that mean.
        meets_retention: whether every record was erased in time, at every checkpoint.
        is_proved: whether there is a proof that limits what it reveals, as there is for a window and for `Private`.
        knows_all: what an adversary who knows all other records finds.
        knows_distribution: what an adversary who knows the distribution of the records finds.
    """

    name: str
    retention: int
    error: float
    meets_retention: bool
    is_proved: bool
    knows_all: Leakage
    knows_distribution: Leakage

    @property
    def refutes_unlearning(self) -> bool:
        """Whether states without the record depend on its value, which refutes exact unlearning."""
        return self.knows_all.joint.total_variation > 0.0

    def to_dict(self) -> dict[str, Any]:
        """Convert the row to plain data, as for JSON.

        Returns:
            A dictionary with a key for each attribute.
        """
        return {
            "policy": self.name,
            "retention": self.retention,
            "error": self.error,
            "meets_retention": self.meets_retention,
            "is_proved": self.is_proved,
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
            f"{self.retention:,}",
            f"{self.error:.3g} s.e.",
            "met" if self.meets_retention else "NOT MET",
            f"refuted (TV >= {known.joint.total_variation:.2f})" if self.refutes_unlearning else "not refuted",
            f">= {known.epsilon:.2f}",
            f">= {known.joint.epsilon:.2f}",
            "-" if known.reconstruction > 0.9 else f"{known.reconstruction:.1g}",
            f">= {drawn.epsilon:.2f}, AUC {drawn.auc:.2f}",
        )


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """Result of `compare`; prints as a table, in notebooks too.

    Attributes:
        rows: one row for each policy and each retention that it can work with.
        batches: number of batches between the erasure of the record and the last checkpoint.
        notes: which policies were left out where, in sentences.
    """

    rows: tuple[ComparisonRow, ...]
    batches: int
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return make_text(HEADER, (row.cells for row in self.rows), self.notes)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return make_table("Policies side by side", HEADER, [row.cells for row in self.rows], self.notes)

    def to_pandas(self) -> pd.DataFrame:
        """Convert the rows to a data frame.

        Returns:
            One row for each policy and retention; what an adversary who knows all other records finds, and, with names
            that begin with `distribution_`, what one who knows their distribution does.

        Raises:
            MissingExtraError: pandas is not installed.

        Example:
            >>> found = compare({"Window": Window()}, retention=8, batches=8, trials=20, workers=1)
            >>> found.to_pandas()[["policy", "retention", "epsilon"]].values.tolist()
            [['Window', 8, 0.0]]
        """
        return make_frame(
            {
                **{name: value for name, value in row.to_dict().items() if not name.startswith("knows")},
                **{name: getattr(row.knows_all, name) for name in _MEASURES},
                **{f"distribution_{name}": getattr(row.knows_distribution, name) for name in _MEASURES},
            }
            for row in self.rows
        )

    def to_dict(self) -> dict[str, Any]:
        """Convert the comparison to plain data, as for JSON.

        Returns:
            The number of batches, a dictionary for each row, and the notes.
        """
        return {"batches": self.batches, "policies": [row.to_dict() for row in self.rows], "notes": list(self.notes)}

    def __getitem__(self, key: str | tuple[str, int]) -> ComparisonRow:
        """Return the row of a policy.

        Args:
            key: name of the policy; or, where there are several retentions, its name and the retention.

        Returns:
            Its row.

        Raises:
            KeyError: if there is no such row, or more than one.
        """
        found = [row for row in self.rows if key in (row.name, (row.name, row.retention))]
        if len(found) != 1:
            raise KeyError(f"{key!r} is the key of {len(found)} rows; use a name, or a name and a retention")
        return found[0]


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
    retention: int | Sequence[int] = 64,
    batches: int = 100,
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
        retention: retention of every stream, in records; or several, each of which is compared. A policy is left out
            where its batches would be too short or too long for it.
        batches: number of batches that arrive between the erasure of the record and the last checkpoint.
        trials: number of trials of each hypothesis, in each audit.
        data: records to draw from with replacement, or a function `data(rng, n)`. Default: standard normal.
        seed: seed that makes the comparison reproducible.
        workers: number of processes. Default: one for each core, or fewer if there are few trials.
        progress: called with the fraction of the work that is done.
        options: further arguments of `measure_leakage`, such as `values`, `confidence` or `delta`.

    Returns:
        One row for each policy and retention.

    Raises:
        ParameterError: if there is no policy, none can work with any retention, one answers with something else than
            the mean of its columns, or `measure_leakage` rejects an argument.

    Example:
        >>> found = compare({"Window": Window()}, retention=8, batches=8, trials=20, workers=1)
        >>> found["Window"].refutes_unlearning
        False
    """
    named = default_policies() if policies is None else policies
    if not isinstance(named, Mapping):
        raise ParameterError(f"policies={show_value(named)} is not a mapping; pass a dict of policies by name")
    if not named:
        raise ParameterError("policies is empty; pass at least one, by name, or omit it for the default policies")
    for name, policy in named.items():
        if not isinstance(policy, Policy):
            raise ParameterError(
                f"policies: {name!r} is {show_value(policy)}, not a vestige.Policy; pass policies by name"
            )
    several = isinstance(retention, Sequence) and not isinstance(retention, str | bytes)
    several = several or (isinstance(retention, np.ndarray) and retention.ndim > 0)
    given: Iterable[object] = retention if isinstance(retention, Iterable) and several else [retention]
    retentions = [check_int("retention", each, 1) for each in given]
    if not retentions:
        raise ParameterError("retention is empty; pass at least one")
    check_int("batches", batches, 1)
    able = [(name, policy, each) for each in retentions for name, policy in named.items() if _fits(policy, each)]
    if not able:
        raise ParameterError(f"no policy can work with retention={retention}; use a longer one")
    rows = []
    for i, (name, policy, each) in enumerate(able):
        t = each + 1 + batches * max(1, each // 2)
        audits = [
            measure_leakage(
                policy,
                retention=each,
                t=t,
                trials=trials,
                adversary=adversary,
                data=data,
                seed=seed,
                workers=workers,
                progress=lambda share, before=2 * i + j: progress((before + share) / (2 * len(able))),  # type: ignore[misc]
                **options,
            )
            for j, adversary in enumerate(ADVERSARIES[:2])
        ]
        error = _measure_error(policy, each, t, make_source(data, policy.columns), seed)
        in_time = not any(audit.overdue for audit in audits)
        rows.append(ComparisonRow(name, each, error, in_time, policy.is_window or isinstance(policy, Private), *audits))
    return Comparison(tuple(rows), batches, _list_left_out(named, retentions))


def _fits(policy: Policy, retention: int) -> bool:
    """Whether a policy can work with the batches of a stream."""
    batch = max(1, retention // 2)
    return policy.every_round or policy.min_batch <= batch <= (policy.max_batch or batch)


def _list_left_out(policies: Mapping[str, Policy], retentions: Sequence[int]) -> tuple[str, ...]:
    """Which policies are missing at which retentions."""
    missing = {name: [each for each in retentions if not _fits(policy, each)] for name, policy in policies.items()}
    return tuple(
        f"{name} is left out at {', '.join(f'{each:,}' for each in left)}: its batches would be too short or too long."
        for name, left in missing.items()
        if left
    )


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
