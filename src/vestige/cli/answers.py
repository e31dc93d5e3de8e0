"""Answers as tables and as JSON: each says from which record it counts, and how many records that is.

The title "all-time" is used only for statistics that count from their first record and have not missed their target,
not even by rounding. A window counts the records that it holds; a half-life is stated.
Guarantee: no table and no JSON hides that a statistic started over; held by tests/test_cli_answers.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from vestige.cli.output import format_count, say, show_table
from vestige.cli.reports import make_report, make_title
from vestige.errors import NoAnswerError, NoRecordsError
from vestige.estimate import Estimate
from vestige.keyed import KeyedStreams
from vestige.policies import Bundle, BundleEstimate, Encoded, Report
from vestige.policies.stateful import Stateful
from vestige.policy import Policy
from vestige.sources.keys import split_key
from vestige.stream import Stream
from vestige.stream.estimate import count_represented

SHOWN = 20
"""The number of keys in a table; JSON has all of them."""
_NUMBER = re.compile(r"(?<![\w.,])\d++(?:[.,]\d++)*+(?:e[+-]?\d++)?+(?!\w)")
"""A number that is not part of a name, such as p95 or x1."""


@dataclass(frozen=True, slots=True)
class StreamAnswer:
    """The answer of a stream, ready to be printed; or the reason why there is none.

    Attributes:
        t: number of records that have arrived; 0 where it is unknown.
        since: the first record that the statistic counts.
        counted: number of records that it counts, without those that were erased before an update.
        estimate: the answer; None where there is none.
        report: the table of the answer; None where there is none.
        problem: the reason why there is no answer.
        remedies: ways to avoid a start over or a missed target, if there was one.
        window: whether it counts only the records that are held.
        half_life: after this number of records, a record counts half as much; None if all count alike.
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
    def from_stream(cls, stream: Stream, columns: tuple[str, ...] = ()) -> StreamAnswer:
        """Query a stream.

        Args:
            stream: the stream.
            columns: names of the columns of a record, targets last; empty where they are unknown.

        Returns:
            The answer, or the reason why there is none.

        Example:
            >>> from vestige import Mean
            >>> StreamAnswer.from_stream(Stream(Mean(), retention=96)).estimate is None
            True
        """
        policy, estimate, problem = stream.policy, None, ""
        try:
            estimate = stream.estimate()
        except (NoRecordsError, NoAnswerError) as found:
            problem = str(found)
        half_life = _find_half_life(policy)
        answer = cls(stream.t, stream.clock.since, stream.counted, window=policy.is_window, half_life=half_life)
        requests = bool(stream.receipts)
        return answer._complete(policy, estimate, problem, columns, stream.max_age, has_requests=requests)

    @classmethod
    def from_keyed(
        cls,
        streams: KeyedStreams,
        name: str,
        columns: tuple[str, ...] = (),
        max_age: timedelta | None = None,
        *,
        has_requests: bool = False,
    ) -> StreamAnswer:
        """Query the stream of a key.

        Args:
            streams: the streams.
            name: name of the stream.
            columns: names of the columns of a record, targets last; empty where they are unknown.
            max_age: maximum age of a record in the streams.
            has_requests: whether removals were requested.

        Returns:
            The answer, or the reason why there is none.

        Example:
            >>> from vestige import Mean
            >>> shops = KeyedStreams(Mean(), retention=96)
            >>> _ = shops.extend(["DE"], [1.5])
            >>> StreamAnswer.from_keyed(shops, "DE").counted
            1
        """
        policy, estimate, problem = streams.policy, None, ""
        try:
            estimate = streams.estimate(name)
            t, since, counted = estimate.t, estimate.since, estimate.counted
        except (NoRecordsError, NoAnswerError) as found:
            problem, clock = str(found), streams.clock(name)
            t, since = clock.t, clock.since
            counted = count_represented(policy, clock, streams.retained(name))
        answer = cls(t, since, counted, window=policy.is_window, half_life=_find_half_life(policy))
        return answer._complete(policy, estimate, problem, columns, max_age, has_requests=has_requests)

    def _complete(
        self,
        policy: Policy,
        estimate: Estimate | None,
        problem: str,
        columns: tuple[str, ...],
        max_age: timedelta | None,
        *,
        has_requests: bool,
    ) -> StreamAnswer:
        """The answer with its table, or the reason why there is none, and with remedies."""
        report = None
        try:
            report = None if estimate is None else make_report(policy, estimate, columns)
        except (NoRecordsError, NoAnswerError) as found:
            estimate, problem = None, str(found)
        problem = problem.removesuffix("; push one first")
        answer = replace(self, estimate=estimate, report=report, problem=problem)
        return replace(answer, remedies=_find_remedies(policy, answer, max_age, has_requests=has_requests))

    @property
    def restarted(self) -> bool:
        """Whether the statistic started over after the first record."""
        return self.since > 1

    @property
    def missed(self) -> bool:
        """Whether the kept records missed their target, or may have by rounding."""
        return self.estimate is not None and self.estimate.missed

    @property
    def unanswered(self) -> Mapping[str, str]:
        """The metrics without an answer, with the reasons, where the stream has several."""
        return self.estimate.problems if isinstance(self.estimate, BundleEstimate) else {}

    @property
    def all_time(self) -> bool:
        """Whether it counts every record from the first one."""
        return not (self.restarted or self.missed or self.window)

    @property
    def facts(self) -> dict[str, object]:
        """The answer as a JSON object."""
        counts = {"t": self.t, "since": self.since, "counted": self.counted}
        if self.estimate is None or self.report is None:
            return {**counts, "value": None, "problem": self.problem}
        return {
            **self.report.facts,
            **counts,
            "held": self.estimate.held,
            "oldest_age": self.estimate.oldest_age,
            "missed": self.missed,
            "notes": [*self.estimate.notes, *map(str, self.report.remarks)],
        }

    def show(self, limit: str) -> None:
        """Print the answer as a table.

        Args:
            limit: the retention, in words.

        Raises:
            NoAnswerError: there is no answer.
        """
        estimate, report = self.estimate, self.report
        if estimate is None or report is None:
            raise NoAnswerError(self.problem)
        start = f", counted from record {self.since:,}" if self.restarted else ""
        off = ", which may be far off" if self.missed else ""
        title = make_title(report.name, all_time=self.all_time)
        records = format_count(self.counted, "record")
        counted = f"the {records} held" if self.window else records
        recent = "" if self.half_life is None else f", of which recent ones count more (half-life {self.half_life:,g})"
        say(f"{title} of {counted}{start}{recent}{off}")
        show_table(report.header, report.rows, words=("term",))
        for remark in (*map(str, report.remarks), *_describe_unanswered(self.unanswered)):
            say(remark)
        ago = f"; the oldest arrived {format_count(estimate.oldest_age, 'record')} ago" if estimate.held else ""
        say(f"Held: {format_count(estimate.held, 'record')}{ago} ({limit}).")
        for note in estimate.notes:
            say(f"Note: {note}")


def _find_half_life(policy: Policy) -> float | None:
    half_life: float | None = getattr(policy.unwrap(), "half_life", None)
    return half_life


def _describe_unanswered(problems: Mapping[str, str]) -> list[str]:
    """A sentence for each reason why metrics have no answer."""
    found: dict[str, list[str]] = {}
    for name, problem in problems.items():
        found.setdefault(problem, []).append(name)
    return [f"No answer for {', '.join(names)}: {problem}." for problem, names in found.items()]


def _find_remedies(
    policy: Policy, answer: StreamAnswer, max_age: timedelta | None, *, has_requests: bool
) -> tuple[str, ...]:
    """Ways to avoid a start over, by a deadline or by a request, and a missed target."""
    remedies = []
    sketched = isinstance(policy, Stateful) or (isinstance(policy, Bundle) and policy.sketches is not None)
    if answer.restarted and max_age is not None:
        remedies.append("a longer --max-age or fewer keys leave more records to each update")
    if answer.restarted and (max_age is None or has_requests):
        remedies.append("a larger --retention leaves more records to continue with after a removal request")
    if answer.restarted and sketched:
        remedies.append("a smaller sketch, such as p50[size=20] or distinct[256], needs fewer records in each update")
    missed = _find_missed(policy, answer.estimate)
    if any(isinstance(each, Stateful) for each in missed):
        remedies.append("a larger sketch, such as distinct[4096], holds more; what it has missed does not come back")
    if any(not isinstance(each, Stateful) for each in missed):
        averages = isinstance(policy, Encoded) and not policy.encoding.has_bits
        digits = "a larger --retention keeps more digits"
        remedies.append("--channel bits can hold any value" if averages else digits)
    return tuple(remedies)


def _find_missed(policy: Policy, estimate: Estimate | None) -> list[Policy]:
    """The policies whose answers have missed their target: of several metrics, some of them."""
    if estimate is None or not estimate.missed:
        return []
    if not isinstance(policy, Bundle) or not isinstance(estimate, BundleEstimate):
        return [policy]
    answers = estimate.answers.items()
    return [policy.policies[name] for name, answer in answers if answer is not None and answer.missed] or [policy]


def show_many(by: str | tuple[str, ...], answers: Mapping[str, StreamAnswer], option: str = "--json") -> None:
    """Print the answers of many streams: first those that started over, then those that count the most records.

    Args:
        by: the column that the streams are named by, or several.
        answers: the answers, by the name of the stream; with several columns, by key, as `split_key` takes it.
        option: the option of the command that prints all of them.
    """
    ranked = sorted(answers.items(), key=lambda item: (not item[1].restarted, -item[1].counted))
    total = Total(
        len(answers),
        sum(answer.counted for answer in answers.values() if answer.report is not None),
        sum(answer.restarted for answer in answers.values()),
        all_time=all(answer.all_time for answer in answers.values()),
    )
    show_ranked(by, dict(ranked[:SHOWN]), total, option)
    _show_footer(answers)


@dataclass(frozen=True, slots=True)
class Total:
    """What is true of many streams together.

    Attributes:
        streams: number of streams.
        counted: number of records that those with an answer count.
        restarted: number of streams whose statistic started over.
        all_time: whether all of them count every record from the first one.
    """

    streams: int
    counted: int
    restarted: int
    all_time: bool


def show_ranked(by: str | tuple[str, ...], shown: Mapping[str, StreamAnswer], total: Total, option: str) -> None:
    """Print a table of some of many streams.

    Args:
        by: the column that the streams are named by, or several.
        shown: the answers that are shown, by key.
        total: what is true of all of them.
        option: the option of the command that prints all of them.
    """
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


def _show_footer(answers: Mapping[str, StreamAnswer]) -> None:
    """Print what the table leaves out: statistics that started over, streams without an answer, and all notes."""
    show_restarted(
        sum(answer.restarted for answer in answers.values()),
        len(answers),
        sum(answer.t for answer in answers.values()),
    )
    windows = sum(answer.window for answer in answers.values())
    if windows:
        are = "is a window, which counts" if windows == 1 else "are windows, which count"
        say(f"{windows:,} of {format_count(len(answers), 'stream')} {are} only the records held.")
    lives = [
        (key, f"half-life {answer.half_life:,g}") for key, answer in answers.items() if answer.half_life is not None
    ]
    for text, number in group_notes(lives):
        say(f"Recent records count more in {number:,} of {format_count(len(answers), 'stream')}: {text}.")
    show_notes(answers)


def show_notes(answers: Mapping[str, StreamAnswer]) -> None:
    """Print why streams have no answer, and all notes.

    Args:
        answers: the answers, by the name of the stream.
    """
    for text, number in group_notes((key, answer.problem) for key, answer in answers.items() if answer.problem):
        say(f"No answer in {format_count(number, 'stream')}: {text}")
    unanswered = ((key, text) for key, answer in answers.items() for text in _describe_unanswered(answer.unanswered))
    for text, number in group_notes(unanswered):
        say(f"In {format_count(number, 'stream')}: {text}")
    reports = ((key, answer.report) for key, answer in answers.items() if answer.report is not None)
    for text, _ in group_notes((key, str(remark)) for key, report in reports for remark in report.remarks):
        say(text)
    estimates = ((key, answer.estimate) for key, answer in answers.items() if answer.estimate is not None)
    notes = ((key, note) for key, estimate in estimates for note in estimate.notes)
    for text, number in group_notes(notes):
        say(f"Note on {format_count(number, 'stream')}: {text}")


def show_restarted(restarted: int, streams: int, arrived: int) -> None:
    """Print how many statistics started over, if any.

    Args:
        restarted: number of streams whose statistic did.
        streams: number of streams.
        arrived: number of records that have arrived in all of them.
    """
    if restarted:
        say(
            f"{restarted:,} of {format_count(streams, 'stream')} started over: each counts only from the record in "
            f"the column since. {format_count(arrived, 'record')} arrived."
        )


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


def check_strict(answers: Mapping[str, StreamAnswer]) -> None:
    """Check that no statistic started over or missed its target, and that each has an answer, as has each metric.

    Args:
        answers: the answers, by the name of the stream.

    Raises:
        NoAnswerError: one of them did, or has none; the error says how many.
    """
    raise_strict(
        len(answers),
        sum(answer.restarted for answer in answers.values()),
        sum(answer.missed for answer in answers.values()),
        sum(answer.estimate is None or bool(answer.unanswered) for answer in answers.values()),
        tuple(dict.fromkeys(name for answer in answers.values() for name in answer.unanswered)),
        tuple(dict.fromkeys(remedy for answer in answers.values() for remedy in answer.remedies)),
    )


def raise_strict(
    streams: int, restarted: int, missed: int, silent: int, metrics: tuple[str, ...], remedies: tuple[str, ...]
) -> None:
    """Raise an error if a statistic started over, missed its target or has no answer.

    Args:
        streams: number of streams.
        restarted: number of those that started over.
        missed: number of those that missed their target.
        silent: number of those without an answer, or without one of a metric.
        metrics: metrics without an answer.
        remedies: ways to avoid it.

    Raises:
        NoAnswerError: there are some.
    """
    if restarted or silent or missed:
        unanswered = (f"metrics without an answer: {', '.join(metrics)}",) if metrics else ()
        where = "the notes say why" if restarted or missed or not metrics else "the answers say why"
        raise NoAnswerError(
            f"--strict: of {format_count(streams, 'stream')}, {restarted:,} started over, {missed:,} missed the "
            f"target and {silent:,} have no answer; " + "; ".join((*unanswered, where, *remedies))
        )
