"""Answers of many streams in one table: those that matter most, what all add up to, and every note, grouped.

Guarantee: what the table leaves out is counted, and no note is lost; held by tests/test_cli_answers.py and
tests/test_cli_store_answers.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from vestige.cli.answers import StreamAnswer, describe_unanswered
from vestige.cli.exit_status import Finding
from vestige.cli.output import format_count, say, show_table
from vestige.cli.reports import make_title
from vestige.sources.keys import split_key

SHOWN = 20
"""The number of keys in a table; other forms of the output have all of them."""
_NUMBER = re.compile(r"(?<![\w.,])\d++(?:[.,]\d++)*+(?:e[+-]?\d++)?+(?!\w)")
"""A number that is not part of a name, such as p95 or x1."""

_COUNTS = ("streams", "counted", "arrived", "restarted", "missed", "silent", "windows")
"""What is added up of answers."""

Note = tuple[str, str]
"""The name of a stream, and what is said of it."""


@dataclass(frozen=True, slots=True)
class Tally:
    """What the answers of streams add up to.

    Attributes:
        streams: number of streams.
        counted: number of records that those with an answer count.
        arrived: number of records that have arrived.
        restarted: number of streams whose statistic started over.
        missed: number of streams that missed their target.
        silent: number of streams without an answer, or without one of a metric.
        windows: number of streams that count only the records that they hold.
        metrics: metrics without an answer.
        remedies: ways to avoid a start over or a missed target.

    Example:
        >>> (Tally(streams=2, counted=5) + Tally(streams=1, counted=7)).counted
        12
    """

    streams: int = 0
    counted: int = 0
    arrived: int = 0
    restarted: int = 0
    missed: int = 0
    silent: int = 0
    windows: int = 0
    metrics: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()

    @classmethod
    def of(cls, answers: Iterable[StreamAnswer]) -> Tally:
        """Add up answers.

        Args:
            answers: the answers.

        Returns:
            The tally.
        """
        counts: dict[str, Any] = dict.fromkeys(_COUNTS, 0)
        metrics, remedies = dict[str, None](), dict[str, None]()
        for answer in answers:
            counts["streams"] += 1
            counts["counted"] += 0 if answer.report is None else answer.counted
            counts["arrived"] += answer.t
            counts["restarted"] += answer.restarted
            counts["missed"] += answer.missed
            counts["silent"] += answer.estimate is None or bool(answer.unanswered)
            counts["windows"] += answer.window
            metrics |= dict.fromkeys(answer.unanswered)
            remedies |= dict.fromkeys(answer.remedies)
        return cls(**counts, metrics=tuple(metrics), remedies=tuple(remedies))

    def __add__(self, other: Tally) -> Tally:
        counts = {name: getattr(self, name) + getattr(other, name) for name in _COUNTS}
        metrics, remedies = self.metrics + other.metrics, self.remedies + other.remedies
        return replace(self, **counts, metrics=tuple(dict.fromkeys(metrics)), remedies=tuple(dict.fromkeys(remedies)))

    @property
    def all_time(self) -> bool:
        """Whether all of them count every record from the first one."""
        return not (self.restarted or self.missed or self.windows)

    def check_strict(self) -> None:
        """Check that no statistic started over or missed its target, and that each has an answer, as has each metric.

        Raises:
            Finding: one of them did, or has none; it says how many.
        """
        if not (self.restarted or self.silent or self.missed):
            return
        unanswered = (f"metrics without an answer: {', '.join(self.metrics)}",) if self.metrics else ()
        where = "the notes say why" if self.restarted or self.missed or not self.metrics else "the answers say why"
        raise Finding(
            f"--strict: of {format_count(self.streams, 'stream')}, {self.restarted:,} started over, {self.missed:,} "
            f"missed the target and {self.silent:,} have no answer; " + "; ".join((*unanswered, where, *self.remedies))
        )


@dataclass(frozen=True, slots=True)
class Notes:
    """What is said of streams beside their answers.

    Attributes:
        problems: why streams have no answer.
        unanswered: why metrics have none.
        remarks: what policies say about their tables.
        notes: how answers came about.
        half_lives: the half-lives of streams that have one.
        uncomputed: number of streams whose answers were not computed, so that nothing is said of them here.
    """

    problems: Iterable[Note] = ()
    unanswered: Iterable[Note] = ()
    remarks: Iterable[Note] = ()
    notes: Iterable[Note] = ()
    half_lives: Iterable[Note] = ()
    uncomputed: int = 0

    @classmethod
    def of(cls, answers: Mapping[str, StreamAnswer]) -> Notes:
        """Collect the notes of answers.

        Args:
            answers: the answers, by stream.

        Returns:
            The notes.
        """
        items = answers.items()
        reports = [(key, answer.report) for key, answer in items if answer.report is not None]
        estimates = [(key, answer.estimate) for key, answer in items if answer.estimate is not None]
        return cls(
            [(key, answer.problem) for key, answer in items if answer.problem],
            [(key, text) for key, answer in items for text in describe_unanswered(answer.unanswered)],
            [(key, str(remark)) for key, report in reports for remark in report.remarks],
            [(key, note) for key, estimate in estimates for note in estimate.notes],
            [(key, describe_half_life(each.half_life)) for key, each in items if each.half_life is not None],
        )


class Answers(Protocol):
    """The answers of some streams: all of them, or as much as a table needs."""

    def rank(self) -> Sequence[tuple[str, StreamAnswer]]:
        """Find those that are shown: first those that started over, then those that count the most records.

        Returns:
            At most `SHOWN` keys with their answers.
        """

    def add_up(self) -> Tally:
        """Add up what is known without asking each stream.

        Returns:
            The tally.
        """

    def collect_notes(self) -> Notes:
        """Collect what is said of streams.

        Returns:
            The notes.
        """


@dataclass(frozen=True, slots=True)
class AskedAnswers:
    """The answers of streams each of which was asked.

    Attributes:
        answers: the answers, by key.
    """

    answers: Mapping[str, StreamAnswer]

    def rank(self) -> Sequence[tuple[str, StreamAnswer]]:
        """Find those that are shown; see `Answers.rank`."""
        return sorted(self.answers.items(), key=_find_rank)[:SHOWN]

    def add_up(self) -> Tally:
        """Add up all answers."""
        return Tally.of(self.answers.values())

    def collect_notes(self) -> Notes:
        """Collect the notes of all answers."""
        return Notes.of(self.answers)


def check_strict(answers: Mapping[str, StreamAnswer]) -> None:
    """Check that no statistic started over or missed its target, and that each has an answer, as has each metric.

    Args:
        answers: the answers, by the name of the stream.

    Raises:
        Finding: one of them did, or has none; it says how many.
    """
    Tally.of(answers.values()).check_strict()


def show_answers(by: str | tuple[str, ...], parts: Sequence[Answers], option: str) -> None:
    """Print the answers of many streams: first those that started over, then those that count the most records.

    Args:
        by: the column that the streams are named by, or several.
        parts: the answers by key; with several columns a key is as `split_key` takes it.
        option: the option of the command that prints all of them.
    """
    tally = sum((part.add_up() for part in parts), Tally())
    ranked = [item for part in parts for item in part.rank()]
    if len(parts) > 1:
        ranked.sort(key=lambda item: (*_find_rank(item), item[0]))
    _show_ranked(by, dict(ranked[:SHOWN]), tally, option)
    streams = format_count(tally.streams, "stream")
    if tally.restarted:
        say(
            f"{tally.restarted:,} of {streams} started over: each counts only from the record in the column since. "
            f"{format_count(tally.arrived, 'record')} arrived."
        )
    if tally.windows:
        are = "is a window, which counts" if tally.windows == 1 else "are windows, which count"
        say(f"{tally.windows:,} of {streams} {are} only the records held.")
    _show_notes([part.collect_notes() for part in parts], streams, option)


def _find_rank(item: tuple[str, StreamAnswer]) -> tuple[bool, int]:
    return not item[1].restarted, -item[1].counted


def _show_ranked(by: str | tuple[str, ...], shown: Mapping[str, StreamAnswer], total: Tally, option: str) -> None:
    """Print a table of some of many streams."""
    reports = [answer.report for answer in shown.values() if answer.report is not None]
    header = max((report.header for report in reports), key=len, default=("answer",))
    title = make_title(reports[0].name, all_time=total.all_time) if reports else "No answer"
    columns = (by,) if isinstance(by, str) else by
    rows: list[tuple[str, ...]] = []
    for key, answer in shown.items():
        counted = "-" if answer.report is None else f"{answer.counted:,}"
        counts = (counted, *((f"{answer.since:,}" if answer.t else "-",) if total.restarted else ()))
        lines = answer.report.rows if answer.report is not None else (("no answer",),)
        for i, line in enumerate(lines):
            keys = (key,) if isinstance(by, str) else split_key(key)
            label = (*keys, *counts) if i == 0 else ("",) * (len(columns) + len(counts))
            rows.append((*label, *line, *("",) * (len(header) - len(line))))
    records = format_count(total.counted, "record")
    say(f"{title} by {', '.join(columns)}: {format_count(total.streams, 'stream')}, {records}")
    counts_header = ("records", *(("since",) if total.restarted else ()))
    show_table((*columns, *counts_header, *header), rows, words=(*columns, header[0], "term"))
    if total.streams > len(shown):
        say(f"... and {total.streams - len(shown):,} more; {option} prints them all.")


def _show_notes(parts: Sequence[Notes], streams: str, option: str) -> None:
    """Print all notes; those that differ only in their numbers are one."""

    def gather(choose: Callable[[Notes], Iterable[Note]]) -> list[tuple[str, int]]:
        return group_notes(note for part in parts for note in choose(part))

    for text, number in gather(lambda part: part.half_lives):
        say(f"Recent records count more in {number:,} of {streams}: {text}.")
    for text, number in gather(lambda part: part.problems):
        say(f"No answer in {format_count(number, 'stream')}: {text}")
    for text, number in gather(lambda part: part.unanswered):
        say(f"In {format_count(number, 'stream')}: {text}")
    for text, _ in gather(lambda part: part.remarks):
        say(text)
    for text, number in gather(lambda part: part.notes):
        say(f"Note on {format_count(number, 'stream')}: {text}")
    if others := sum(part.uncomputed for part in parts):
        say(
            f"The answers of the other {format_count(others, 'stream')} were not computed, so their notes are missing "
            f"here; {option} and --strict compute all of them."
        )


def describe_half_life(half_life: float) -> str:
    """Say a half-life.

    Args:
        half_life: number of records after which one counts half as much.

    Returns:
        Part of a sentence.

    Example:
        >>> describe_half_life(1000.0)
        'half-life 1,000'
    """
    return f"half-life {half_life:,g}"


def group_notes(notes: Iterable[tuple[str, str]]) -> list[tuple[str, int]]:
    """Merge notes that differ only in their numbers into one that gives the ranges.

    Numbers in names, such as p95, are not merged.

    Args:
        notes: the notes, each after the name of its stream.

    Returns:
        Each note, and the number of different streams that it is about.

    Example:
        >>> group_notes([("a", "Counts from round 9."), ("a", "Other."), ("b", "Counts from round 1,200.")])
        [('Counts from round 9 to 1,200.', 2), ('Other.', 1)]
    """
    groups: dict[tuple[str, ...], list[tuple[str, list[str]]]] = {}
    for stream, note in notes:
        groups.setdefault(tuple(_NUMBER.split(note)), []).append((stream, _NUMBER.findall(note)))
    return [
        (_merge(parts, [numbers for _, numbers in found]), len({stream for stream, _ in found}))
        for parts, found in groups.items()
    ]


def _merge(parts: tuple[str, ...], numbers: list[list[str]]) -> str:
    """The text between the numbers, with the range of each number."""
    ranges = [_format_range(values) for values in zip(*numbers, strict=True)]
    return "".join(part + between for part, between in zip(parts, [*ranges, ""], strict=True))


def _format_range(numbers: tuple[str, ...]) -> str:
    low, *_, high = sorted(numbers, key=_parse_number) if len(numbers) > 1 else numbers * 2
    return low if low == high else f"{low} to {high}"


def _parse_number(number: str) -> float:
    try:
        return float(number.replace(",", ""))
    except ValueError:  # such as a version, which is not a number
        return 0.0
