"""Answers of all streams of a run by key: each of them if there are some thousands, and those that count most if more.

Guarantee: what is printed is the same for few and for many streams, and what was not computed is said; held by
tests/test_cli_keyed_answers.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

import numpy as np

from vestige.cli.answers import (
    SHOWN,
    StreamAnswer,
    Total,
    check_strict,
    group_notes,
    raise_strict,
    show_many,
    show_notes,
    show_ranked,
    show_restarted,
)
from vestige.cli.output import format_count, say
from vestige.ingest import StreamNames
from vestige.ingest.condition import find_unreadable
from vestige.keyed import KeyedStreams
from vestige.keyed.counts import KeyedCounts
from vestige.keyed.estimates import KeyedEstimates
from vestige.keyed.terms import ELSEWHERE, find_mode
from vestige.sources.block import Texts
from vestige.types import Bools, Ints

FEW = 5_000
"""Number of streams up to which each of them is asked."""


@dataclass(frozen=True)
class KeyedAnswers:
    """The answers of streams by key.

    Attributes:
        streams: the streams.
        names: names of their keys.
        columns: names of the columns of a record, targets last.
        max_age: maximum age of a record.
        has_requests: whether removals were requested.
    """

    streams: KeyedStreams
    names: StreamNames
    columns: tuple[str, ...] = ()
    max_age: timedelta | None = None
    has_requests: bool = False

    def __len__(self) -> int:
        return len(self.streams) - len(self._unreadable)

    @cached_property
    def _unreadable(self) -> Mapping[str, str]:
        """Streams that are left out, since they cannot be read; the run names them."""
        return find_unreadable(self.streams)

    @cached_property
    def _keys(self) -> list[str] | None:
        """Names of the streams that can be read; None if all can."""
        return [name for name in self.streams if name not in self._unreadable] if self._unreadable else None

    @cached_property
    def each(self) -> Mapping[str, StreamAnswer]:
        """The answer of each stream, by key."""
        return {
            self.names.find_key(name): self._ask(name) for name in (self.streams if self._keys is None else self._keys)
        }

    @cached_property
    def counts(self) -> KeyedCounts:
        """The numbers of records of all streams."""
        return self.streams.counts(self._keys)

    @cached_property
    def estimates(self) -> KeyedEstimates:
        """The answers of all streams as columns."""
        return self.streams.estimates(self._keys)

    @property
    def restarted(self) -> int:
        """Number of streams whose statistic started over."""
        return int((self.counts.since > 1).sum())

    def show(self, by: str | tuple[str, ...]) -> None:
        """Print the answers: first those that started over, then those that count the most records.

        Args:
            by: the column of keys, or several.
        """
        if len(self) <= FEW:
            show_many(by, self.each)
            return
        shown = {self.names.find_key(name): self._ask(name) for name in self.counts.select(self._rank()).names}
        if find_mode(self.streams.policy) == ELSEWHERE:
            self._show_some(by, shown)
        else:
            self._show_all(by, shown)

    def check_strict(self) -> None:
        """Check that no statistic started over or missed its target, and that each has an answer, as has each metric.

        Raises:
            NoAnswerError: one of them did, or has none.
        """
        if len(self) <= FEW or find_mode(self.streams.policy) == ELSEWHERE:
            check_strict(self.each)
            return
        columns = self.estimates.columns
        missed = _find_streams(columns["stream"], columns["missed"])
        silent = _find_streams(columns["stream"], columns["problem"] != None)  # noqa: E711
        examples = (*self.counts.select(np.flatnonzero(self.counts.since > 1)[:1]).names, *missed[:1])
        remedies = dict.fromkeys(remedy for name in examples for remedy in self._ask(name).remedies)
        raise_strict(len(self), self.restarted, len(missed), len(silent), (), tuple(remedies))

    def _ask(self, name: str) -> StreamAnswer:
        return StreamAnswer.from_keyed(self.streams, name, self.columns, self.max_age, has_requests=self.has_requests)

    def _rank(self) -> Ints:
        """Find the streams to show; of those that count the same, the first."""
        counts = self.counts
        ranked = np.lexsort((-counts.counted, counts.since <= 1))
        return ranked[:SHOWN]

    def _show_all(self, by: str | tuple[str, ...], shown: Mapping[str, StreamAnswer]) -> None:
        """Print some answers, and what there is to say of all."""
        columns, counts = self.estimates.columns, self.counts
        first = _find_first(columns["stream"])
        answered = columns["problem"][first] == None  # noqa: E711
        total = Total(
            len(self),
            int(columns["counted"][first][answered].sum()),
            self.restarted,
            all_time=not (self.restarted or columns["missed"].any() or self.streams.policy.is_window),
        )
        show_ranked(by, shown, total, "--json")
        show_restarted(self.restarted, len(self), int(counts.t.sum()))
        self._show_kind()
        names, notes, problems = (columns[name][first] for name in ("stream", "notes", "problem"))
        for text, number in group_notes(_pair(names, problems)):
            say(f"No answer in {format_count(number, 'stream')}: {text.removesuffix('; push one first')}")
        for text, number in group_notes(_pair(names, notes)):
            say(f"Note on {format_count(number, 'stream')}: {text}")

    def _show_some(self, by: str | tuple[str, ...], shown: Mapping[str, StreamAnswer]) -> None:
        """Print some answers, and what can be said of all without asking each."""
        counts = self.counts
        is_all_time = not (self.restarted or self.streams.policy.is_window)
        show_ranked(by, shown, Total(len(self), int(counts.counted.sum()), self.restarted, is_all_time), "--json")
        show_restarted(self.restarted, len(self), int(counts.t.sum()))
        self._show_kind()
        show_notes(shown)
        say(
            f"The answers of the other {format_count(len(self) - len(shown), 'stream')} were not computed, so their "
            "notes are missing here; --json and --strict compute all of them."
        )

    def _show_kind(self) -> None:
        """Print what the policy says of all streams."""
        streams, half_life = format_count(len(self), "stream"), getattr(self.streams.policy.unwrap(), "half_life", None)
        if self.streams.policy.is_window:
            say(f"{len(self):,} of {streams} are windows, which count only the records held.")
        if half_life is not None:
            say(f"Recent records count more in {len(self):,} of {streams}: half-life {half_life:,g}.")


def _find_first(names: Texts) -> Ints:
    """Find the first row of each stream; the rows of a stream are together."""
    return np.flatnonzero(np.concatenate(([True], names[1:] != names[:-1])))


def _find_streams(names: Texts, chosen: Bools) -> list[str]:
    """Find the streams that have a row that is chosen."""
    return list(dict.fromkeys(names[chosen].tolist()))


def _pair(names: Texts, texts: Texts) -> Iterator[tuple[str, str]]:
    """Pair streams with their texts, where there is one."""
    there = texts != None  # noqa: E711
    return zip(names[there].tolist(), texts[there].tolist(), strict=True)
