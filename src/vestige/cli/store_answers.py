"""The answers of the streams of a snapshot: each asked by itself, but for those of large families.

Guarantee: large families give the same rows and the same table as their streams asked one by one; held by
tests/test_cli_store_answers.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import merge
from itertools import chain

from vestige.cli.access import list_terms
from vestige.cli.answers import StreamAnswer
from vestige.cli.keyed_answers import KeyedAnswers
from vestige.cli.rows import Row, list_rows
from vestige.cli.summary import Answers, AskedAnswers, Tally, show_answers
from vestige.errors import VestigeError
from vestige.ingest import StreamNames
from vestige.ingest.names import read_by
from vestige.keyed import read_families
from vestige.operations.entry import FEW
from vestige.policy import count_waiting
from vestige.store import State, StoreSnapshot, Terms
from vestige.stream import copy_stream
from vestige.stream.frames import find_names


@dataclass(frozen=True)
class StoreAnswers:
    """The answers of the streams of a snapshot.

    Attributes:
        by: what the streams are named by in a table: "stream", or the columns of their keys.
        find_key: function from the name of a stream to what it is called in a table.
        asked: the answers of streams that were asked one by one, by name.
        families: those of large families.
        unanswered: streams that cannot be asked, with what is wrong.
    """

    by: str | tuple[str, ...] = "stream"
    find_key: Callable[[str], str] = str
    asked: dict[str, StreamAnswer] = field(default_factory=dict)
    families: tuple[KeyedAnswers, ...] = ()
    unanswered: dict[str, StreamAnswer] = field(default_factory=dict)

    @classmethod
    def ask(cls, copy: StoreSnapshot) -> StoreAnswers:
        """Ask all streams of a snapshot.

        Args:
            copy: the snapshot.

        Returns:
            The answers.
        """
        by, find_key = _find_label(copy)
        families, members = list[KeyedAnswers](), set[str]()
        for terms, names, streams in read_families(copy.streams, more_than=FEW):
            columns = find_names(streams.policy, terms.about)
            families.append(KeyedAnswers(streams, find_key, columns, terms.max_age, chosen=names))
            members.update(names)
        asked = dict[str, StreamAnswer]()
        unanswered = {name: StreamAnswer(0, 1, 0, problem=text) for name, text in copy.troubles.items()}
        for name in copy.streams:
            if name not in members:
                terms, state = copy.streams[name]
                try:
                    asked[name] = _ask(terms, state)
                except VestigeError as problem:
                    unanswered[name] = _make_unanswered(state, str(problem))
        return cls(by, find_key, asked, tuple(families), dict(sorted(unanswered.items())))

    def __len__(self) -> int:
        return len(self.asked) + sum(map(len, self.families))

    @property
    def troubles(self) -> dict[str, str]:
        """What is wrong with the streams that cannot be asked."""
        return {name: answer.problem for name, answer in self.unanswered.items()}

    @property
    def problem(self) -> str:
        """Why there is no answer at all; empty if a stream has one."""
        found = chain(self.asked.values(), (answer for each in self.families for _, answer in each.rank()))
        problems = [answer.problem if answer.estimate is None else "" for answer in found]
        return "" if "" in problems or any(each.has_answer for each in self.families) else next(iter(problems), "")

    def show(self, option: str) -> None:
        """Print the answers in a table.

        Args:
            option: the option of the command that prints all of them.
        """
        asked = {self.find_key(name): answer for name, answer in (self.asked | self.unanswered).items()}
        parts: list[Answers] = [*self.families, *([AskedAnswers(asked)] if asked else [])]
        show_answers(self.by, parts, option)

    def examine(self) -> Tally:
        """Add up the answers of all streams that could be asked.

        Returns:
            The tally.
        """
        return sum((each.examine() for each in self.families), Tally.of(self.asked.values()))

    def iterate_rows(self) -> Iterator[Row]:
        """Iterate over the answers as rows for other programs; see `vestige.cli.rows`.

        Yields:
            The rows of the streams in the order of their names, then those of streams that cannot be asked.
        """
        rows = (row for name, answer in self.asked.items() for row in list_rows({name: answer}))
        yield from merge(rows, *(each.iterate_rows() for each in self.families), key=lambda row: str(row["stream"]))
        yield from list_rows(self.unanswered)


def _ask(terms: Terms, state: State) -> StreamAnswer:
    stream = copy_stream(terms, state)
    return StreamAnswer.from_stream(stream, stream.column_names)


def _make_unanswered(state: State, problem: str) -> StreamAnswer:
    """A stream that has no answer, with what is known about it."""
    clock = state.clock
    return StreamAnswer(clock.t, clock.since, clock.encoded + count_waiting(clock, state.retained), problem=problem)


def _find_label(copy: StoreSnapshot) -> tuple[str | tuple[str, ...], Callable[[str], str]]:
    """What names the streams: the columns of several --by, if all have the same; and the key of a name."""
    abouts = [*(terms.about for terms in list_terms(copy)), *([{}] if copy.troubles else [])]
    known = {(read_by(about), about.get("stream"), bool(about.get("hash_keys"))) for about in abouts}
    by, prefix, hashed = next(iter(known), (None, None, False))
    if len(known) != 1 or hashed or not isinstance(by, tuple):
        return "stream", str
    return by, StreamNames(by, None if prefix is None else str(prefix)).find_key
