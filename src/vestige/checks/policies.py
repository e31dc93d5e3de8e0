"""Does a policy keep to the model? It must be a function of clock, records and coins, and of nothing else.

The rules are those of Section 2 of Immorlica et al. (2024): no state besides the records. A policy that remembers is
found by asking it the same questions again: out of order, after another stream, as a pickled copy, in a fresh process
that is watched, with the records stored in another order; and by comparing all that it can reach before and after.
Guarantee: finds memory in instance, class and module variables, closures, default arguments, generators, caches and
files, in each method, and in the process around it, also of a policy that waits for a thousand records and goes on from
then; held by tests/test_checks.py and tests/test_patient.py, which have a policy for each.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from vestige.checks.fingerprint import fingerprints
from vestige.checks.subprocess_check import ask_elsewhere
from vestige.checks.traces import Exchange, Question, ask_again, same, same_at_once, takes_many, trace
from vestige.errors import CheckError, ParameterError
from vestige.policy import Policy
from vestige.random.generators import make_generator
from vestige.records import Records
from vestige.types import Floats, Ints
from vestige.validation import check_int, show_value

Rows = Callable[[np.random.Generator, int], Floats]
_ORDERLY = 1e-9
_PATIENCE = 1_500
"""How many records a stream has at least: a policy may wait before it cheats."""


def check_policy(policy: Policy, *, batch: int | None = None, rows: Rows | None = None, seed: int = 0) -> None:
    """Raise a CheckError at the first sign that `policy` breaks the model.

    It is driven through all of its methods, with requests and batches that are closed early, in streams of 1,500
    records and in some that begin at round 10,000,000, here and, with half as many, in a fresh process that is watched.
    It is also asked whether `can_encode` says yes where all records leave, and whether `rewrite` goes on or not
    depending on values.

    No check of this kind can see a policy that waits for what does not come here: an hour, a certain value, certain
    rounds between those, a process without the check. Nor a `can_encode` that says yes where some records can be kept
    but too few, nor every way in which `rewrite` could depend on values. Nor what is kept where nobody looks: deep
    inside another library's objects or in its compiled code, in freed memory, in the time at which a file was last
    read. For those, read its code.

    Args:
        policy: an instance; its class must be importable, since a fresh process is asked too.
        batch: the size of the batches that it is tried with; default: what it needs.
        rows: makes records, as `rows(rng, n)` of shape (n, columns); default: standard normal.
        seed: of the records and the coins.

    Raises:
        CheckError: says what is wrong, never with a record's value.

    >>> from vestige import Mean
    >>> check_policy(Mean())
    """
    if not isinstance(policy, Policy):
        raise CheckError(f"{type(policy).__name__} is no vestige.Policy; subclass it")
    if rows is not None and not callable(rows):
        raise ParameterError(f"rows={show_value(rows)} does not make records; pass a function rows(rng, n), or None")
    check_int("seed", seed, 0)
    if batch is not None:
        check_int("batch", batch, 1, 10**6)
    name = type(policy).__name__
    size = batch or max(policy.min_batch, min(32, policy.max_batch or 32))
    make = rows or (lambda rng, n: rng.normal(size=(n, policy.columns)))
    data = [make(make_generator(seed, i), max(_PATIENCE, 6 * size + size // 3)) for i in range(4)]
    before = _pickled(policy, name)
    trace(policy, size, data[0], seed)  # what is loaded or compiled on first use is there from now on
    found = fingerprints(policy)
    exchanges = trace(policy, size, data[1], seed + 1)
    trace(policy, size, data[2], seed + 2)
    shuffled = [exchanges[i] for i in make_generator(seed).permutation(len(exchanges))]
    ask_again(policy, shuffled, f"{name} remembers", "after it had seen another stream")
    if takes_many(policy) and not same_at_once(policy, size, data[1], seed + 1):
        raise CheckError(f"{name}.update_many keeps other records than update for each batch; make them agree")
    for place, fingerprint in fingerprints(policy).items():
        if found.get(place, fingerprint) != fingerprint:
            raise CheckError(f"{name} keeps something: what can be reached from {place} changed while it ran")
    if _pickled(policy, name) != before:
        raise CheckError(f"{name} changed while it ran; a policy is an immutable value: keep nothing in its attributes")
    _ask_out_of_order(policy, shuffled, name, seed)
    _ask_whether_it_goes_on(policy, shuffled, data[2], name, seed)
    copy = pickle.loads(before)  # noqa: S301
    ask_again(copy, shuffled, f"{name} depends on more than its parameters", "of a pickled copy")
    ask_elsewhere(before, shuffled, size, data[3], seed + 3)


def _pickled(policy: Policy, name: str) -> bytes:
    if type(policy).__module__ == "__main__":
        raise CheckError(f"{name} is defined in __main__, where a fresh process cannot find it; move it to a module")
    try:
        return pickle.dumps(policy)
    except Exception as reason:
        raise CheckError(
            f"{name} cannot be pickled ({reason}); a policy is a value: keep no open files, generators or functions "
            "made inside functions, and define its class in a module"
        ) from reason


def _ask_out_of_order(policy: Policy, exchanges: Sequence[Exchange], name: str, seed: int) -> None:
    """Store the records in another order: the same must be kept, and the answer be the same but for rounding."""
    rng = make_generator(seed)
    for exchange in exchanges:
        question = exchange.question
        if question.method not in (
            "update",
            "can_encode",
            "answer",
        ):  # the others may add up in the order they are shown
            continue
        moved, order = _move(question, rng)
        reply, expected = moved.ask(policy), exchange.reply
        if question.method == "answer":
            fine = np.allclose(reply, expected, rtol=_ORDERLY, atol=_ORDERLY, equal_nan=True)  # type: ignore[arg-type]
        elif question.method == "update":
            fine = same(reply, np.asarray(expected)[order])
        else:
            fine = same(reply, expected)
        if not fine:
            raise CheckError(
                f"{name} depends on the order in which records are stored: {question.name} gave another result when "
                "they were shuffled; go by their rounds"
            )


def _ask_whether_it_goes_on(policy: Policy, exchanges: Sequence[Exchange], rows: Floats, name: str, seed: int) -> None:
    """What the clock comes from: `can_encode` where all records leave, and `rewrite` with other values."""
    rng = make_generator(seed)
    for exchange in exchanges:
        question = exchange.question
        if question.method == "can_encode" and policy.all_or_nothing:
            rounds = np.asarray(question.arguments[0])
            if replace(question, arguments=(rounds, np.ones(len(rounds), np.bool_))).ask(policy):
                raise CheckError(
                    f"{name}.can_encode says at t={question.clock.t} that what is known can be carried on where all "
                    "records are leaving; say False where too few can be kept"
                )
        elif question.method == "rewrite":
            retained, coins = question.arguments
            assert isinstance(retained, Records)  # noqa: S101
            values = rows[rng.integers(len(rows), size=len(retained))]
            other = replace(question, arguments=(Records(retained.rounds, values, retained.leaving), coins)).ask(policy)
            if _batch_end(other) != _batch_end(exchange.reply):
                raise CheckError(
                    f"{name}.{question.name} said whether the answer goes on, and in which batch, depending on values; "
                    "go by the rounds and by which records are leaving"
                )


def _batch_end(reply: object) -> object:
    """What `rewrite` says of the clock: the last round of the batch that is encoded then; None if it starts again."""
    return reply[0] if isinstance(reply, tuple) else None


def _move(question: Question, rng: np.random.Generator) -> tuple[Question, Ints]:
    """The same question with the records in another order; and that order, of all records one after the other."""
    moved: list[object] = []
    order: list[Ints] = []
    count = 0
    shuffle = rng.permutation(len(question.arguments[0]))  # type: ignore[arg-type]
    for thing in question.arguments:
        if isinstance(thing, Records):
            shuffle = rng.permutation(len(thing))
            order.append(count + shuffle)
            count += len(thing)
            moved.append(thing.where(shuffle))
        else:
            moved.append(thing[shuffle] if isinstance(thing, np.ndarray) else thing)
    return replace(question, arguments=tuple(moved)), np.concatenate(order) if order else shuffle
