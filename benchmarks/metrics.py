"""Ten metrics in one pass beside one metric in one pass: by `extend`, and by `vestige run` on a file, with a store too.

What a store waits for the disk belongs to the last: it writes once for each batch, and ten metrics have longer batches.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from timing import Row, choose, time_alternately
from vestige import Stream
from vestige.cli import command
from vestige.policies.metrics import parse_metrics
from vestige.types import Floats

RECORDS = choose(100_000, 5_000)
TEN = (
    "amount:mean,sum,count,moments",
    "rating:mean,histogram[2,3,4,5]",
    "minutes:mean,sum",
    "items:mean,histogram[2,5]",
)
SKETCHED = ("amount:mean,sum,count,p50,p95,extremes", "rating:mean,histogram[2,3,4,5]", "items:distinct,mean")
GOAL = 1.0 / 3.0
"""Ten metrics may take three times as long as one."""


def rows() -> list[Row]:
    """Compare the metrics on the same rows, on one core."""
    rng = np.random.default_rng(0)
    table = np.column_stack(
        [
            rng.lognormal(3.0, 1.0, RECORDS).round(2),
            rng.integers(1, 6, RECORDS).astype(np.float64),
            rng.exponential(30.0, RECORDS).round(1),
            rng.poisson(3.0, RECORDS).astype(np.float64),
        ]
    )
    table[rng.random(RECORDS) < 0.3, 1] = np.nan
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "visits.csv"
        lines = (",".join("" if np.isnan(x) else f"{x:g}" for x in row) for row in table.tolist())
        path.write_text("amount,rating,minutes,items\n" + "\n".join(lines) + "\n")
        return [
            _compare("extend", partial(_extend, table, TEN), partial(_extend, table[:, :1], ("amount:mean",))),
            _compare(
                "extend, with sketches",
                partial(_extend, table[:, [0, 1, 3]], SKETCHED),
                partial(_extend, table[:, :1], ("amount:mean",)),
            ),
            _compare("run", partial(_run, path, TEN), partial(_run, path, ("amount:mean",))),
            _compare(
                "run, store", partial(_run, path, TEN, "visits.db"), partial(_run, path, ("amount:mean",), "visits.db")
            ),
        ]


def _compare(what: str, ten: Callable[[], None], one: Callable[[], None]) -> Row:
    taken, single, ratio = time_alternately(ten, one, repeats=5)
    ours = f"{RECORDS / taken:,.0f} records/s, {1.0 / ratio:.2f} x one"
    return Row(f"ten metrics, {what}", ours, f"one metric: {RECORDS / single:,.0f} records/s", ratio, GOAL)


def _extend(table: Floats, metrics: tuple[str, ...]) -> None:
    policy = parse_metrics(metrics)
    Stream(policy, retention=policy.default_retention, seed=0).extend(table)


def _run(path: Path, metrics: tuple[str, ...], store: str | None = None) -> None:
    options = [part for metric in metrics for part in ("--metric", metric)]
    kept = [] if store is None else ["--store", str(path.with_name(store))]
    limits = ["--max-age", "30d", "--seed", "1", "--json"]
    result = CliRunner().invoke(command, ["run", str(path), *options, *kept, *limits])
    if result.exit_code:
        raise RuntimeError(result.output)
    for left in path.parent.glob(f"{store}*"):
        left.unlink()
