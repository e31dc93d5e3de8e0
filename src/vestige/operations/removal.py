"""Removal over a whole store: lists of subjects in one pass, and streams with their names.

Guarantee: a request is carried out in every stream that can be read, with one receipt for each subject and stream; in
a stream whose policy cannot be loaded the records are erased immediately, and a damaged stream is named; held by
tests/operations/test_removal.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from vestige.errors import ParameterError, StoreError
from vestige.operations.entry import Entry, check_open, find_names
from vestige.operations.erasure import erase
from vestige.operations.results import ForgetResult, Removal, RemoveResult, isolate_errors
from vestige.operations.retention import TOGETHER
from vestige.records import Records
from vestige.store import MemoryStore, Receipt, State, Store, Terms
from vestige.store.keys import EARLIER
from vestige.stream import Stream
from vestige.stream.removal import check_rounds
from vestige.times import wall_clock
from vestige.types import Ints
from vestige.validation import check_bool, check_list

Asked = dict[int | None, Ints]
"""The rounds that are to go of one stream, by the place of the subject in the list."""
_NO_ROUNDS: Ints = np.empty(0, np.int64)
_BY_ROUNDS = (1 << 24) - 1
"""Stands for the place of a request by rounds; a list is shorter than this."""


def forget(
    store: Store,
    subjects: Sequence[str] = (),
    *,
    rounds: Sequence[int] = (),
    streams: Sequence[str] | None = None,
    now: bool = False,
) -> ForgetResult:
    """Request that records leave all streams of a store, in one pass.

    A stream whose policy cannot be loaded cannot wait for an update: its records are erased immediately, and its
    statistic restarts if it was encoded in them. One bad stream does not raise an error.

    Args:
        store: the store; streams that are open in it are used as they are.
        subjects: the people whose records are to be erased.
        rounds: the records to erase, instead of `subjects`; needs exactly one stream.
        streams: only these streams, each of which gives a receipt for each subject; default: all streams that hold
            records of a subject.
        now: erase them immediately; may reduce accuracy.

    Returns:
        A receipt for each subject and stream, the subjects of whom nothing is held, and what is wrong.

    Raises:
        ParameterError: neither subjects nor rounds are given, or both, or rounds without a stream; or there is no such
            stream.
        StoreError: the key of the subjects is missing, or the store cannot be written.
        StoreBusyError: another process holds the store.

    Example:
        >>> from vestige import Mean, open_store
        >>> store = open_store("memory:")
        >>> stream = Stream(Mean(), retention=96, seed=0, store=store.stream("delays"))
        >>> _ = stream.extend(range(10), subjects=["ada", "bob"] * 5)
        >>> done = forget(store, ["ada", "eve"], now=True)
        >>> [(removal.stream, removal.subject) for removal in done.removals], done.unknown, len(stream.retained)
        ([('delays', 0)], (1,), 5)
    """
    check_list("subjects", subjects, str, "texts")
    if streams is not None:
        check_list("streams", streams, str, "names of streams")
    check_bool("now", now)
    rounds = rounds.tolist() if isinstance(rounds, np.ndarray) else rounds
    check_list("rounds", rounds, int, "whole numbers")
    if bool(len(subjects)) == bool(len(rounds)):
        raise ParameterError("forget takes either subjects=... or rounds=..., with at least one entry")
    if len(rounds) and (streams is None or len(streams) != 1):
        raise ParameterError("rounds are counted in each stream separately; name the stream with streams=[name]")
    check_open(store)
    return forget_pseudonyms(store, [store.pseudonym(s) for s in subjects], rounds=rounds, streams=streams, now=now)


def forget_pseudonyms(
    store: Store,
    pseudonyms: Sequence[str],
    *,
    rounds: Sequence[int] = (),
    streams: Sequence[str] | None = None,
    now: bool = False,
    request: str | None = None,
) -> ForgetResult:
    """Request that records leave a store, by the pseudonyms of their subjects; see `forget`.

    A request may have waited while one of its streams was removed: it is carried out in the others, and that stream is
    named.

    Args:
        store: the store.
        pseudonyms: the pseudonyms of the subjects in this store.
        rounds: the records to erase, instead of `pseudonyms`.
        streams: only these streams; default: all.
        now: erase them immediately.
        request: the id of the request; one with the same id is carried out once.

    Returns:
        As `forget` does.

    Raises:
        ParameterError: there is no such stream.
        StoreError: the store cannot be written.
    """
    troubles: dict[str, str] = {}
    there = find_names(store, troubles)
    missing = [name for name in streams or () if name not in there]
    left = tuple(name for name in dict.fromkeys(streams or ()) if name in there)
    if missing and not (request and left):
        raise ParameterError(f"there is no stream {missing[0]!r}; there is {', '.join(there[:5]) or 'none yet'}")
    troubles |= dict.fromkeys(
        missing, "there is no such stream, so nothing was erased from it; all others were processed"
    )
    places: dict[str, int] = {}
    for place, pseudonym in enumerate(pseudonyms):
        places.setdefault(pseudonym, place)  # a subject that is named twice counts once
    removals: list[Removal] = []
    restarted: list[str] = []
    known: set[int | None] = set()
    names = there if streams is None else left
    for start in range(0, len(names), TOGETHER):
        with store.transaction():
            for name in names[start : start + TOGETHER]:
                with isolate_errors(store, name, troubles):
                    entry, ids = Entry.find(store, name), _Ids(request, name)
                    asked = ids.find_done(entry.state.receipts) | _find_rounds(entry.state.retained, places)
                    known |= asked.keys()
                    if len(rounds):
                        asked = {None: np.asarray(rounds)}
                    elif streams is not None:
                        asked = {place: asked.get(place, _NO_ROUNDS) for place in places.values()}
                    given, since = _forget(store, entry, asked, ids, now=now) if asked else ({}, 0)
                    removals += [Removal(name, place, receipt) for place, receipt in given.items()]
                    restarted += [name] if since else []
                    if given and entry.policy is None:
                        troubles[name] = f"{entry.problem}; without it records are erased immediately" + (
                            f", and the statistic counts from round {since}" if since else ""
                        )
                    if places and EARLIER in entry.state.retained.subjects:
                        told = [troubles[name]] if name in troubles else []
                        troubles[name] = "; ".join([*told, _name_earlier(entry.state.retained)])
    unknown = tuple(place for place in places.values() if place not in known)
    return ForgetResult(tuple(removals), unknown, tuple(restarted), troubles)


def preview_forget(
    copies: Mapping[str, tuple[Terms, State]],
    pseudonyms: Sequence[str],
    *,
    rounds: Sequence[int] = (),
    streams: Sequence[str] | None = None,
    now: bool = False,
) -> ForgetResult:
    """Find what `forget_pseudonyms` would do to streams of a snapshot, by doing it to copies in memory.

    Args:
        copies: the terms and the state of each stream, by name.
        pseudonyms: the pseudonyms of the subjects.
        rounds: the records to erase, instead of `pseudonyms`.
        streams: only these streams; default: all.
        now: erase them immediately.

    Returns:
        As `forget` does.

    Raises:
        ParameterError: there is no such stream.
    """
    store = MemoryStore()
    for name, (terms, state) in copies.items():
        store.stream(name, about=terms.about).write(terms, state)
    return forget_pseudonyms(store, pseudonyms, rounds=rounds, streams=streams, now=now)


def _name_earlier(records: Records) -> str:
    """A sentence about records whose subjects were named with a lost key."""
    count = int((records.subjects == EARLIER).sum())
    return (
        f"{count:,} of its records {'has' if count == 1 else 'have'} a subject that was named with an earlier "
        "key (vestige rekey), so nobody can tell whose they are: they may belong to the requested subjects; they are "
        "erased when they are due, or with --round"
    )


def _forget(store: Store, entry: Entry, asked: Asked, ids: _Ids, *, now: bool) -> tuple[dict[int | None, Receipt], int]:
    """Carry out the request in one stream: the receipts, and since which round it counts if its statistic restarts."""
    if entry.policy is None:
        given, since = _erase_at_once(store, entry, asked, ids)
    else:
        with entry.open(store) as stream:
            given, since = _request(stream, asked, ids, now=now)
    return given, since if since > entry.state.clock.since else 0


def _find_rounds(records: Records, places: Mapping[str, int]) -> Asked:
    """The rounds of the records that are held of each subject."""
    found: dict[int | None, list[int]] = {}
    for subject, number in zip(records.subjects, records.rounds.tolist(), strict=True):
        if subject in places:
            found.setdefault(places[subject], []).append(number)
    return {place: np.array(numbers) for place, numbers in sorted(found.items(), key=lambda item: item[0] or 0)}


def _request(stream: Stream, asked: Asked, ids: _Ids, *, now: bool) -> tuple[dict[int | None, Receipt], int]:
    """Make the request of each subject, all at once."""
    receipts = stream.forget_each(list(asked.values()), now=now, receipt_ids=[ids.make(place) for place in asked])
    return dict(zip(asked, receipts, strict=True)), stream.clock.since


def _erase_at_once(store: Store, entry: Entry, asked: Asked, ids: _Ids) -> tuple[dict[int | None, Receipt], int]:
    """Erase records of a stream whose policy cannot be loaded."""
    state, t = entry.state, entry.state.clock.t
    done = {receipt.id: receipt for receipt in state.receipts}
    now, age = wall_clock(), entry.terms.max_age
    made = {place: Receipt.create(now, t, t, age, ids.make(place)) for place in asked}
    fresh = [receipt for receipt in made.values() if receipt.id not in done]
    if fresh:
        going = np.isin(state.retained.rounds, check_rounds(np.concatenate(list(asked.values())), t))
        state = erase(replace(state, receipts=(*state.receipts, *fresh)), going)
        entry.write(store, state)
    given = {receipt.id: receipt for receipt in state.receipts}
    return {place: given[receipt.id] for place, receipt in made.items()}, state.clock.since


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()


class _Ids:
    """The ids of the receipts that one request gets from one stream: random, or the same whenever it is repeated."""

    def __init__(self, request: str | None, stream: str) -> None:
        mark = None if request is None else _digest(f"{request} {stream}")
        self._mark = None if mark is None else int.from_bytes(mark, "big")

    def make(self, place: int | None) -> str | None:
        """The id for a subject's place in the list."""
        return None if self._mark is None else f"{self._mark ^ (_BY_ROUNDS if place is None else place):016x}"

    def find_done(self, receipts: tuple[Receipt, ...]) -> Asked:
        """The places for which the stream has given a receipt before; nothing is left to be done for them."""
        if self._mark is None:
            return {}
        places = (int(receipt.id, 16) ^ self._mark for receipt in receipts)
        return {None if place == _BY_ROUNDS else place: _NO_ROUNDS for place in places if place <= _BY_ROUNDS}


def remove(store: Store, streams: Sequence[str]) -> RemoveResult:
    """Erase streams, their names included; one that is open here cannot write any more.

    Args:
        store: the store.
        streams: the names; a stream that does not exist counts as removed. A row whose name cannot be read is named
            by what `Store.survey` says of it.

    Returns:
        The indices, in the list, of the streams that are gone, and what is wrong with the others.

    Raises:
        ParameterError: `streams` is not a list of names.
        StoreBusyError: another process holds the store.

    Example:
        >>> from vestige import open_store
        >>> remove(open_store("memory:"), ["delays"]).streams
        (0,)
    """
    check_open(store)
    check_list("streams", streams, str, "names of streams")
    gone: list[int] = []
    troubles: dict[str, str] = {}
    for place, name in sorted(enumerate(streams), key=lambda entry: _is_sound(store, entry[1])):
        with isolate_errors(store, name, troubles):  # damaged ones first: the others are written again without them
            unnamed: dict[str, str] = {}
            if name in (*find_names(store, unnamed), *unnamed):
                store.remove(name)
            gone.append(place)
    return RemoveResult(tuple(sorted(gone)), troubles)


def _is_sound(store: Store, name: str) -> bool:
    try:
        Entry.find(store, name)
    except StoreError:
        return False
    return True
