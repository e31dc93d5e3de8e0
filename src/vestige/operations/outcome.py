"""What an operation on a whole store did, stream by stream, as immutable values that are also plain data.

Guarantee: nothing in them depends on a record's values or names a subject, and what is written as JSON is read back the
same, so that they can be handed from process to process; held by tests/operations/test_inbox.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from vestige.errors import StoreBusyError, VestigeError
from vestige.store import Receipt, Store


@dataclass(frozen=True, slots=True)
class Erasure:
    """What a sweep does to one stream.

    Attributes:
        erased: how many records go.
        restarted: whether the statistic starts again, because its records had to go before it could be carried on.
        closed: whether the batch is closed early.
        undecided: in a dry run, how many records are left to choose from where the batch would be closed early; as a
            rule about half or more of them go, besides those that `erased` counts. A sweep leaves none undecided.
    """

    erased: int
    restarted: bool = False
    closed: bool = False
    undecided: int = 0


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep did.

    Attributes:
        streams: each stream that was looked at, and what went of it.
        troubles: what is wrong with a stream, a sentence each; the others are not affected.
        tidy: whether the store was brought into its canonical form afterwards; what is erased is gone either way.
    """

    streams: Mapping[str, Erasure] = field(default_factory=dict)
    troubles: Mapping[str, str] = field(default_factory=dict)
    tidy: bool = False

    @property
    def erased(self) -> int:
        """How many records went in all streams."""
        return sum(erasure.erased for erasure in self.streams.values())

    @property
    def undecided(self) -> int:
        """In a dry run, how many records are left to choose from in all batches that would be closed early."""
        return sum(erasure.undecided for erasure in self.streams.values())

    @property
    def restarted(self) -> tuple[str, ...]:
        """The streams whose statistic starts again."""
        return tuple(name for name, erasure in self.streams.items() if erasure.restarted)

    @property
    def facts(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @classmethod
    def parse(cls, facts: Mapping[str, Any]) -> Swept:
        """What was made from these facts."""
        streams = {name: Erasure(**erasure) for name, erasure in facts["streams"].items()}
        return cls(streams, dict(facts["troubles"]), facts["tidy"])


@dataclass(frozen=True, slots=True)
class Removal:
    """One request as one stream took it.

    Attributes:
        stream: the name of the stream.
        subject: the place of the subject in the list that was given, from 0; None for a request by rounds.
        receipt: what the stream promises.
    """

    stream: str
    subject: int | None
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What became of a list of removal requests.

    Attributes:
        removals: one for each subject and stream that holds records of it.
        unknown: the places of the subjects of whom no stream holds a record.
        restarted: the streams whose statistic starts again.
        troubles: what is wrong with a stream, a sentence each; the others are not affected.
    """

    removals: tuple[Removal, ...] = ()
    unknown: tuple[int, ...] = ()
    restarted: tuple[str, ...] = ()
    troubles: Mapping[str, str] = field(default_factory=dict)

    @property
    def facts(self) -> dict[str, Any]:
        """As plain data."""
        made = asdict(self)
        for removal in made["removals"]:
            receipt = removal["receipt"]
            removal["receipt"] = {k: v.isoformat() if isinstance(v, datetime) else v for k, v in receipt.items()}
        return made

    @classmethod
    def parse(cls, facts: Mapping[str, Any]) -> Forgotten:
        """What was made from these facts."""
        removals = tuple(Removal(r["stream"], r["subject"], _receipt(r["receipt"])) for r in facts["removals"])
        return cls(removals, tuple(facts["unknown"]), tuple(facts["restarted"]), dict(facts["troubles"]))


def _receipt(facts: Mapping[str, Any]) -> Receipt:
    moments = {k: facts[k] and datetime.fromisoformat(facts[k]) for k in ("requested", "due", "erased")}
    return Receipt(**(dict(facts) | moments))


@dataclass(frozen=True, slots=True)
class Removed:
    """What became of streams that were to be erased.

    Attributes:
        streams: the places in the list of those that are gone, from 0; their names are not kept.
        troubles: what is wrong with a stream, a sentence each.
    """

    streams: tuple[int, ...] = ()
    troubles: Mapping[str, str] = field(default_factory=dict)

    @property
    def facts(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @classmethod
    def parse(cls, facts: Mapping[str, Any]) -> Removed:
        """What was made from these facts."""
        return cls(tuple(facts["streams"]), dict(facts["troubles"]))


@dataclass(frozen=True, slots=True)
class Attended:
    """What was carried out of what other processes had asked for.

    Attributes:
        requests: the ids of those that were attended to.
        troubles: what of them could not be carried out, and which cannot be read, a sentence each; by the id of the
            request and the name of the stream, or by the path of the file.
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
    except (StoreBusyError, OSError):
        raise
    except store.backend_errors:
        raise
    except VestigeError as problem:
        troubles[name] = str(problem)
    except Exception as problem:
        troubles[name] = f"its policy fails with {type(problem).__name__}; open it in Python to see where"
