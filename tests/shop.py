"""A year of nights of a shop, with faults, and what they come to in plain Python.

The reference knows rows and requests only: which rows were taken by which night, which lines of the list were new, and
up to which row of each stream a line reaches. It never asks the store how it came to what it holds.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

FIRST = datetime(2024, 3, 1, 2, tzinfo=UTC)
MAX_AGE = timedelta(days=30)
COUNTRIES = {"AT": 90, "LU": 40}
"""Visits a day of each."""
FAULTS = ("bad export", "truncated export", "missing folder", "full disk", "kill", "unwritable answers")
KEPT = 3
"""Number of exports that stay in their folder."""
HEADER = "at,email,country,amount,status"
TERMS = """
source = "exports/visits-*.csv"
time = "at"
lateness = "4d"
subject = "email"
by = "country"
metric = ["amount:mean,sum", "status:shares[paid,failed]"]
max-age = "30d"
store = "visits.db"
requests = "requests.tsv"
answers = "answers.csv"
seed = 1
"""

Line = tuple[str, str]
"""A person and the reference of the request."""


@dataclass(frozen=True)
class Row:
    """A visit."""

    at: datetime
    person: str
    country: str
    amount: float
    status: str

    @property
    def text(self) -> str:
        """As in an export."""
        return f"{self.at:%Y-%m-%dT%H:%M:%S.%fZ},{self.person},{self.country},{self.amount},{self.status}"


def make_generator(seed: int) -> random.Random:
    """A generator of Python's own."""
    return random.Random(seed)  # noqa: S311  # nothing is kept secret by it


def tell_time(night: int) -> datetime:
    """When the job of a night runs; the first is night 1."""
    return FIRST + timedelta(days=night)


def make_rows(night: int) -> list[Row]:
    """The visits of the day before a night; a tenth of them happened up to two days earlier."""
    rng, rows = make_generator(night), []
    for country, visits in COUNTRIES.items():
        for _ in range(visits):
            late = rng.uniform(0.0, 2.0) if rng.random() < 0.1 else 0.0
            rows.append(
                Row(
                    FIRST + timedelta(days=night - 1 + rng.random() - late),
                    f"user{rng.randrange(120)}@example.org",
                    country,
                    round(rng.lognormvariate(3.0, 1.0), 2),
                    rng.choices(["paid", "failed", "lost"], [90, 8, 2])[0],
                )
            )
    rng.shuffle(rows)
    return rows


def plan_faults(nights: int, number: int) -> dict[int, str]:
    """Which nights have a fault, never two in a row; each fault comes as often as the others."""
    rng = make_generator(nights)
    chosen = sorted(rng.sample(range(3, nights - 2, 2), number))
    kinds = [FAULTS[i % len(FAULTS)] for i in range(number)]
    rng.shuffle(kinds)
    return dict(zip(chosen, kinds, strict=True))


@dataclass
class Shop:
    """The folder of the shop, and what its nights come to.

    Attributes:
        folder: where the job runs.
        taken: the rows that have arrived, by country, in no order within a night.
        counts: how many have arrived by the end of each night, by country.
        lines: the lines of the list of requests.
        carried: the night that carried a line out, by line.
        begun: the nights in which it may have been requested.
    """

    folder: Path
    taken: dict[str, list[Row]] = field(default_factory=lambda: {country: [] for country in COUNTRIES})
    counts: dict[int, dict[str, int]] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    carried: dict[Line, int] = field(default_factory=dict)
    begun: dict[Line, set[int]] = field(default_factory=dict)
    _waiting: list[Row] = field(default_factory=list)
    """Rows of exports that could not be read so far."""

    def prepare(self) -> None:
        """Write the terms."""
        (self.folder / "vestige.toml").write_text(TERMS)
        (self.folder / "exports").mkdir()

    def write_day(self, night: int, fault: str | None) -> None:
        """Write the export of a day, and the requests that have come in; let the fault of the night happen."""
        exports, rows = self.folder / "exports", make_rows(night)
        if night > 1:
            self._write_export(night - 1, make_rows(night - 1))  # as it should have been
        (exports / f"visits-{night - KEPT}.csv").unlink(missing_ok=True)
        text = self._write_export(night, rows)
        self._ask(night)
        held_back: list[Row] = []
        if fault == "bad export":
            (exports / f"visits-{night}.csv").write_text(text.replace("amount", "amount (EUR)"))
        elif fault == "truncated export":
            cut = len(text) * 2 // 3
            (exports / f"visits-{night}.csv").write_text(text[:cut])
            held_back = rows[text[:cut].count("\n") - 1 :]
        elif fault == "missing folder":
            exports.rename(self.folder / "elsewhere")
        elif fault == "unwritable answers":
            (self.folder / "answers.csv").unlink()
            (self.folder / "answers.csv").mkdir()
        blocked = fault in ("bad export", "missing folder", "full disk", "kill")
        for row in () if blocked else self._waiting + rows[: len(rows) - len(held_back)]:
            self.taken[row.country].append(row)
        self._waiting = self._waiting + rows if blocked else held_back
        self.counts[night] = {country: len(found) for country, found in self.taken.items()}

    def _write_export(self, night: int, rows: list[Row]) -> str:
        text = "\n".join([HEADER, *(row.text for row in rows)]) + "\n"
        (self.folder / "exports" / f"visits-{night}.csv").write_text(text)
        return text

    def _ask(self, night: int) -> None:
        """Add lines to the list, some of them twice; a person may ask again under another reference."""
        rng = make_generator(10_000 + night)
        number = 3 if night == 1 else rng.randrange(3)
        asked = [(f"user{rng.randrange(130)}@example.org", f"T-{night}-{i}") for i in range(number)]
        again = [rng.choice(self.lines)] if self.lines and rng.random() < 0.3 else []
        self.lines += asked
        if self.lines:
            with (self.folder / "requests.tsv").open("a") as file:
                file.writelines(f"{person}\t{reference}\n" for person, reference in (*asked, *again))

    def note_requests(self, night: int, fault: str | None) -> None:
        """Note which lines a night has carried out."""
        for line in self.lines:
            if line not in self.carried and fault != "full disk":
                self.begun.setdefault(line, set()).add(night)
                if fault != "kill":
                    self.carried[line] = night

    def mend(self, fault: str | None) -> None:
        """Mend what the fault of a night has left."""
        if fault == "missing folder":
            (self.folder / "elsewhere").rename(self.folder / "exports")
        elif fault == "unwritable answers":
            (self.folder / "answers.csv").rmdir()

    def is_leaving(self, person: str, country: str, number: int) -> bool | None:
        """Whether a record has to leave on request; None if it may, since a night was killed about then."""
        unsure = False
        for line in self.lines:
            if line[0] == person and line in self.carried:
                last = self.counts[self.carried[line]][country]
                sure = self.counts[min(self.begun[line]) - 1][country] if len(self.begun[line]) > 1 else last
                if number <= sure:
                    return True
                unsure |= number <= last
        return None if unsure else False

    def find_answer(self, country: str, metric: str) -> tuple[float, float, int]:
        """The value of a metric over all that has arrived, its standard error and the number of records."""
        rows = self.taken[country]
        n = len(rows)
        if metric.startswith("status:shares "):
            category = metric.removeprefix("status:shares ")
            named = {"paid", "failed"}
            share = sum(row.status == category or (category == "other" and row.status not in named) for row in rows) / n
            return share, math.sqrt(share * (1.0 - share) / n), n
        mean = math.fsum(row.amount for row in rows) / n
        error = math.sqrt(math.fsum((row.amount - mean) ** 2 for row in rows) / n / n)
        return (mean, error, n) if metric == "amount:mean" else (mean * n, error * n, n)
