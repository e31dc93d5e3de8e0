"""Answers of all streams of a key: each of them if there are some thousands, and those that count most if more.

Guarantee: what is printed is the same for few and for many streams, and what was not computed is said; held by
tests/test_cli_keyed_answers.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

import numpy as np

from vestige.cli.answers import StreamAnswer
from vestige.cli.rows import COLUMNS, Row, list_rows
from vestige.cli.summary import SHOWN, AskedAnswers, Note, Notes, Tally, describe_half_life, show_answers
from vestige.errors import RuleError
from vestige.ingest.condition import find_unreadable
from vestige.keyed import KeyedStreams
from vestige.keyed.counts import KeyedCounts
from vestige.keyed.estimates import KeyedEstimates
from vestige.keyed.terms import ELSEWHERE, find_mode
from vestige.operations.entry import FEW
from vestige.sources.block import Texts
from vestige.types import Bools, Ints

_NOTES = 5_000
"""Number of streams with notes up to which each is asked for them."""
_ROWS = 10_000
"""Number of rows that become objects at a time."""


@dataclass(frozen=True)
class KeyedAnswers:
    """The answers of streams by key.

    Attributes:
        streams: the streams.
        find_key: function from the name of a stream to its key.
        columns: names of the columns of a record, targets last.
        max_age: maximum age of a record.
        has_requests: whether removals were requested.
        chosen: names of the streams to ask, in order; None for all that can be read.
    """

    streams: KeyedStreams
    find_key: Callable[[str], str] = str
    columns: tuple[str, ...] = ()
    max_age: timedelta | None = None
    has_requests: bool = False
    chosen: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(self.streams) if self._keys is None else len(self._keys)

    @cached_property
    def _keys(self) -> Sequence[str] | None:
        """Names of the streams; None if these are all. Those that cannot be read are named elsewhere."""
        if self.chosen is not None:
            return self.chosen
        unreadable = find_unreadable(self.streams)
        return [name for name in self.streams if name not in unreadable] if unreadable else None

    @cached_property
    def each(self) -> Mapping[str, StreamAnswer]:
        """The answer of each stream, by key."""
        return {self.find_key(name): answer for name, answer in self.ask_each()}

    @cached_property
    def counts(self) -> KeyedCounts:
        """The numbers of records of all streams."""
        return self.streams.counts(self._keys)

    @cached_property
    def estimates(self) -> KeyedEstimates:
        """The answers of all streams as columns."""
        return self.streams.estimates(self._keys)

    @cached_property
    def is_computed(self) -> bool:
        """Whether the answers of all streams are computed together, and not one by one."""
        return find_mode(self.streams.policy) != ELSEWHERE

    @property
    def restarted(self) -> int:
        """Number of streams whose statistic started over."""
        return int((self.counts.since > 1).sum())

    @property
    def has_answer(self) -> bool:
        """Whether a stream has an answer, as far as that is known without asking each."""
        if not self.is_computed:
            return any(answer.estimate is not None for answer in self._ranked.values())
        return bool(_is_none(self.estimates.columns["problem"]).any())

    def ask_each(self) -> Iterator[tuple[str, StreamAnswer]]:
        """Ask the streams one by one.

        Yields:
            The name of a stream, and its answer.
        """
        for name in self.streams if self._keys is None else self._keys:
            yield name, self._ask(name)

    def _ask(self, name: str) -> StreamAnswer:
        try:
            return StreamAnswer.from_keyed(
                self.streams, name, self.columns, self.max_age, has_requests=self.has_requests
            )
        except RuleError as problem:  # the policy's, which must not keep the others from their answers
            clock = self.streams.clock(name)
            return StreamAnswer(clock.t, clock.since, 0, problem=str(problem))

    def show(self, by: str | tuple[str, ...]) -> None:
        """Print the answers: first those that started over, then those that count the most records.

        Args:
            by: the column of keys, or several.
        """
        show_answers(by, [AskedAnswers(self.each) if len(self) <= FEW else self], "--json")

    def check_strict(self) -> None:
        """Check that no statistic started over or missed its target, and that each has an answer, as has each metric.

        Raises:
            Finding: one of them did, or has none.
        """
        self.examine().check_strict()

    def examine(self) -> Tally:
        """Add up the answers of all streams, whatever that takes.

        Returns:
            The tally, with remedies.
        """
        if len(self) <= FEW or not self.is_computed:
            return Tally.of(answer for _, answer in self.ask_each())
        columns, tally = self.estimates.columns, self.add_up()
        missed = columns["stream"][columns["missed"]][:1]
        examples = (*self.counts.select(np.flatnonzero(self.counts.since > 1)[:1]).names, *missed)
        remedies = dict.fromkeys(remedy for name in examples for remedy in self._ask(name).remedies)
        return tally + Tally(remedies=tuple(remedies))

    @cached_property
    def _ranked(self) -> dict[str, StreamAnswer]:
        counts = self.counts
        ranked = np.lexsort((-counts.counted, counts.since <= 1))[:SHOWN]
        return {self.find_key(name): self._ask(name) for name in counts.select(ranked).names}

    def rank(self) -> Sequence[tuple[str, StreamAnswer]]:
        """Find those that are shown; of those that count the same, the first. See `vestige.cli.summary.Answers`."""
        return list(self._ranked.items())

    def add_up(self) -> Tally:
        """Add up what is known without asking each stream."""
        counts, windows = self.counts, len(self) if self.streams.policy.is_window else 0
        counted, missed, silent = int(counts.counted.sum()), 0, 0
        if self.is_computed:
            columns = self.estimates.columns
            first = _find_first(columns["stream"])
            answered = _is_none(columns["problem"][first])
            counted, silent = int(columns["counted"][first][answered].sum()), int((~answered).sum())
            missed = len(set(columns["stream"][columns["missed"]].tolist()))
        return Tally(len(self), counted, int(counts.t.sum()), self.restarted, missed, silent, windows)

    def collect_notes(self) -> Notes:
        """Collect what is said of streams: of all, or of those that are shown if the others were not computed."""
        half_life = getattr(self.streams.policy.unwrap(), "half_life", None)
        lives = () if half_life is None else ((name, describe_half_life(half_life)) for name in self.counts.names)
        if not self.is_computed:
            some = Notes.of(self._ranked)
            others = len(self) - len(self._ranked)
            return Notes(some.problems, some.unanswered, some.remarks, some.notes, lives, others)
        columns = self.estimates.columns
        first = _find_first(columns["stream"])
        names, notes, problems = (columns[name][first] for name in ("stream", "notes", "problem"))
        said = ((name, _describe_problem(text)) for name, text in _pair(names, problems))
        return Notes(problems=said, notes=self._split_notes(list(_pair(names, notes))), half_lives=lives)

    def _split_notes(self, notes: Sequence[Note]) -> Iterator[Note]:
        """The notes of streams one by one; those of many streams as they are, several in one text."""
        for name, text in notes:
            made = self._ask(name).estimate if len(notes) <= _NOTES else None
            yield from [(name, text)] if made is None else ((name, note) for note in made.notes)

    def iterate_rows(self) -> Iterator[Row]:
        """Iterate over the answers as rows for other programs; see `vestige.cli.rows`.

        Yields:
            The rows of all streams, in order.
        """
        if not self.is_computed:
            for name, answer in self.ask_each():
                yield from list_rows({name: answer})
            return
        labels = self.streams.policy.labels(self.columns)
        columns = self.estimates.columns
        stream = np.cumsum(_starts(columns["stream"])) - 1
        for start in range(0, len(stream), _ROWS):
            part = {name: columns[name][start : start + _ROWS].tolist() for name in COLUMNS}
            counted = self.counts.counted[stream[start : start + _ROWS]].tolist()
            for values in zip(*part.values(), counted, strict=True):
                yield _make_row(dict(zip((*COLUMNS, "represented"), values, strict=True)), labels)


def _make_row(row: Row, labels: Sequence[str]) -> Row:
    """A row of the columns, with what is not known left out."""
    represented = row.pop("represented")
    if row["problem"] is not None:
        counts = {"since": row["since"], "counted": represented, "t": row["t"]} if row["t"] else {}
        return (
            dict.fromkeys(COLUMNS) | {"stream": row["stream"]} | counts | {"problem": _describe_problem(row["problem"])}
        )
    for name in ("value", "standard_error", "lower", "upper"):
        row[name] = None if row[name] != row[name] else row[name]  # nan
    row["metric"] = labels[int(row["metric"]) - 1] if labels else row["metric"]
    return row


def _describe_problem(text: str) -> str:
    return text.removesuffix("; push one first")


def _starts(names: Texts) -> Bools:
    """Which rows are the first of their stream; the rows of a stream are together."""
    return np.concatenate(([True], names[1:] != names[:-1])) if len(names) else np.zeros(0, np.bool_)


def _find_first(names: Texts) -> Ints:
    """Find the first row of each stream."""
    return np.flatnonzero(_starts(names))


def _is_none(texts: Texts) -> Bools:
    there: Bools = texts == None  # noqa: E711
    return there


def _pair(names: Texts, texts: Texts) -> Iterator[Note]:
    """Pair streams with their texts, where there is one."""
    there = ~_is_none(texts)
    return zip(names[there].tolist(), texts[there].tolist(), strict=True)
