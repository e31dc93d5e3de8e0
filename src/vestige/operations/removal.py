"""Removal over a whole store: lists of subjects in one pass, and streams with their names.

Guarantee: a request is carried out in every stream that can be read, with one receipt for each subject; in a stream
whose policy cannot be loaded the records are erased immediately, and a damaged stream is named; held by
tests/operations/test_removal.py. The receipt is the same whether records were held or not; held by
tests/operations/test_receipts.py.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import numpy as np

from vestige.errors import ParameterError, StoreBusyError, StoreError
from vestige.operations.entry import Entry, check_open, count_arrived, find_names, is_large
from vestige.operations.erasure import erase
from vestige.operations.families import begin_request, find_member, flush_families
from vestige.operations.results import ForgetResult, RemoveResult, isolate_errors
from vestige.operations.retention import TOGETHER
from vestige.records import Records
from vestige.store import MemoryStore, Receipt, State, Store, Terms
from vestige.store.keys import EARLIER
from vestige.store.ledger import LEDGER_KEPT
from vestige.store.receipt import check_keep, check_reference
from vestige.store.snapshot import UNNAMED
from vestige.stream import Stream
from vestige.stream.removal import check_rounds
from vestige.stream.rules import count_until_update, make_rules
from vestige.times import wall_clock
from vestige.types import Ints
from vestige.validation import check_bool, check_list

Asked = dict[int, Ints]
"""The rounds that are to go of one stream, by the place of the subject in the list."""
_NOT_KEPT = timedelta(0)
"""How long a stream keeps its part of a request once it has met it: the ledger tells of the whole request."""
_BY_ROUNDS = 0
"""The place of a request by rounds."""


def forget(
    store: Store,
    subjects: Sequence[str] = (),
    *,
    rounds: Sequence[int] = (),
    streams: Sequence[str] | None = None,
    now: bool = False,
    references: Sequence[str | None] | None = None,
    keep_receipts: timedelta = LEDGER_KEPT,
) -> ForgetResult:
    """Request that records leave the streams of a store, in one pass.

    A stream whose policy cannot be loaded cannot wait for an update: its records are erased immediately, and its
    statistic restarts if it was encoded in them. One bad stream does not raise an error.

    A request is met once each stream that was asked has had an update since, or when it is due; `sweep`, `forget` and
    `vestige run` then confirm it in its receipt. So the receipts of people of whom nothing is held look the same.

    Args:
        store: the store; streams that are open in it are used as they are.
        subjects: the people whose records are to be erased.
        rounds: the records to erase, instead of `subjects`; needs exactly one stream.
        streams: only these streams; default: all.
        now: erase them immediately; may reduce accuracy.
        references: what you call each request, such as the numbers of tickets: one for each subject, or one for
            `rounds`; default: none. They outlive the records: do not name the people.
        keep_receipts: how long the receipts are kept after the erasure; default: three years.

    Returns:
        A receipt for each subject, the subjects of whom nothing is held, and what is wrong.

    Raises:
        ParameterError: neither subjects nor rounds are given, or both, or rounds without a stream; or there is no such
            stream; or the references do not fit.
        StoreError: the key of the subjects is missing, or the store cannot be written.
        StoreBusyError: another process holds the store.

    Example:
        >>> from vestige import Mean, Stream, open_store
        >>> store = open_store("memory:")
        >>> stream = Stream(Mean(), retention=96, seed=0, store=store.stream("delays"))
        >>> _ = stream.extend(range(10), subjects=["ada", "bob"] * 5)
        >>> done = forget(store, ["ada", "eve"], now=True, references=["T-1", "T-2"])
        >>> [(receipt.reference, receipt.erased_round) for receipt in done.receipts], done.unknown, len(stream.retained)
        ([('T-1', 10), ('T-2', 10)], (1,), 5)
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
    references = check_references(references, subjects)
    check_keep(keep_receipts)
    check_open(store)
    return forget_pseudonyms(
        store,
        [store.pseudonym(s) for s in subjects],
        rounds=rounds,
        streams=streams,
        now=now,
        references=references,
        keep_receipts=keep_receipts,
    )


def check_references(references: Sequence[str | None] | None, subjects: Sequence[str]) -> tuple[str | None, ...]:
    """Check the references of requests.

    Args:
        references: one for each request; None if they have none.
        subjects: the subjects of the requests; empty for one request by rounds.

    Returns:
        One reference, or None, for each request.

    Raises:
        ParameterError: there are fewer or more than requests, one is not valid, or one contains its subject.

    Example:
        >>> check_references(["T-123"], ["ada"])
        ('T-123',)
    """
    count = len(subjects) or 1
    if references is None:
        return (None,) * count
    check_list("references", references, object, "texts")
    if len(references) != count:
        raise ParameterError(f"references has {len(references)} entries for {count} requests; pass one for each")
    checked = tuple(map(check_reference, references))
    for place, (reference, subject) in enumerate(zip(checked, subjects, strict=False), 1):
        if reference is not None and subject.casefold() in reference.casefold():
            raise ParameterError(
                f"reference number {place} contains its subject, and a receipt outlives the records; use one that does "
                "not name the person, such as the number of a ticket"
            )
    return checked


def forget_pseudonyms(
    store: Store,
    pseudonyms: Sequence[str],
    *,
    rounds: Sequence[int] = (),
    streams: Sequence[str] | None = None,
    now: bool = False,
    request: str | None = None,
    references: Sequence[str | None] | None = None,
    keep_receipts: timedelta = LEDGER_KEPT,
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
        references: of each subject, or of the request by rounds; default: none.
        keep_receipts: how long the receipts are kept after the erasure.

    Returns:
        As `forget` does.

    Raises:
        ParameterError: there is no such stream.
        StoreError: the store cannot be written.
    """
    ids, count = _Ids(request), len(pseudonyms) or 1
    filing = _Filing(
        [ids.make(place) for place in range(count)],
        references or (None,) * count,
        None if streams is None else tuple(dict.fromkeys(streams)),
        keep_receipts,
    )
    with store.borrow(filing.streams) as kept:
        return _forget_all(store, filing, ids, pseudonyms, rounds, kept, now=now, is_repeated=request is not None)


def mark_line(name: Callable[[str], str], subject: str, reference: str) -> str:
    """Compute by what a line of a list of requests is known again: a keyed hash of its subject and its reference.

    Args:
        name: the function from subjects to pseudonyms of the store.
        subject: the subject.
        reference: the reference.

    Returns:
        Sixteen hexadecimal digits.

    Example:
        >>> mark_line(lambda text: text.encode().hex(), "ada", "T-1")
        '00542d3100616461'
    """
    return name(f"\0{reference}\0{subject}")[:16]  # no subject and no reference has a zero byte


def forget_lines(
    store: Store,
    pseudonyms: Sequence[str],
    marks: Sequence[str],
    references: Sequence[str | None],
    *,
    is_last: bool,
    keep_receipts: timedelta = LEDGER_KEPT,
) -> ForgetResult:
    """Carry out the lines of a list of requests that may be left where it is, each once.

    A line is carried out by two calls, before and after the rows of a night are read, and covers what has arrived up
    to the second one. Its receipt has its mark as id after the first call, and a hash of that after the second: by
    these it is known again, as long as the receipt is kept. If a process ended between the two, the next night takes
    the place of that one; and so it does if no row has arrived yet, or if the store was put back from a backup and is
    not accepted, since rows that had arrived will be read again. A stream that could not be asked is asked by later
    calls, and no other with it.

    Args:
        store: the store.
        pseudonyms: the pseudonyms of the subjects in this store.
        marks: of each line, see `mark_line`.
        references: of each line.
        is_last: whether this is the second call.
        keep_receipts: how long the receipts are kept after the erasure.

    Returns:
        As `forget` does, but only the receipts of the lines that were carried out now.

    Raises:
        StoreError: the store cannot be read or written.
    """
    is_last = is_last and count_arrived(store)[0] > 0 and store.find_rollback() is None
    known = {entry.receipt.id: entry for entry in store.read_ledger().entries.values()}
    groups: dict[tuple[str, ...], list[int]] = {}
    for mark, place in {mark: place for place, mark in reversed(list(enumerate(marks)))}.items():  # equal lines are one
        done = known.get(_hash_mark(mark))
        if done is None or done.failed:
            groups.setdefault(() if done is None else done.failed, []).append(place)
    made: dict[int, Receipt] = {}
    unknown, restarted, troubles = list[int](), list[str](), dict[str, str]()
    for failed, found in groups.items():
        places = sorted(found)
        streams = tuple(name for name in failed if _is_there(store, name)) if failed else None
        if streams == ():
            continue  # they are as they were, which a sweep reports
        before = [known.get(_hash_mark(marks[place])) or known.get(marks[place]) for place in places]
        filing = _Filing(
            [_hash_mark(marks[place]) if is_last or failed else marks[place] for place in places],
            [references[place] for place in places],
            streams,
            keep_receipts,
            {place: entry.receipt for place, entry in enumerate(before) if entry is not None},
            tuple(name for name in failed if name not in (streams or ())),
        )
        asked = [pseudonyms[place] for place in places]
        with store.borrow(streams) as kept:
            part = _forget_all(store, filing, _Ids(None), asked, (), kept, now=False, is_repeated=True)
        made |= dict(zip(places, part.receipts, strict=True))
        unknown += [places[place] for place in part.unknown]
        restarted += part.restarted
        troubles |= part.troubles
    return ForgetResult(tuple(made[place] for place in sorted(made)), tuple(unknown), tuple(restarted), troubles)


def _hash_mark(mark: str) -> str:
    """The id of the receipt of a line that was carried out to its end."""
    return hashlib.blake2b(mark.encode(), digest_size=8).hexdigest()


def _forget_all(
    store: Store,
    filing: _Filing,
    ids: _Ids,
    pseudonyms: Sequence[str],
    rounds: Sequence[int],
    kept: Mapping[str, str],
    *,
    now: bool,
    is_repeated: bool,
) -> ForgetResult:
    """Carry out a request in all streams but those that another process keeps, and file it."""
    streams = filing.streams
    if done := filing.find_done(store):
        return ForgetResult(done)
    troubles: dict[str, str] = {}
    missing = [name for name in streams or () if name not in kept and not _is_there(store, name)]
    left = tuple(name for name in streams or () if name not in missing)
    begin_request(store)
    if missing and not (is_repeated and left):
        there = find_names(store, {})
        raise ParameterError(f"there is no stream {missing[0]!r}; there is {', '.join(there[:5]) or 'none yet'}")
    names = _find_asked(store, pseudonyms, troubles) if streams is None else left
    unreadable = tuple(troubles)
    troubles |= kept
    troubles |= dict.fromkeys(
        missing, "there is no such stream, so nothing was erased from it; all others were processed"
    )
    places: dict[str, int] = {}
    for place, pseudonym in enumerate(pseudonyms):
        places.setdefault(pseudonym, place)
    known, restarted, reached = set[int](), list[str](), dict[str, Entry]()
    for start in range(0, len(names), TOGETHER):
        with store.transaction():
            for name in names[start : start + TOGETHER]:
                if name in kept:
                    continue
                with isolate_errors(store, name, troubles):
                    entry = Entry.find(store, name)
                    found = _find_rounds(entry.state.retained, places)
                    known |= found.keys()
                    asked = {_BY_ROUNDS: np.asarray(rounds)} if len(rounds) else found
                    since = _forget(store, entry, asked, ids.of_stream(name), now=now) if asked else 0
                    reached[name] = entry
                    restarted += [name] if since else []
                    if asked and entry.policy is None:
                        troubles[name] = f"{entry.problem}; without it records are erased immediately" + (
                            f", and the statistic counts from round {since}" if since else ""
                        )
                    if places and EARLIER in entry.state.retained.subjects:
                        told = [troubles[name]] if name in troubles else []
                        troubles[name] = "; ".join([*told, _name_earlier(entry.state.retained)])
            flush_families(store)
    if len(rounds) and not reached:
        return ForgetResult(troubles=troubles)
    failed = [name for name in (*names, *unreadable) if name not in reached]
    scope = _Scope.of_store(store) if streams is None and is_large(store) else _Scope.of_streams(reached.values())
    made = filing.file(store, scope, failed, now=now)
    unknown = tuple(place for place in places.values() if place not in known)
    return ForgetResult(made, unknown, tuple(restarted), troubles)


@dataclass(frozen=True, slots=True)
class _Filing:
    """Requests that are to be noted in the ledger.

    Attributes:
        ids: the ids of their receipts.
        references: their references.
        streams: the streams that were asked; None for all.
        keep: how long their receipts are kept.
        before: receipts of the same requests to all streams, by their place, which the new ones replace.
        failed: the streams that could not be asked then, and are not asked now.
    """

    ids: Sequence[str]
    references: Sequence[str | None]
    streams: Sequence[str] | None
    keep: timedelta
    before: Mapping[int, Receipt] = field(default_factory=dict)
    failed: Sequence[str] = ()

    def find_done(self, store: Store) -> tuple[Receipt, ...]:
        """The receipts of requests that were made before; empty if they were not, or not to the end."""
        if self.before:
            return ()
        known = {receipt.id: receipt for receipt in store.read_ledger().receipts}
        return tuple(known[name] for name in self.ids) if all(name in known for name in self.ids) else ()

    def file(self, store: Store, asked: _Scope, failed: Sequence[str], *, now: bool) -> tuple[Receipt, ...]:
        """Add the requests to the ledger.

        Their time is now, after all streams were asked, so that none of these has to meet its part any later.
        """
        at = wall_clock()
        due_round = asked.t if now else asked.due_round
        made = [
            Receipt.create(at, asked.t, due_round, asked.max_age, receipt_id, reference, self.keep)
            for receipt_id, reference in zip(self.ids, self.references, strict=True)
        ]
        for place, old in self.before.items():
            made[place] = replace(made[place], requested=old.requested, requested_round=old.requested_round)
        filed = tuple(receipt.mark_erased(asked.t, at) if now and not failed else receipt for receipt in made)
        replaced, streams = {old.id for old in self.before.values()}, None if self.before else self.streams
        with store.transaction():
            store.write_ledger(store.read_ledger().drop(replaced).file(filed, streams, [*self.failed, *failed]))
        return filed


@dataclass(frozen=True, slots=True)
class _Scope:
    """What the receipt of a request says of the streams that were asked.

    Attributes:
        t: number of records that have arrived in them.
        max_age: the longest limit in time; None if one of them has none.
        due_round: the round of the next update if there is one stream; None if there are several, since each has its
            own rounds.
    """

    t: int
    max_age: timedelta | None
    due_round: int | None

    @classmethod
    def of_streams(cls, asked: Collection[Entry]) -> _Scope:
        """That of some streams."""
        ages = [entry.terms.max_age for entry in asked]
        return cls(sum(entry.state.clock.t for entry in asked), _find_longest(ages), _find_due_round(list(asked)))

    @classmethod
    def of_store(cls, store: Store) -> _Scope:
        """That of all streams of a store, without reading them."""
        return cls(count_arrived(store)[0], _find_longest([terms.max_age for terms in store.list_terms()]), None)


def _find_longest(ages: Sequence[timedelta | None]) -> timedelta | None:
    """The longest of these limits; None if there is none, or one is without limit."""
    return None if None in ages else max((age for age in ages if age is not None), default=None)


def _find_asked(store: Store, pseudonyms: Sequence[str], troubles: dict[str, str]) -> tuple[str, ...]:
    """The streams to look through for subjects: all, or in a large store those that the index names and open ones.

    Streams with records of subjects that were named with a lost key are among them.
    """
    if not is_large(store):
        return find_names(store, troubles)
    flush_families(store)
    damaged, wrong = store.find_damaged()
    found = {*store.live_names(), *damaged}.union(*store.find_subjects([*pseudonyms, EARLIER]).values())
    rows = {name for name in found if _is_row(store, name)}
    troubles |= dict.fromkeys([*wrong, *sorted(rows)], UNNAMED)
    return tuple(sorted(found - rows))


def _is_there(store: Store, name: str) -> bool:
    """Whether a stream is in a store or open there; a row without a readable name is not a stream."""
    try:
        is_open = store.live(name) is not None or find_member(store, name) is not None
        return is_open or (store.has(name) and not _is_row(store, name))
    except StoreBusyError:
        raise
    except StoreError:
        return False


def _is_row(store: Store, name: str) -> bool:
    """Whether this is not the name of a stream, but what is said of a row whose names cannot be read."""
    return " of the table " in name and name in store.survey()[1]


def _find_due_round(asked: Sequence[Entry]) -> int | None:
    """The round of the next update if there is one stream; None if there are several, since each has its own rounds."""
    if len(asked) != 1:
        return None
    entry, clock = asked[0], asked[0].state.clock
    if entry.policy is None:
        return clock.t
    rules = make_rules(entry.policy, entry.limits, None)
    return clock.last + count_until_update(rules, clock, entry.state.receipts)


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


def _forget(store: Store, entry: Entry, asked: Asked, ids: _Ids, *, now: bool) -> int:
    """Carry out the request in one stream; since which round it counts if its statistic restarts, else 0."""
    if entry.policy is None:
        since = _erase_at_once(store, entry, asked)
    else:
        marks, counts_from = [ids.make(place) for place in asked], list[int]()

        def act(stream: Stream) -> None:
            stream.forget_each(list(asked.values()), now=now, receipt_ids=marks, keep_receipts=_NOT_KEPT)
            counts_from.append(stream.clock.since)

        entry.act(store, act)
        since = counts_from[0]
    return since if since > entry.state.clock.since else 0


def _find_rounds(records: Records, places: Mapping[str, int]) -> Asked:
    """The rounds of the records that are held of each subject."""
    found: dict[int, list[int]] = {}
    for subject, number in zip(records.subjects, records.rounds.tolist(), strict=True):
        if subject in places:
            found.setdefault(places[subject], []).append(number)
    return {place: np.array(numbers) for place, numbers in sorted(found.items())}


def _erase_at_once(store: Store, entry: Entry, asked: Asked) -> int:
    """Erase records of a stream whose policy cannot be loaded; since which round it counts then."""
    state = entry.state
    going = np.isin(state.retained.rounds, check_rounds(np.concatenate(list(asked.values())), state.clock.t))
    if going.any() or state.retained.leaving.any():
        state = erase(state, going)
        entry.write(store, state)
    return state.clock.since


class _Ids:
    """The ids of the receipts of one request: random, or the same whenever it is repeated."""

    def __init__(self, request: str | None) -> None:
        self._request = request or secrets.token_hex(8)

    def of_stream(self, stream: str) -> _Ids:
        """The ids of the receipts that one stream keeps until it has met the request."""
        return _Ids(f"{self._request} {stream}")

    def make(self, place: int) -> str:
        """The id for a subject's place in the list."""
        text = f"{place} {self._request}"
        return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()


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
    for start in range(0, len(streams), TOGETHER):
        with store.borrow(streams[start : start + TOGETHER]) as missing:
            troubles |= missing
            for place, name in enumerate(streams[start : start + TOGETHER], start):
                if name in missing:
                    continue
                with isolate_errors(store, name, troubles):
                    if find_member(store, name) is not None or store.has(name) or store.live(name) is not None:
                        store.remove(name)
                    gone.append(place)
    return RemoveResult(tuple(gone), troubles)
