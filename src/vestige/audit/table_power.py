"""How often an audit of a table would find a number that is written, by trying it on tables in which one is.

Streams of Vestige are run on records like those of the table, snapshots are taken, and the whole audit is repeated on
them, search and corrections included; Clopper-Pearson bounds say how sure the share is.
Guarantee: the figures are those of the audit itself, not of a model of it; held by tests/audit/test_table_power.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from numpy.typing import ArrayLike

from vestige.audit.bounds import rate_bounds
from vestige.audit.data import make_source
from vestige.audit.table import audit_table
from vestige.audit.table_data import TableSnapshot
from vestige.errors import ParameterError
from vestige.markup import make_table
from vestige.policies import Mean
from vestige.random.generators import make_generator
from vestige.random.keys import AuditSeed
from vestige.stream import Stream
from vestige.types import Floats
from vestige.validation import check_float, check_floats, check_int, show_value

LAYOUTS = {"words": "bits", "averages": "average"}
"""Channel of `Mean` for each kind of layout that is tried."""
_HEADER = ("layout", "snapshots", "found", "power at least")
_TRIALS = 999


@dataclass(frozen=True, slots=True)
class PowerRow:
    """Power for one layout and one number of snapshots.

    Attributes:
        layout: "words" or "averages".
        snapshots: number of snapshots.
        found: number of tables in which a test found the choice.
        repetitions: number of tables.
        power: lower bound of the power, with 95% confidence.
    """

    layout: str
    snapshots: int
    found: int
    repetitions: int
    power: float


@dataclass(frozen=True, slots=True)
class TablePlan:
    """The power of audits with more or fewer snapshots.

    Attributes:
        size: number of records of a batch.
        level: family-wise level.
        rows: power for each layout and number of snapshots.
    """

    size: int
    level: float
    rows: tuple[PowerRow, ...]

    @property
    def cells(self) -> list[tuple[str, str, str, str]]:
        """The rows as text."""
        return [
            (row.layout, str(row.snapshots), f"{row.found} of {row.repetitions}", f"{row.power:.2f}")
            for row in self.rows
        ]

    def __str__(self) -> str:
        """A line for each layout and number of snapshots."""
        return "\n".join(f"{a:10}  {b:>9}  {c:>10}  {d}" for a, b, c, d in [_HEADER, *self.cells])

    def _repr_html_(self) -> str:
        return make_table("Power of an audit", _HEADER, self.cells)


def plan_table(
    *,
    size: int = 500,
    snapshots: Sequence[int] = (8, 20),
    values: ArrayLike | None = None,
    level: float = 0.01,
    repetitions: int = 10,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> TablePlan:
    """Find the power of audits of tables in which a mean is written.

    Args:
        size: number of records of a batch; snapshots are taken at irregular times, about a batch apart or more.
        snapshots: numbers of snapshots to try.
        values: values of a pilot snapshot, from which records are drawn; default: standard normal.
        level: family-wise level.
        repetitions: number of tables for each layout.
        seed: seed that makes the result reproducible.
        progress: called with the fraction that is done.

    Returns:
        The power for each layout and number of snapshots.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> plan_table(size=60, snapshots=[12], repetitions=1, level=0.05).rows[0].repetitions
        1
    """
    check_int("size", size, 52, 10**5)
    check_int("repetitions", repetitions, 1, 10**4)
    check_float("level", level, lambda number: 0.0 < number < 1.0, "between 0 and 1, such as 0.01")
    if not isinstance(snapshots, Sequence) or isinstance(snapshots, str | bytes):
        raise ParameterError(f"snapshots={show_value(snapshots)} is not a list; pass one, such as [8, 20]")
    counts = sorted({check_int("snapshots", count, 2, 1_000) for count in snapshots})
    if not counts:
        raise ParameterError("snapshots is empty; pass at least one number of snapshots")
    pilot = None if values is None else check_floats("values", values).reshape(-1, 1)
    if pilot is not None and not len(pilot):
        raise ParameterError("values is empty; pass those of a pilot snapshot, or None for standard normal ones")
    found = {(layout, count): 0 for layout in LAYOUTS for count in counts}
    done = 0
    for layout, channel in LAYOUTS.items():
        for repetition in range(repetitions):
            table = _simulate(channel, size, counts[-1], pilot, seed, repetition)
            for count in counts:
                audit = audit_table(table[:count], level=level, trials=_TRIALS, seed=repetition)
                found[layout, count] += audit.is_finding
                done += 1
                if progress is not None:
                    progress(done / (len(found) * repetitions))
    rows = tuple(
        PowerRow(*key, number, repetitions, rate_bounds(number, repetitions - number, 0, 1)[0])
        for key, number in found.items()
    )
    return TablePlan(size, level, rows)


def _simulate(
    channel: str, size: int, snapshots: int, values: Floats | None, seed: int, repetition: int
) -> list[TableSnapshot]:
    """Snapshots of a stream at irregular times."""
    rng = make_generator(check_int("seed", seed, 0), "power", channel, repetition)
    source = make_source(values, 1)
    stream, taken = Stream(Mean(channel=channel), retention=2 * size, seed=AuditSeed(repetition)), []
    for apart in rng.integers(size, 3 * size // 2 + 1, snapshots):
        stream.extend(source(rng, int(apart)))
        taken.append(TableSnapshot(stream.retained.rounds.tolist(), stream.retained.values))
    return taken
