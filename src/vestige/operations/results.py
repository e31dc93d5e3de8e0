"""The results of operations on a whole store, stream by stream: immutable values that convert to plain data.

Guarantee: nothing in them depends on a record's values or names a subject, and they survive a round trip through JSON,
so that one process can pass them to another; held by tests/operations/test_inbox.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

from vestige.errors import StoreBusyError, VestigeError
from vestige.store import Receipt, Store


@dataclass(frozen=True, slots=True)
class Result:
    """What became of an operation, stream by stream."""

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data; times become texts, and durations numbers of seconds.

        Returns:
            What `from_dict` of its class reads.

        Example:
            >>> RemoveResult((0,)).to_dict()
            {'streams': (0,), 'troubles': {}}
        """
        facts: dict[str, Any] = _format_times(asdict(self))
        return facts


def _format_times(facts: Any) -> Any:
    """Write each time in plain data as a text."""
    if isinstance(facts, dict):
        return {name: _format_times(value) for name, value in facts.items()}
    if isinstance(facts, tuple):
        return tuple(map(_format_times, facts))
    if isinstance(facts, timedelta):
        return facts.total_seconds()
    return facts.isoformat() if isinstance(facts, datetime) else facts


@dataclass(frozen=True, slots=True)
class Erasure:
    """What a sweep does to one stream.

    Attributes:
        erased: number of records that are erased.
        restarted: whether the statistic restarts, because its records were due before it could be written again.
        closed: whether the batch is closed early.
        undecided: in a dry run, the number of records to choose from where the batch would be closed early; usually
            about half or more of them are erased, in addition to `erased`. Always 0 after a sweep.
    """

    erased: int
    restarted: bool = False
    closed: bool = False
    undecided: int = 0


@dataclass(frozen=True, slots=True)
class SweepResult(Result):
    """What a sweep did.

    Attributes:
        streams: what was erased from each stream, by name; of more than 4,096 streams, only those in which something
            was due.
        troubles: what is wrong with a stream, by name, one sentence each; the other streams are not affected.
        tidy: whether the store was brought into its canonical form afterwards; erased records are gone either way.
    """

    streams: Mapping[str, Erasure] = field(default_factory=dict)
    troubles: Mapping[str, str] = field(default_factory=dict)
    tidy: bool = False

    @property
    def erased(self) -> int:
        """Number of records erased from all streams."""
        return sum(erasure.erased for erasure in self.streams.values())

    @property
    def undecided(self) -> int:
        """In a dry run, the number of records to choose from in all batches that would be closed early."""
        return sum(erasure.undecided for erasure in self.streams.values())

    @property
    def restarted(self) -> tuple[str, ...]:
        """The streams whose statistic restarts."""
        return tuple(name for name, erasure in self.streams.items() if erasure.restarted)

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> SweepResult:
        """Read a result from plain data.

        Args:
            facts: what `to_dict` returned.

        Returns:
            The result.
        """
        streams = {name: Erasure(**erasure) for name, erasure in facts["streams"].items()}
        return cls(streams, dict(facts["troubles"]), facts["tidy"])


@dataclass(frozen=True, slots=True)
class ForgetResult(Result):
    """What became of a list of removal requests.

    Attributes:
        receipts: one for each subject, in the order of the list; one for a request by rounds.
        unknown: the indices of the subjects of whom no stream holds a record.
        restarted: the streams whose statistic restarts.
        troubles: what is wrong with a stream, by name, one sentence each; the other streams are not affected.
    """

    receipts: tuple[Receipt, ...] = ()
    unknown: tuple[int, ...] = ()
    restarted: tuple[str, ...] = ()
    troubles: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> ForgetResult:
        """Read a result from plain data.

        Args:
            facts: what `to_dict` returned.

        Returns:
            The result.
        """
        receipts = tuple(map(_parse_receipt, facts["receipts"]))
        return cls(receipts, tuple(facts["unknown"]), tuple(facts["restarted"]), dict(facts["troubles"]))


def _parse_receipt(facts: Mapping[str, Any]) -> Receipt:
    moments = {k: facts[k] and datetime.fromisoformat(facts[k]) for k in ("requested", "due", "erased")}
    return Receipt(**(dict(facts) | moments | {"keep": timedelta(seconds=facts["keep"])}))


@dataclass(frozen=True, slots=True)
class RemoveResult(Result):
    """What became of streams that were to be erased.

    Attributes:
        streams: the indices, in the list, of the streams that are gone, from 0; their names are not kept.
        troubles: what is wrong with a stream, by name, one sentence each.
    """

    streams: tuple[int, ...] = ()
    troubles: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> RemoveResult:
        """Read a result from plain data.

        Args:
            facts: what `to_dict` returned.

        Returns:
            The result.
        """
        return cls(tuple(facts["streams"]), dict(facts["troubles"]))


@dataclass(frozen=True, slots=True)
class InboxResult:
    """What became of the requests of other processes.

    Attributes:
        requests: the ids of the requests that were processed.
        troubles: what could not be carried out or read, one sentence each, by the id of the request and the name of
            the stream, or by the path of the file.
    """

    requests: tuple[str, ...] = ()
    troubles: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def isolate_errors(store: Store, name: str, troubles: dict[str, str]) -> Iterator[None]:
    """Note an error that concerns one stream, and continue with the others.

    Of an error that is not Vestige's own only the type is noted, since its text may show a record.

    Args:
        store: the store; errors that concern all of it are raised.
        name: the name of the stream.
        troubles: where the error is noted.
    """
    try:
        yield
    except StoreBusyError as problem:
        if problem.stream is None:
            raise
        troubles[name] = str(problem)
    except OSError:
        raise
    except store.backend_errors:
        raise
    except VestigeError as problem:
        troubles[name] = str(problem)
    except Exception as problem:
        troubles[name] = f"its policy raises {type(problem).__name__}; open it in Python to see where"
