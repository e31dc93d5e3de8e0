"""Time limits over a whole store: what is due goes from every stream, whatever is wrong with another one.

Guarantee: a stream whose policy cannot be made, whose row is damaged or whose dates lie in the future never keeps the
others from their deadline; held by tests/operations/test_troubles.py. A dry run says what a sweep then does; held by
tests/operations/test_retention.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import datetime

from vestige.errors import DataError, ParameterError, StoreBusyError, StoreError
from vestige.operations.entry import Entry, find_names
from vestige.operations.erasure import erase_overdue
from vestige.operations.outcome import Erasure, Swept, isolate_errors
from vestige.store import State, Store, Terms
from vestige.store.state import to_ticks, to_utc, wall_clock
from vestige.stream.deadlines import find_earliest, must_close
from vestige.stream.rules import make_rules
from vestige.stream.update import can_close
from vestige.validation import check_bool, check_list

TOGETHER = 256
"""How many streams are written in one transaction: few enough that little is done again after a crash."""


def sweep(store: Store, at: datetime | None = None, *, dry_run: bool = False, exclude: Sequence[str] = ()) -> Swept:
    """Erase what is due in the streams of a store, and tidy it.

    What is due goes even where the policy cannot be made from its name: then the statistic starts again. Nothing is
    raised for one bad stream.

    Args:
        store: the store; streams that are open in it are used as they are.
        at: the time that limits in time are checked against; default: the machine's clock.
        dry_run: only say what would go, and change nothing.
        exclude: names of streams that are left as they are, such as those that history is being filled into.

    Returns:
        what went of each stream, and what is wrong.

    Raises:
        StoreBusyError: another process holds the file.

    >>> from vestige import Mean, MemoryStore, Stream
    >>> store = MemoryStore()
    >>> stream = Stream(Mean(), retention=96, seed=0, store=store.stream("delays"))
    >>> _ = stream.extend(range(10))
    >>> sweep(store).streams
    {'delays': Erasure(erased=0, restarted=False, closed=False, undecided=0)}
    """
    check_bool("dry_run", dry_run)
    check_list("exclude", exclude, str, "names of streams")
    excluded = set(exclude)
    moment = to_utc(wall_clock() if at is None else at)
    done: dict[str, Erasure] = {}
    troubles: dict[str, str] = {}
    names = [name for name in find_names(store, troubles) if name not in excluded]
    for start in range(0, len(names), TOGETHER):
        with store.transaction():
            for name in names[start : start + TOGETHER]:
                with isolate_errors(store, name, troubles):
                    entry = Entry.find(store, name)
                    done[name] = _preview(entry, moment) if dry_run else _sweep(store, entry, moment)
                    if trouble := _trouble(entry, done[name], moment, dry_run=dry_run):
                        troubles[name] = trouble
    return Swept(done, troubles, tidy=not dry_run and _tidied(store))


def _is_copy(copy: object) -> bool:
    """Whether it is a stream's terms and its state."""
    return isinstance(copy, tuple) and tuple(map(type, copy)) == (Terms, State)


def _tidied(store: Store) -> bool:
    """Bring the store into its canonical form; whether that could be done, which a damaged stream may prevent."""
    try:
        store.tidy()
    except StoreBusyError:
        raise
    except StoreError:
        return False
    return True


def preview(streams: Mapping[str, tuple[Terms, State]], at: datetime | None = None) -> Swept:
    """What a sweep would do to streams that were copied from a store, as in `StoreSnapshot.streams`.

    Args:
        streams: terms and state by name.
        at: the time that limits in time are checked against; default: the machine's clock.
    """
    if not isinstance(streams, Mapping) or not all(map(_is_copy, streams.values())):
        raise ParameterError("streams does not hold terms and states by name; pass StoreSnapshot.streams")
    moment = to_utc(wall_clock() if at is None else at)
    done: dict[str, Erasure] = {}
    troubles: dict[str, str] = {}
    for name, (terms, state) in streams.items():
        entry = Entry.from_snapshot(name, terms, state)
        done[name] = _preview(entry, moment)
        if trouble := _trouble(entry, done[name], moment, dry_run=True):
            troubles[name] = trouble
    return Swept(done, troubles)


def _preview(entry: Entry, now: datetime) -> Erasure:
    """What a sweep at `now` would do to a stream."""
    left = erase_overdue(entry.terms, entry.state, now, all_or_nothing=entry.all_or_nothing)
    closed = _would_close(entry, left, now)
    return replace(_change(entry.state, left), closed=closed, undecided=len(left.retained) if closed else 0)


def _sweep(store: Store, entry: Entry, now: datetime) -> Erasure:
    """Erase what is due: as the stream does, or without it where it cannot be asked."""
    if entry.terms.max_age is None and not entry.state.receipts:
        return Erasure(0)  # without a limit in time or a request nothing comes due while nothing arrives
    ahead = entry.ahead(now).any()
    if entry.live is None and (entry.policy is None or ahead):
        left = erase_overdue(entry.terms, entry.state, now, all_or_nothing=entry.all_or_nothing)
        if left is not entry.state:
            entry.write(store, left)
        return _change(entry.state, left)
    with entry.open(store) as stream:
        with suppress(DataError) if ahead else nullcontext():  # which says no more than what is told of it here
            stream.sweep(now)
        return _change(entry.state, State(stream.clock, stream.retained))


def _change(before: State, after: State) -> Erasure:
    restarted = after.clock.since > before.clock.since
    closed = after.clock.updates > (0 if restarted else before.clock.updates)
    return Erasure(len(before.retained) - len(after.retained), restarted, closed)


def _would_close(entry: Entry, state: State, now: datetime) -> bool:
    """Whether a sweep would close the batch that waits in `state`."""
    held = state.retained
    if entry.terms.max_age is None or entry.policy is None or entry.ahead(now).any():
        return False
    rules, waiting = make_rules(entry.policy, entry.limits, None), held.where(held.rounds > state.clock.last)
    urgent = must_close(rules.limits, to_ticks(now), find_earliest(waiting.times), state.clock.due)
    return urgent and can_close(rules, state.clock, waiting, rules.min_early_batch)


def _trouble(entry: Entry, done: Erasure, now: datetime, *, dry_run: bool) -> str:
    """What is wrong with a stream that could be read; nothing if all is well."""
    ahead = entry.state.retained.where(entry.ahead(now)).rounds
    if len(ahead):
        first = int(ahead[0])
        many, them = ("record is", "") if len(ahead) == 1 else ("records are", "the first of them ")
        return (
            f"{len(ahead):,} {many} dated more than {entry.limits.max_ahead} after the time that counts, {them}in "
            f"round {first}, so that its limits in time cannot be kept by this clock; set it right, or erase the "
            f"record: vestige forget STORE --stream NAME --round {first} --now"
        )
    if entry.policy is None and (entry.terms.max_age is not None or done.erased):
        would = "would be" if dry_run else "was"
        return (
            f"{entry.problem}; without it what is due {would} erased, {done.erased:,} record{'s'[: done.erased != 1]}"
            + (", and the statistic starts again" if done.restarted else "")
        )
    return ""
