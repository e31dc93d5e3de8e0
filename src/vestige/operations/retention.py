"""Time limits over a whole store: what is due is erased from every stream, whatever is wrong with another one.

Guarantee: a stream whose policy cannot be loaded, whose row is damaged or whose dates are in the future never delays
the deadline of another; held by tests/operations/test_troubles.py. A dry run says what a sweep then does; held by
tests/operations/test_retention.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import datetime

from vestige.errors import DataError, ParameterError, StoreBusyError, StoreError
from vestige.operations.confirmation import confirm_requests
from vestige.operations.entry import Entry, find_due, find_due_names
from vestige.operations.erasure import erase_overdue
from vestige.operations.families import flush_families
from vestige.operations.results import Erasure, SweepResult, isolate_errors
from vestige.store import State, Store, Terms
from vestige.store.service_notes import ServiceNotes
from vestige.store.table_store import TableStore
from vestige.stream import Stream
from vestige.stream.rules import make_rules
from vestige.stream.update import can_close_early
from vestige.times import to_ticks, to_utc, wall_clock
from vestige.validation import check_bool, check_list

TOGETHER = 256
"""Number of streams that are written in one transaction: few enough that little has to be repeated after a crash."""


def sweep(
    store: Store,
    at: datetime | None = None,
    *,
    dry_run: bool = False,
    exclude: Sequence[str] = (),
    tidy: bool = True,
) -> SweepResult:
    """Erase what is due in the streams of a store, and tidy it.

    What is due is erased even if the policy cannot be loaded; the statistic restarts then. One bad stream does not
    raise an error. Of more than 4,096 streams, only those are looked at in which something is due.

    Args:
        store: the store; streams that are open in it are used as they are.
        at: the time that limits in time are checked against; default: the machine's clock.
        dry_run: only report what would be erased, and change nothing.
        exclude: names of streams that are left as they are, such as those that are being filled with history.
        tidy: whether to bring the store into its canonical form, which writes all of it again.

    Returns:
        What was erased from each stream, and what is wrong.

    Raises:
        ParameterError: a parameter is not what it should be.
        StoreBusyError: another process holds the store.

    Example:
        >>> from vestige import Mean, Stream, open_store
        >>> store = open_store("memory:")
        >>> stream = Stream(Mean(), retention=96, seed=0, store=store.stream("delays"))
        >>> _ = stream.extend(range(10))
        >>> sweep(store).streams
        {'delays': Erasure(erased=0, restarted=False, closed=False, undecided=0)}
    """
    check_bool("dry_run", dry_run)
    check_bool("tidy", tidy)
    check_list("exclude", exclude, str, "names of streams")
    excluded = set(exclude)
    moment = to_utc(wall_clock() if at is None else at)
    done: dict[str, Erasure] = {}
    troubles: dict[str, str] = {}
    names = [name for name in find_due_names(store, moment, troubles) if name not in excluded]
    changing = set() if dry_run else find_due(store, moment, {})
    swept = None if troubles or excluded or moment > wall_clock() else moment
    for start in range(0, len(names), TOGETHER):
        group = names[start : start + TOGETHER]
        with store.borrow([name for name in group if name in changing]) as missing, store.transaction():
            troubles |= missing
            for name in group:
                if name in missing:
                    continue
                with isolate_errors(store, name, troubles):
                    entry = Entry.find(store, name)
                    done[name] = _preview(entry, moment) if dry_run else _sweep(store, entry, moment)
                    if trouble := _explain_trouble(entry, done[name], moment, dry_run=dry_run):
                        troubles[name] = trouble
            flush_families(store)
    if not dry_run:
        _expire_notes(store, moment, troubles)
        confirm_requests(store, troubles, swept=swept if len(done) == len(names) else None)
    return SweepResult(done, troubles, tidy=tidy and not dry_run and _try_tidy(store, done, troubles))


def _expire_notes(store: Store, now: datetime, troubles: dict[str, str]) -> None:
    """Erase what a service knows of requests that it has taken long ago."""
    if isinstance(store, TableStore):
        try:
            ServiceNotes(store).expire_requests(now)
        except StoreBusyError:
            raise
        except StoreError as problem:
            troubles["the table requests"] = str(problem)


def _is_copy(copy: object) -> bool:
    """Whether it is a stream's terms and its state."""
    return isinstance(copy, tuple) and tuple(map(type, copy)) == (Terms, State)


def _try_tidy(store: Store, done: Mapping[str, Erasure], troubles: Mapping[str, str]) -> bool:
    """Tidy the store; whether that was possible, which only what is in trouble already may prevent."""
    try:
        store.tidy()
    except StoreBusyError:
        raise
    except StoreError:
        names, wrong = store.survey()
        if not troubles and not wrong and done.keys() >= set(names):
            raise
        return False
    return True


def preview(streams: Mapping[str, tuple[Terms, State]], at: datetime | None = None) -> SweepResult:
    """Find what a sweep would do to streams of a snapshot.

    Args:
        streams: the terms and the state of each, by name, as in `StoreSnapshot.streams`.
        at: the time that limits in time are checked against; default: the machine's clock.

    Returns:
        What would be erased from each stream, and what is wrong.

    Raises:
        ParameterError: `streams` does not hold terms and states.

    Example:
        >>> preview({}).erased
        0
    """
    if not isinstance(streams, Mapping) or not all(map(_is_copy, streams.values())):
        raise ParameterError("streams does not hold terms and states by name; pass StoreSnapshot.streams")
    moment = to_utc(wall_clock() if at is None else at)
    done: dict[str, Erasure] = {}
    troubles: dict[str, str] = {}
    for name, (terms, state) in streams.items():
        entry = Entry.from_snapshot(name, terms, state)
        done[name] = _preview(entry, moment)
        if trouble := _explain_trouble(entry, done[name], moment, dry_run=True):
            troubles[name] = trouble
    return SweepResult(done, troubles)


def _preview(entry: Entry, now: datetime) -> Erasure:
    """What a sweep at `now` would do to a stream."""
    left = erase_overdue(entry.terms, entry.state, now, all_or_nothing=entry.all_or_nothing)
    closed = _would_close(entry, left, now)
    return replace(_compare_states(entry.state, left), closed=closed, undecided=len(left.retained) if closed else 0)


def _sweep(store: Store, entry: Entry, now: datetime) -> Erasure:
    """Erase what is due, through the stream if its policy can be loaded, else without it."""
    if entry.terms.max_age is None and not entry.state.receipts:
        return Erasure(0)  # without a limit in time or a request nothing is due before the next arrival
    ahead = entry.find_ahead(now).any()
    if not entry.is_open and (entry.policy is None or ahead):
        left = erase_overdue(entry.terms, entry.state, now, all_or_nothing=entry.all_or_nothing)
        if left is not entry.state:
            entry.write(store, left)
        return _compare_states(entry.state, left)
    found: list[Erasure] = []

    def act(stream: Stream) -> None:
        with suppress(DataError) if ahead else nullcontext():  # `_explain_trouble` reports it
            stream.sweep(now)
        found.append(_compare_states(entry.state, State(stream.clock, stream.retained)))

    entry.act(store, act)
    return found[0]


def _compare_states(before: State, after: State) -> Erasure:
    restarted = after.clock.since > before.clock.since
    closed = after.clock.updates > (0 if restarted else before.clock.updates)
    return Erasure(len(before.retained) - len(after.retained), restarted, closed)


def _would_close(entry: Entry, state: State, now: datetime) -> bool:
    """Whether a sweep would close the batch that waits in `state`."""
    held = state.retained
    if entry.terms.max_age is None or entry.policy is None or entry.find_ahead(now).any():
        return False
    rules, waiting = make_rules(entry.policy, entry.limits, None), held.where(held.rounds > state.clock.last)
    return can_close_early(rules, state.clock, waiting, to_ticks(now))


def _explain_trouble(entry: Entry, done: Erasure, now: datetime, *, dry_run: bool) -> str:
    """What is wrong with a stream that could be read; empty if nothing is."""
    ahead = entry.state.retained.where(entry.find_ahead(now)).rounds
    if len(ahead):
        first = int(ahead[0])
        many, them = ("record is", "") if len(ahead) == 1 else ("records are", "the first of them ")
        return (
            f"{len(ahead):,} {many} dated more than {entry.limits.max_ahead} after the present time, {them}in "
            f"round {first}, so that its limits in time cannot be enforced; correct the clock, or erase the "
            f"record: vestige forget STORE --stream NAME --round {first} --now"
        )
    if entry.policy is None and (entry.terms.max_age is not None or done.erased):
        would = "would be" if dry_run else "was"
        return (
            f"{entry.problem}; without it what is due {would} erased, {done.erased:,} record{'s'[: done.erased != 1]}"
            + (", and the statistic restarts" if done.restarted else "")
        )
    return ""
