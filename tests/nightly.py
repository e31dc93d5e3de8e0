"""Forty nights of a shop: exports of five countries, requests to be erased with references, rows that come late.

The nights lie in the past; so the commands of each run by a clock that stands at that night, which a folder of commands
in front of `PATH` sets. Everything else is the job of README, as it is written there.
"""

from __future__ import annotations

import os
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).parent.parent
NIGHTS = 40
FIRST = datetime(2024, 3, 1, 2, tzinfo=UTC)
COUNTRIES = {"AT": 260, "BE": 200, "CH": 150, "DE": 400, "LU": 40}
"""Visits a day of each; so few in Luxembourg that batches are closed early, to meet the limit in time."""
_CLOCK = """#!{python}
import os, sys
from datetime import datetime
import vestige.times
from vestige.__main__ import main
real, now = vestige.times.wall_clock, datetime.fromisoformat(os.environ["NOW"])
for module in list(sys.modules.values()):
    if getattr(module, "wall_clock", None) is real:
        module.wall_clock = lambda: now
sys.exit(main())
"""


def make_day(night: int, scale: float = 1.0) -> pd.DataFrame:
    """The visits of the day before a night; a tenth of them happened up to two days earlier."""
    rng = np.random.default_rng(night)
    parts = []
    for country, visits in COUNTRIES.items():
        n = round(visits * scale)
        late = np.where(rng.random(n) < 0.1, rng.uniform(0.0, 2.0, n), 0.0)
        when = FIRST + timedelta(days=night - 1) + pd.to_timedelta(rng.random(n) - late, unit="D")
        amount = rng.lognormal(3.0 + 0.01 * night, 1.0, n).round(2)
        rating = rng.integers(1, 6, n).astype(float)
        rating[rng.random(n) < 0.3] = np.nan
        status = rng.choice(["paid", "failed", "lost"], n, p=[0.9, 0.08, 0.02])
        people = [f"user{i}@example.org" for i in rng.integers(0, 3_000, n)]
        parts.append(
            pd.DataFrame(
                {"at": when, "email": people, "country": country, "amount": amount, "rating": rating, "status": status}
            )
        )
    return pd.concat(parts).sample(frac=1.0, random_state=night)  # an export is in no order at all


def write_day(folder: Path, night: int, scale: float = 1.0) -> pd.DataFrame:
    """Write the export of a day, and the requests of that night: people of that day and others."""
    day, people = make_day(night, scale), np.random.default_rng(1_000 + night).integers(0, 3_100, 12)
    exports = folder / "exports"
    exports.mkdir(exist_ok=True)
    shown = day.assign(at=day["at"].dt.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
    shown.to_csv(exports / f"visits-{night}.csv", index=False)
    lines = [f"user{person}@example.org\tT-{night}-{i}\n" for i, person in enumerate(people)]
    (folder / "requests.tsv").write_text("".join(lines))
    return day


def read_job() -> tuple[str, str]:
    """The terms and the script of README."""
    found = [
        re.findall(rf"^```{kind}\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S) for kind in ("toml", "sh")
    ]
    (terms,), (script,) = found
    return terms, script


def prepare(folder: Path) -> dict[str, str]:
    """Write the terms, the script and the command whose clock can be set; returns the environment of the job."""
    terms, script = read_job()
    (folder / "vestige.toml").write_text(terms)
    (folder / "nightly.sh").write_text(script)
    commands = folder / "bin"
    commands.mkdir()
    (commands / "vestige").write_text(_CLOCK.format(python=sys.executable))
    (commands / "vestige").chmod(0o755)
    return {**os.environ, "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"}


def tell_time(night: int) -> str:
    """When the job of a night runs."""
    return (FIRST + timedelta(days=night)).isoformat()


def find_distances(answers: Path, everything: pd.DataFrame) -> dict[tuple[str, str], float]:
    """How far each answer is from that of pandas over everything, in standard errors, by stream and metric."""
    found = {}
    rows = pd.read_csv(answers)
    for row in rows.itertuples():
        table = everything[everything["country"] == row.stream]
        value, error, counted = _compute(table, row.metric)
        assert row.counted == counted, (row.stream, row.metric)
        found[row.stream, row.metric] = abs(row.value - value) / error
    return found


def _compute(table: pd.DataFrame, metric: str) -> tuple[float, float, int]:
    """The value of a metric over a table, its standard error and the number of records that have its column."""
    column, _, name = metric.partition(":")
    values = table[column].dropna()
    n = len(values)
    if name.startswith("shares "):
        category = name.removeprefix("shares ")
        share = float((values == category if category != "other" else ~values.isin(["paid", "failed"])).mean())
        return share, (share * (1.0 - share) / n) ** 0.5, n
    mean, error = float(values.mean()), float(values.std() / n**0.5)
    return (mean, error, n) if name == "mean" else (n * mean, n * error, n)
