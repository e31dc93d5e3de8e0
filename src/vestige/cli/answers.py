"""Answers as tables and as JSON: each says from which record it counts, and how many records that is.

The title "all-time" is used only for statistics that count from their first record and have not missed their target,
not even by rounding. A window counts the records that it holds; a half-life is stated.
Guarantee: no table and no JSON hides that a statistic started over; held by tests/test_cli_answers.py.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from vestige.stream import Stream
from vestige.stream.estimate import count_represented


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
            estimate = replace(streams.estimate(name), column_names=columns, labels=policy.labels(columns))
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
            "as_of": self.estimate.as_of,
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
        for remark in (*map(str, report.remarks), *describe_unanswered(self.unanswered)):
            say(remark)
        ago = f"; the oldest arrived {format_count(estimate.oldest_age, 'record')} ago" if estimate.held else ""
        say(f"Held: {format_count(estimate.held, 'record')}{ago} ({limit}).")
        for note in estimate.notes:
            say(f"Note: {note}")


def _find_half_life(policy: Policy) -> float | None:
    half_life: float | None = getattr(policy.unwrap(), "half_life", None)
    return half_life


def describe_unanswered(problems: Mapping[str, str]) -> list[str]:
    """Say why metrics have no answer.

    Args:
        problems: the reasons, by metric.

    Returns:
        A sentence for each reason.

    Example:
        >>> describe_unanswered({"spent:p50": "no record is held"})
        ['No answer for spent:p50: no record is held.']
    """
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
