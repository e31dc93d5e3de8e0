"""An adversary who chooses what arrives: each batch as a function of the states before it.

A strategy gets its turn before each batch. `choose_decisive_batch` suits any policy: it knows the policy, so it
rehearses the batch of the record with coins of its own, from the state that it sees, under both hypotheses, and lets
the batch arrive after which the answers differ most: the records that would have arrived anyway, or these moved so far,
by bisection, that the answer lies on the border between two that can be written and the record decides which.
Guarantee: finds what no fixed stream of records shows; held by tests/audit/test_strategy.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from vestige.clock import Clock
from vestige.errors import DataError, NoAnswerError, NoRecordsError, ParameterError
from vestige.estimate import Estimate
from vestige.policy import Policy
from vestige.random.keys import AuditSeed
from vestige.records import Records
from vestige.stream import Stream
from vestige.types import Floats
from vestige.validation import show_value

State = tuple[Clock, Records] | None
"""The public clock and the retained records; None where the record is still among them, so that nothing is observed."""
_REHEARSALS = 4
"""Number of coins that a batch is rehearsed with, under each hypothesis."""
_STEPS = 50
"""The most steps of the bisection."""
_REACH = 4.0
"""How far the drawn records are moved at most, in their ranges, to find a border."""


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """What a strategy knows before a batch arrives.

    Attributes:
        policy: policy under audit.
        retention: retention of its stream, in records.
        states: state before each batch so far, the current one last.
        rows: records that arrive if nothing else is chosen; shape (batch, columns).
        position: place of the replaced record in this batch; None if it is in another.
        hypotheses: values of that record under the two hypotheses; shape (2, columns).
        rng: coins of the adversary.
    """

    policy: Policy
    retention: int
    states: tuple[State, ...]
    rows: Floats
    position: int | None
    hypotheses: Floats
    rng: np.random.Generator


Strategy = Callable[[Turn], Floats]
"""A function that chooses the records of the next batch; shape (batch, columns). The replaced record's are ignored."""


def answer_numbers(policy: Policy, clock: Clock, records: Records) -> Floats:
    """List all numbers that a policy answers with.

    Args:
        policy: the policy.
        clock: the public clock.
        records: the retained records.

    Returns:
        The numbers, or one NaN if there is no answer; shape (numbers,).

    Example:
        >>> from vestige import Window
        >>> answer_numbers(Window(), Clock(t=2), Records([1, 2], [[1.0], [2.0]]))
        array([1.5])
    """
    try:
        answer = policy.answer(clock, records) if len(records) else np.nan
    except (NoRecordsError, NoAnswerError):
        answer = np.nan
    return np.ravel(np.asarray(answer.value if isinstance(answer, Estimate) else answer, np.float64))


def choose_rows(strategy: Strategy, turn: Turn) -> Floats:
    """Let a strategy choose the next batch, and check its shape.

    Args:
        strategy: the strategy.
        turn: what it knows.

    Returns:
        The records; shape (batch, columns).

    Raises:
        ParameterError: if it gives anything else.

    Example:
        >>> from vestige import Window
        >>> turn = Turn(Window(), 4, (None,), np.zeros((2, 1)), None, np.zeros((2, 1)), np.random.default_rng(0))
        >>> choose_rows(lambda turn: turn.rows + 1.0, turn)
        array([[1.],
               [1.]])
    """
    rows = np.asarray(strategy(turn), np.float64)
    if rows.shape != turn.rows.shape:
        raise ParameterError(f"adversary(turn) returned shape {show_value(rows.shape)}; return {turn.rows.shape}")
    return rows


def rehearse(turn: Turn, rows: Floats) -> Floats:
    """Run a batch under both hypotheses, with the same coins of the adversary's under each.

    Args:
        turn: what the adversary knows; the replaced record is in this batch.
        rows: records of the batch; shape (batch, columns).

    Returns:
        The answers after the batch; NaN where there is none; shape (2, rehearsals, numbers).

    Example:
        >>> from vestige import Window
        >>> start = Clock(), Records.empty(1)
        >>> turn = Turn(Window(), 4, (start,), np.zeros((2, 1)), 0, np.array([[0.0], [1.0]]), np.random.default_rng(0))
        >>> rehearse(turn, turn.rows)[:, 0]
        array([[0. ],
               [0.5]])
    """
    coins = turn.rng.integers(2**63, size=_REHEARSALS).tolist()
    found = [[_answer_after(turn, rows, value, seed) for seed in coins] for value in turn.hypotheses]
    width = max(len(answer) for answers in found for answer in answers)
    return np.array(
        [[np.pad(answer, (0, width - len(answer)), constant_values=np.nan) for answer in answers] for answers in found]
    )


def choose_decisive_batch(turn: Turn) -> Floats:
    """Choose the batch of the record so that the record decides as much as possible of the next answer.

    Args:
        turn: what the adversary knows.

    Returns:
        The records of the batch; those that would have arrived if the record is in another.

    Example:
        >>> from vestige import Window
        >>> turn = Turn(Window(), 4, (None,), np.zeros((2, 1)), None, np.zeros((2, 1)), np.random.default_rng(0))
        >>> choose_decisive_batch(turn) is turn.rows
        True
    """
    if turn.position is None:
        return turn.rows
    candidates = [turn.rows, *_find_border(turn)]
    return max(candidates, key=lambda rows: _measure_separation(turn, rows))


def _answer_after(turn: Turn, rows: Floats, value: Floats, seed: int) -> Floats:
    """The answer after a batch in which the record has a value."""
    state = turn.states[-1]
    clock, retained = state if state is not None else (Clock(), Records.empty(turn.policy.columns))
    stream = Stream(turn.policy, retention=turn.retention, seed=AuditSeed(seed), retained=retained, clock=clock)
    batch = rows.copy()
    batch[turn.position] = value
    stream.extend(batch)
    return answer_numbers(turn.policy, stream.clock, stream.retained)


def _measure_separation(turn: Turn, rows: Floats) -> float:
    """How far apart the answers under the two hypotheses are, in deviations; below 0 if the batch is refused."""
    try:
        answers = rehearse(turn, rows)
    except (DataError, ParameterError):
        return -1.0
    apart = np.abs((answers[1] - answers[0]).mean(axis=0))
    spread = np.sqrt(answers.var(axis=1).mean(axis=0))
    floor = np.finfo(np.float64).eps * np.abs(answers).max(axis=(0, 1)) + 1e-150
    return float(np.nan_to_num(apart / (spread + floor)).max())


def _find_border(turn: Turn) -> Iterator[Floats]:
    """Move all drawn records together so that the answer is between two that can be written, and the record decides.

    Bisection finds where the answer jumps under the null hypothesis. Under the alternative it jumps where the others
    add up to as much less as the record adds more, so halfway between, the record decides.
    """
    others = len(turn.rows) - 1
    reach = _REACH * (turn.rows.max(axis=0) - turn.rows.min(axis=0))
    gap = np.abs(turn.hypotheses[1] - turn.hypotheses[0]) / max(1, others)
    seed = int(turn.rng.integers(2**63))

    def answer(share: float) -> Floats:
        return _answer_after(turn, turn.rows + share * reach, turn.hypotheses[0], seed)

    below, above = -1.0, 1.0
    try:
        least, most = answer(below), answer(above)
        if not others or least.shape != most.shape or np.array_equal(least, most, equal_nan=True):
            return
        while above - below > 2.0**-_STEPS and ((above - below) * reach > gap / 8.0).any():
            middle = (below + above) / 2.0
            found = answer(middle)
            is_below = np.nansum(np.abs(found - least)) < np.nansum(np.abs(found - most))
            below, above = (middle, above) if is_below else (below, middle)
    except (DataError, ParameterError):
        return
    yield turn.rows + above * reach - (turn.hypotheses[1] - turn.hypotheses[0]) / (2.0 * others)
