"""Does a policy keep to the model? It must be a function of clock, records and coins, and of nothing else.

The rules are those of Section 2 of Immorlica et al. (2024): no state besides the records. A policy that remembers is
found by asking it the same questions again: out of order, after another stream, as a pickled copy, in a fresh process,
with the records stored in another order; and by looking for erased values in all that it can reach.
Guarantee: finds memory in instance, class and module variables, closures, default arguments, generators and files;
held by tests/test_checks.py, which has a policy for each.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

from vestige.checks.residue import holds_any
from vestige.checks.traces import Exchange, Question, Rows, trace
from vestige.errors import CheckError, RuleError
from vestige.policy import Policy
from vestige.records import Bools, Floats, Records

_ORDERLY = 1e-9
_WRITES = os.O_WRONLY | os.O_RDWR
_OUTSIDE = ("sqlite3.connect", "socket.connect", "subprocess.Popen", "os.system", "os.posix_spawn")


def check_policy(policy: Policy, *, batch: int | None = None, rows: Rows | None = None, seed: int = 0) -> None:
    """Raise a CheckError at the first sign that `policy` breaks the model.

    Args:
        policy: an instance; its class must be importable, since a fresh process is asked too.
        batch: the size of the batches that it is tried with; what it needs unless said.
        rows: makes records, as `rows(rng, n)` of shape (n, columns); standard normal unless said.
        seed: of the records and the coins.

    >>> from vestige import Mean
    >>> check_policy(Mean())
    """
    if not isinstance(policy, Policy):
        raise CheckError(f"{type(policy).__name__} is no vestige.Policy; subclass it")
    make = rows or (lambda rng, n: rng.normal(size=(n, policy.columns)))
    size = batch or max(policy.minimum, min(32, policy.maximum or 32))
    name = type(policy).__name__
    before = _pickled(policy, name)
    try:
        exchanges, erased = trace(policy, size, make, seed)
        trace(policy, size, make, seed + 1)
    except RuleError as broken:
        raise CheckError(f"{name} breaks a rule: {broken}") from broken
    shuffled = [exchanges[i] for i in np.random.default_rng(seed).permutation(len(exchanges))]
    _ask_again(policy, shuffled, f"{name} remembers", "after it had seen another stream")
    _ask_out_of_order(policy, shuffled, name, seed)
    if _pickled(policy, name) != before:
        raise CheckError(f"{name} changed while it ran; a policy is an immutable value: keep nothing in its attributes")
    place = holds_any(policy, erased)
    if place is not None:
        raise CheckError(f"{name} still holds the value of an erased record, reachable from {place}; keep no records")
    copy = pickle.loads(before)  # noqa: S301
    _ask_again(copy, shuffled, f"{name} depends on more than its parameters", "of a pickled copy")
    _ask_elsewhere(before, shuffled, name)


def _pickled(policy: Policy, name: str) -> bytes:
    try:
        return pickle.dumps(policy)
    except Exception as reason:
        raise CheckError(
            f"{name} cannot be pickled ({reason}); a policy is a value: keep no open files, generators or functions "
            "made inside functions, and define its class in a module"
        ) from reason


def _same(first: Bools | float | Floats, second: Bools | float | Floats) -> bool:
    return type(first) is type(second) and np.array_equal(first, second, equal_nan=True)


def _ask_again(policy: Policy, exchanges: Sequence[Exchange], blame: str, when: str) -> None:
    for exchange in exchanges:
        if not _same(exchange.question.ask(policy), exchange.reply):
            raise CheckError(
                f"{blame}: {exchange.question.name} gave another result when asked again {when}, with the same clock, "
                "records and coins; use nothing else"
            )


def _ask_out_of_order(policy: Policy, exchanges: Sequence[Exchange], name: str, seed: int) -> None:
    """Store the records in another order: the same must be kept, and the answer be the same but for rounding."""
    rng = np.random.default_rng(seed)
    for exchange in exchanges:
        question = exchange.question
        old = rng.permutation(len(question.retained))
        new = rng.permutation(len(question.arrivals)) if question.arrivals is not None else None
        moved = Question(
            question.clock,
            _stored(question.retained, old),
            None if question.arrivals is None or new is None else _stored(question.arrivals, new),
            question.coins,
        )
        reply, order = moved.ask(policy), old if new is None else np.concatenate((old, len(old) + new))
        if new is None:
            fine = np.allclose(reply, exchange.reply, rtol=_ORDERLY, atol=_ORDERLY, equal_nan=True)
        else:
            fine = _same(reply, np.asarray(exchange.reply)[order])
        if not fine:
            raise CheckError(
                f"{name} depends on the order in which records are stored: {question.name} gave another result when "
                "they were shuffled; go by their rounds"
            )


def _stored(records: Records, order: np.ndarray) -> Records:
    """The same records, stored in another order."""
    return records.where(order)


def _ask_elsewhere(policy: bytes, exchanges: Sequence[Exchange], name: str) -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        found = pool.submit(_in_a_fresh_process, policy, list(exchanges), name).result()
    if found is not None:
        raise CheckError(found)


def _writes(details: tuple[object, ...]) -> bool:
    """Whether the audit event of opening a file (path, mode, flags) is for writing."""
    return isinstance(details[2], int) and bool(details[2] & _WRITES)


def _in_a_fresh_process(pickled: bytes, exchanges: list[Exchange], name: str) -> str | None:
    """Runs in the new process: what is wrong with the policy there, or None."""
    policy = pickle.loads(pickled)  # noqa: S301
    try:
        _ask_again(policy, exchanges, f"{name} depends on the process it runs in", "in a fresh one")
        touched: list[str] = []
        watching = [True]

        def watch(event: str, details: tuple[object, ...]) -> None:
            if watching[0] and (event in _OUTSIDE or (event == "open" and _writes(details))):
                touched.append(event)

        sys.addaudithook(watch)
        _ask_again(policy, exchanges, f"{name} depends on the process it runs in", "in a fresh one")
        watching[0] = False
    except CheckError as found:
        return str(found)
    if touched:
        return f"{name} writes outside its return value ({touched[0]}); a policy may keep nothing, in files neither"
    return None
