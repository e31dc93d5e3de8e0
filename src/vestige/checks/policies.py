"""Does a policy keep to the model? It must be a function of clock, records and coins, and of nothing else.

The rules are those of Section 2 of Immorlica et al. (2024): no state besides the records. A policy that remembers is
found by asking it the same questions again: out of order, after another stream, as a pickled copy, in a fresh process
that is watched, with the records stored in another order; and by comparing all that it can reach before and after.
Guarantee: finds memory in instance, class and module variables, closures, default arguments, generators, caches and
files; held by tests/test_checks.py, which has a policy for each.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence

import numpy as np

from vestige.checks.elsewhere import ask_elsewhere
from vestige.checks.residue import fingerprints
from vestige.checks.traces import Exchange, Question, ask_again, same, same_at_once, trace
from vestige.errors import CheckError, ParameterError, show_value, whole_number
from vestige.policy import Policy
from vestige.records import Floats

Rows = Callable[[np.random.Generator, int], Floats]
_ORDERLY = 1e-9


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
    if rows is not None and not callable(rows):
        raise ParameterError(f"rows={show_value(rows)} does not make records; pass a function rows(rng, n), or None")
    whole_number("seed", seed, 0)
    if batch is not None:
        whole_number("batch", batch, 1, 10**6)
    name = type(policy).__name__
    size = batch or max(policy.minimum, min(32, policy.maximum or 32))
    make = rows or (lambda rng, n: rng.normal(size=(n, policy.columns)))
    data = [make(np.random.default_rng([seed, i]), 6 * size + size // 3) for i in range(4)]
    before = _pickled(policy, name)
    trace(policy, size, data[0], seed)  # what is loaded or compiled on first use is there from now on
    found = fingerprints(policy)
    exchanges = trace(policy, size, data[1], seed + 1)
    trace(policy, size, data[2], seed + 2)
    shuffled = [exchanges[i] for i in np.random.default_rng(seed).permutation(len(exchanges))]
    ask_again(policy, shuffled, f"{name} remembers", "after it had seen another stream")
    _ask_out_of_order(policy, shuffled, name, seed)
    if not same_at_once(policy, size, data[1], seed + 1):
        raise CheckError(f"{name}.update_many keeps other records than update for each batch; make them agree")
    for place, fingerprint in fingerprints(policy).items():
        if found.get(place, fingerprint) != fingerprint:
            raise CheckError(f"{name} keeps something: what can be reached from {place} changed while it ran")
    if _pickled(policy, name) != before:
        raise CheckError(f"{name} changed while it ran; a policy is an immutable value: keep nothing in its attributes")
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
    rng = np.random.default_rng(seed)
    for exchange in exchanges:
        question = exchange.question
        old = rng.permutation(len(question.retained))
        new = rng.permutation(len(question.arrivals)) if question.arrivals is not None else None
        moved = Question(
            question.clock,
            question.retained.where(old),
            None if question.arrivals is None or new is None else question.arrivals.where(new),
            question.coins,
        )
        reply, order = moved.ask(policy), old if new is None else np.concatenate((old, len(old) + new))
        if new is None:
            fine = np.allclose(reply, exchange.reply, rtol=_ORDERLY, atol=_ORDERLY, equal_nan=True)
        else:
            fine = same(reply, np.asarray(exchange.reply)[order])
        if not fine:
            raise CheckError(
                f"{name} depends on the order in which records are stored: {question.name} gave another result when "
                "they were shuffled; go by their rounds"
            )
