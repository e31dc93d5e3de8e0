"""Answers as people and machines see them: each says since when it counts, and how many records that is.

"All-time" stands only over statistics that count from their first record on and have not missed their target, be it by
rounding; a window counts the records that it holds, and where recent records count more that is said.
Guarantee: no table and no JSON hides that a statistic started over; held by tests/test_cli_answers.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from vestige.cli.output import count, say, show_table
from vestige.cli.reports import entitle, make_report
from vestige.errors import NoAnswerError, NoRecordsError
from vestige.estimate import Estimate
from vestige.policies import Mean, Report, Window
from vestige.stream import Stream

_SHOWN = 20
"""So many keys are shown in a table; JSON has them all."""
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*(?:e[+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class Asked:
    """A stream's answer, ready to be printed; or why there is none.

    Attributes:
        t: how many records have arrived; 0 where nobody can say.
        since: the first record that the statistic counts.
        counted: how many it counts; those that were erased while they waited are not among them.
        estimate: the answer, and `report` its table; None where there is none.
        problem: why there is none.
        remedies: what would help against a start over or a missed target, if there was one.
        window: whether it is of the records that are held alone.
        half_life: after so many records, a record counts half as much; None if all count alike.
    """

    t: int
    since: int
    counted: int
    estimate: Estimate | None = None
    report: Report | None = None
    problem: str = ""
    remedies: tuple[str, ...] = ()
    window: bool = False
    half_life: float | None = None

    @classmethod
    def of(cls, stream: Stream, columns: tuple[str, ...] = ()) -> Asked:
        """Ask the stream, whose columns have these names, targets last; numbers are numbered where they are unknown."""
        window = isinstance(stream.policy, Window)
        kept = stream.policy.policy if isinstance(stream.policy, Window) else stream.policy
        asked = cls(
            stream.t, stream.clock.since, stream.counted, window=window, half_life=getattr(kept, "half_life", None)
        )
        try:
            estimate = stream.estimate()
            made = replace(asked, estimate=estimate, report=make_report(stream.policy, estimate, columns))
        except (NoRecordsError, NoAnswerError) as problem:
            made = replace(asked, problem=str(problem).removesuffix("; push one first"))
        return replace(made, remedies=_remedies(stream, restarted=made.restarted, missed=made.missed))

    @property
    def restarted(self) -> bool:
        """Whether the statistic does not count from the first record on."""
        return self.since > 1

    @property
    def missed(self) -> bool:
        """Whether what is kept has missed its target, or may have by rounding."""
        return self.estimate is not None and self.estimate.missed

    @property
    def all_time(self) -> bool:
        """Whether it counts from the first record on, as far as is known."""
        return not (self.restarted or self.missed or self.window)

    @property
    def facts(self) -> dict[str, object]:
        """For machines."""
        counts = {"t": self.t, "since": self.since, "counted": self.counted}
        if self.estimate is None or self.report is None:
            return {**counts, "value": None, "problem": self.problem}
        return {
            **self.report.facts,
            **counts,
            "held": self.estimate.held,
            "oldest_age": self.estimate.oldest_age,
            "missed": self.missed,
            "notes": list(self.estimate.notes),
        }

    def show(self, limit: str) -> None:
        """For people."""
        estimate, report = self.estimate, self.report
        if estimate is None or report is None:
            raise NoAnswerError(self.problem)
        start = f", counted from record {self.since:,} on" if self.restarted else ""
        off = ", which may be far off" if self.missed else ""
        title = entitle(report.name, all_time=self.all_time)
        counted = f"the {count(self.counted, 'record')} held" if self.window else count(self.counted, "record")
        recent = "" if self.half_life is None else f", of which recent ones count more (half-life {self.half_life:,g})"
        say(f"{title} of {counted}{start}{recent}{off}")
        show_table(report.header, report.rows, words=("term",))
        for remark in report.remarks:
            say(remark)
        ago = count(estimate.oldest_age, "record")
        say(f"Held: {count(estimate.held, 'record')}; the oldest arrived {ago} ago ({limit}).")
        for note in estimate.notes:
            say(f"Note: {note}")


def _remedies(stream: Stream, *, restarted: bool, missed: bool) -> tuple[str, ...]:
    """What helps against what befell this stream: a start over is by deadline, by request, or by either."""
    made = []
    if restarted and stream.max_age is not None:
        made.append("a longer --max-age or fewer keys leave more records to each update")
    if restarted and (stream.max_age is None or stream.receipts):
        made.append("a larger --retention leaves more records to carry a statistic on after a removal request")
    if missed:
        averages = isinstance(stream.policy, Mean) and stream.policy.encoding.name != "bits"
        digits = "a larger --retention, or columns near zero, keep more digits"
        made.append("--channel bits can hold any value" if averages else digits)
    return tuple(made)


def show_many(by: str, made: Mapping[str, Asked]) -> None:
    """The answers of many streams: those that started over first, then those that count the most records."""
    ranked = sorted(made.items(), key=lambda item: (not item[1].restarted, -item[1].counted))
    shown = dict(ranked[:_SHOWN])
    restarted = sum(asked.restarted for asked in made.values())
    reports = [asked.report for asked in shown.values() if asked.report is not None]
    header = max((report.header for report in reports), key=len, default=("answer",))
    all_time = all(asked.all_time for asked in made.values())
    title = entitle(reports[0].name, all_time=all_time) if reports else "No answer"
    rows: list[tuple[str, ...]] = []
    for key, asked in shown.items():
        counted = "-" if asked.report is None else f"{asked.counted:,}"
        counts = (counted, *((f"{asked.since:,}" if asked.t else "-",) if restarted else ()))
        lines = asked.report.rows if asked.report is not None else (("no answer",),)
        for i, line in enumerate(lines):
            label = (key, *counts) if i == 0 else ("",) * (1 + len(counts))
            rows.append((*label, *line, *("",) * (len(header) - len(line))))
    total = sum(asked.counted for asked in made.values() if asked.report is not None)
    say(f"{title} by {by}: {count(len(made), 'stream')}, {count(total, 'record')}")
    show_table((by, "records", *(("since",) if restarted else ()), *header), rows, words=(header[0], "term"))
    if len(ranked) > _SHOWN:
        say(f"... and {len(ranked) - _SHOWN:,} more; --json prints them all.")
    _show_footer(made)


def _show_footer(made: Mapping[str, Asked]) -> None:
    """What the table leaves out: which statistics started over, which have no answer, and all notes."""
    restarted = sum(asked.restarted for asked in made.values())
    if restarted:
        arrived = sum(asked.t for asked in made.values())
        say(
            f"{restarted:,} of {count(len(made), 'stream')} started over: each counts only from the record under since "
            f"on. {count(arrived, 'record')} arrived."
        )
    windows = sum(asked.window for asked in made.values())
    if windows:
        are = "is a window, which counts" if windows == 1 else "are windows, which count"
        say(f"{windows:,} of {count(len(made), 'stream')} {are} the records held and no others.")
    lives = [f"half-life {asked.half_life:,g}" for asked in made.values() if asked.half_life is not None]
    for text, number in group_notes(lives):
        say(f"Recent records count more in {number:,} of {count(len(made), 'stream')}: {text}.")
    for text, number in group_notes(asked.problem for asked in made.values() if asked.problem):
        say(f"No answer in {count(number, 'stream')}: {text}")
    notes = (note for asked in made.values() if asked.estimate is not None for note in asked.estimate.notes)
    for text, number in group_notes(notes):
        say(f"Note on {count(number, 'stream')}: {text}")


def group_notes(notes: Iterable[str]) -> list[tuple[str, int]]:
    """Notes that differ only in their numbers, as one that gives the ranges; with how many they are.

    >>> group_notes(["Counts from round 9 on.", "Other.", "Counts from round 1,200 on."])
    [('Counts from round 9 to 1,200 on.', 2), ('Other.', 1)]
    """
    groups: dict[tuple[str, ...], list[list[str]]] = {}
    for note in notes:
        groups.setdefault(tuple(_NUMBER.split(note)), []).append(_NUMBER.findall(note))
    return [(_merged(parts, numbers), len(numbers)) for parts, numbers in groups.items()]


def _merged(parts: tuple[str, ...], numbers: list[list[str]]) -> str:
    """The text between the numbers, with the range of each number."""
    ranges = [_range(found) for found in zip(*numbers, strict=True)]
    return "".join(part + between for part, between in zip(parts, [*ranges, ""], strict=True))


def _range(numbers: tuple[str, ...]) -> str:
    low, *_, high = sorted(numbers, key=_value) if len(numbers) > 1 else numbers * 2
    return low if low == high else f"{low} to {high}"


def _value(number: str) -> float:
    try:
        return float(number.replace(",", ""))
    except ValueError:  # such as a version, which is no number
        return 0.0


def check_strict(made: Mapping[str, Asked]) -> None:
    """An error where a statistic started over, missed its target or has no answer.

    Raises:
        NoAnswerError: says how many of them.
    """
    restarted = sum(asked.restarted for asked in made.values())
    silent = sum(asked.estimate is None for asked in made.values())
    missed = sum(asked.missed for asked in made.values())
    if restarted or silent or missed:
        remedies = dict.fromkeys(remedy for asked in made.values() for remedy in asked.remedies)
        raise NoAnswerError(
            f"--strict: of {count(len(made), 'stream')}, {restarted:,} started over, {missed:,} missed the target and "
            f"{silent:,} have no answer; " + "; ".join(("the notes say why", *remedies))
        )
