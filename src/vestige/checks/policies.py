"""A check that a policy follows the model: a function of clock, records and coins, and of nothing else.

The rules are those of Section 2 of Immorlica et al. (2024): no state besides the records. A policy with a memory is
found by asking it the same questions again: in another order, after another stream, as a pickled copy, in a fresh
process that is watched, with the records stored in another order; and by comparing all that it could keep something in
after one set of records with the same after another set. What is the same, such as a table that was filled, a kernel
that was compiled or a cache of what sizes and rounds say, is no memory.
Guarantee: finds memory in instance, class and module variables, closures, default arguments, generators, caches and
files, in each method, and in the process around it, even if a policy waits for a thousand records before it cheats;
held by tests/test_checks.py and tests/test_patient.py, which have a policy for each. Accuses no honest policy; held by
tests/test_honest.py, which has some forty.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from vestige.checks.subprocess_check import Case, check_in_subprocess
from vestige.checks.traces import (
    TOLERANCE,
    Exchange,
    Question,
    answers_agree,
    has_update_many,
    record_exchanges,
    replay,
    replies_equal,
    updates_agree,
)
from vestige.errors import CheckError, ParameterError
from vestige.policy import Policy
from vestige.random.generators import make_generator
from vestige.records import Records
from vestige.types import Floats, Ints
from vestige.validation import check_int, show_value

Rows = Callable[[np.random.Generator, int], Floats]
_MIN_RECORDS = 1_500
"""Smallest number of records of a stream: a policy may wait before it cheats."""


def check_policy(policy: Policy, *, batch: int | None = None, rows: Rows | None = None, seed: int = 0) -> None:
    """Check that a policy follows the model.

    All of its methods are called, with requests and batches that are closed early, in streams of 1,500 records and in
    some that begin at rounds 100,000 and 10,000,000, here and in a fresh process that is watched. What copies of that
    process hold after three sets of records tells what depends on these from what only changed, such as a table that
    was filled. A cache may hold what only some of the sets lead to, if some of it comes back in another set; where
    every set leaves entries of its own, and none comes back, it tells records apart. The check also rejects a
    `can_encode` that returns True if all records are leaving, a `rewrite` whose batch depends on values, and a policy
    that `is_exact` but answers otherwise in batches of another size.

    No check of this kind can find a policy that waits for something that does not happen here: an hour, a certain
    value, certain other rounds, a process without the check. Nor a `can_encode` that returns True if a few records can
    be kept but too few, nor every way in which `rewrite` could depend on values. Nor what is stored out of reach: deep
    inside another library's objects or compiled code, in freed memory, in the access time of a file. For those, read
    the policy's code. Nor what comes back after other records too, such as values rounded to a few bins.

    Args:
        policy: policy to check; its class must be importable, since it also runs in a fresh process.
        batch: number of records in a batch. Default: what the policy needs.
        rows: function `rows(rng, n)` that draws records of shape (n, columns), which the policy must take. Default:
            standard normal.
        seed: seed of the records and the coins.

    Raises:
        CheckError: if the policy breaks the model; the message never contains a record's value.
        ParameterError: if another argument is out of range, or the policy does not take such records.

    Example:
        >>> from vestige import Mean
        >>> check_policy(Mean())
    """
    if not isinstance(policy, Policy):
        raise CheckError(f"{type(policy).__name__} is not a vestige.Policy; subclass it")
    if rows is not None and not callable(rows):
        raise ParameterError(f"rows={show_value(rows)} is not a function; pass a function rows(rng, n), or None")
    check_int("seed", seed, 0)
    if batch is not None:
        check_int("batch", batch, 1, 10**6)
    name = type(policy).__name__
    size = batch or max(policy.min_batch, min(32, policy.max_batch or 32))
    make = rows or (lambda rng, n: rng.normal(size=(n, policy.columns)))
    data = [make(make_generator(seed, i), max(_MIN_RECORDS, 6 * size + size // 3)) for i in range(4)]
    pickled = _pickle_policy(policy, name)
    exchanges = record_exchanges(policy, size, data[0], seed)
    record_exchanges(policy, size, data[1], seed + 1)
    shuffled = [exchanges[i] for i in make_generator(seed).permutation(len(exchanges))]
    replay(policy, shuffled, f"{name} remembers", "after it had seen another stream")
    if has_update_many(policy) and not updates_agree(policy, size, data[0], seed):
        raise CheckError(f"{name}.update_many keeps other records than update for each batch; make them agree")
    if policy.is_exact and not answers_agree(policy, size, data[0], seed):
        raise CheckError(
            f"{name} depends on where batches end: batches of another size gave another answer, although is_exact says "
            "that nothing is rounded; let the same rows, in one call or in several, lead to the same state"
        )
    _check_record_order(policy, shuffled, name, seed)
    _check_continuation(policy, shuffled, data[1], name, seed)
    copy = pickle.loads(pickled)  # noqa: S301
    replay(copy, shuffled, f"{name} depends on more than its parameters", "of a pickled copy")
    few = [rows[: 6 * size + size // 3] for rows in data[1:]]
    check_in_subprocess(pickled, Case(shuffled, size, few, seed + 1))


def _pickle_policy(policy: Policy, name: str) -> bytes:
    for part in (type(policy), *getattr(policy, "__dict__", {}).values()):
        if callable(part) and getattr(part, "__module__", None) == "__main__":
            part_name = getattr(part, "__qualname__", name)
            raise CheckError(
                f"{part_name} is defined in __main__, where a fresh process cannot find it; move it to a module"
            )
    try:
        return pickle.dumps(policy)
    except Exception as reason:
        raise CheckError(
            f"{name} cannot be pickled ({reason}); a policy is a value: keep no open files, generators or functions "
            "made inside functions, and define its class in a module"
        ) from reason


def _check_record_order(policy: Policy, exchanges: Sequence[Exchange], name: str, seed: int) -> None:
    """Check with records stored in another order: the same ones are kept, and the answer differs by rounding only."""
    rng = make_generator(seed)
    for exchange in exchanges:
        question = exchange.question
        if question.method not in (
            "update",
            "can_encode",
            "answer",
        ):  # the others may sum in the order of the records
            continue
        moved, order = _shuffle_records(question, rng)
        reply, expected = moved.ask(policy), exchange.reply
        if question.method == "answer":
            fine = np.allclose(reply, expected, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)  # type: ignore[arg-type]
        elif question.method == "update":
            fine = replies_equal(reply, np.asarray(expected)[order])
        else:
            fine = replies_equal(reply, expected)
        if not fine:
            raise CheckError(
                f"{name} depends on the order in which records are stored: {question.name} gave another result when "
                "they were shuffled; use their rounds"
            )


def _check_continuation(policy: Policy, exchanges: Sequence[Exchange], rows: Floats, name: str, seed: int) -> None:
    """Check what the clock depends on: `can_encode` if all records are leaving, and `rewrite` with other values."""
    rng = make_generator(seed)
    for exchange in exchanges:
        question = exchange.question
        if question.method == "can_encode" and policy.all_or_nothing:
            rounds = np.asarray(question.arguments[0])
            if replace(question, arguments=(rounds, np.ones(len(rounds), np.bool_))).ask(policy):
                raise CheckError(
                    f"{name}.can_encode returns True at t={question.clock.t} where all records are leaving; return "
                    "False if too few can be kept"
                )
        elif question.method == "rewrite":
            retained, coins = question.arguments
            assert isinstance(retained, Records)  # noqa: S101
            values = rows[rng.integers(len(rows), size=len(retained))]
            other = replace(question, arguments=(Records(retained.rounds, values, retained.leaving), coins)).ask(policy)
            if _find_batch_end(other) != _find_batch_end(exchange.reply):
                raise CheckError(
                    f"{name}.{question.name} chose the encoded batch depending on values; use only the rounds and "
                    "which records are leaving"
                )


def _find_batch_end(reply: object) -> object:
    """Return the last round of the batch that `rewrite` encodes; None if it starts again."""
    return reply[0] if isinstance(reply, tuple) else None


def _shuffle_records(question: Question, rng: np.random.Generator) -> tuple[Question, Ints]:
    """Return the question with the records in another order, and that order, over all its records."""
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
