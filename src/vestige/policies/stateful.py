"""A state of a fixed number of bits, held bit for bit in the choice of records.

Theorem. Let a state of M bits move by `state = move(state, rows)` from batch to batch. Then batches of M + 1 records
hold it exactly, so that it runs under a retention of 2 (M + 1). If some records cannot be kept, it still runs as long
as every row of its message can be written (`vestige.channels.states`). docs/theorems.md has the proof.
Guarantee: if all kept records are there, the state is that of an algorithm that saw every record since `since`, to the
last bit, or the statistic starts over; held by tests/policies/test_memory.py. Without one of them another message is
read; half of the time its first bit shows that. Stores find missing records by their seals.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from vestige import channels
from vestige.channels.states import count_message_rows, find_state_slots, prepare_state, read_state, write_state
from vestige.clock import Clock
from vestige.errors import ParameterError, RuleError
from vestige.estimate import E_co
from vestige.policies.named_policy import NamedPolicy
from vestige.policy import count_waiting, make_lost_error, mask_arrivals
from vestige.records import Records
from vestige.types import Bools, Floats, Ints
from vestige.validation import check_float

if TYPE_CHECKING:
    from vestige.channels.syndrome import Code

MAX_BITS = 1_000_000
"""The most bits of a state."""
_MAX_RESERVE = 0.9


def check_reserve(reserve: float) -> None:
    """Check the share of a batch that may be records that cannot be kept.

    Args:
        reserve: the share.

    Raises:
        ParameterError: it is not from 0 to 0.9.

    Example:
        >>> check_reserve(0.1)
    """
    check_float("reserve", reserve, lambda n: 0.0 <= n <= _MAX_RESERVE, "a share of a batch from 0 to 0.9")


class Stateful(NamedPolicy[E_co]):
    """An algorithm whose state has a fixed number of bits; the base of `Memory` and of the sketches.

    A subclass defines `state_bits`, `move` and `make_estimate`. Make it a frozen dataclass. A state is `bytes`, as few
    as hold its bits. Read as a little-endian number it is below 2^bits: the bits of the last byte that are left over,
    the high ones, are zero.

    Attributes:
        reserve: the share of a batch that may be records that cannot be kept, because their removal was requested.

    Example:
        >>> from dataclasses import dataclass
        >>> from vestige import Estimate, Stream
        >>> @dataclass(frozen=True)
        ... class Parity(Stateful):  # whether the number of positive records is odd
        ...     state_bits = 1
        ...     def move(self, state, rows):
        ...         return bytes([(state[0] + int((rows > 0.0).sum())) % 2])
        ...     def make_estimate(self, state, counted):
        ...         return Estimate(float(state[0]))
        >>> stream = Stream(Parity(), retention=100, seed=0)
        >>> _ = stream.extend(range(-5_000, 5_000))
        >>> stream.estimate().value
        1.0
    """

    is_exact: ClassVar[bool] = True
    reserve: float = 0.1

    @property
    @abstractmethod
    def state_bits(self) -> int:
        """The number of bits of the state."""

    @property
    def first_state(self) -> bytes:
        """The state to begin with; by default all bits are zero."""
        return bytes(self._length)

    @abstractmethod
    def move(self, state: bytes, rows: Floats) -> bytes:
        """Move the state by records.

        It must return the same whenever it is given the same, and remember nothing. The stream decides where batches
        end, so rows that are passed in two calls must give the same state as in one.

        Args:
            state: the state before them.
            rows: the records in the order of their arrival; shape (n, columns).

        Returns:
            the next state.
        """

    @abstractmethod
    def make_estimate(self, state: bytes, counted: int) -> E_co:
        """Conclude the answer from the state.

        Args:
            state: the state.
            counted: the number of records since the statistic counts.

        Returns:
            the estimate.

        Raises:
            NoAnswerError: the state does not determine an answer.
        """

    @property
    def min_batch(self) -> int:
        """One record for each bit, one more so that no batch is empty, and the reserve."""
        return find_state_slots(self.state_bits, self.reserve)

    @property
    def min_early_batch(self) -> int:
        """One record for each bit, and one more."""
        return count_message_rows(self.state_bits)

    @property
    def sketch(self) -> Stateful:
        """The policy whose state it is: itself, or one that is equal for all that differ in their answers only.

        A bundle keeps the state of equal ones once.
        """
        return self

    def can_encode(self, clock: Clock, rounds: Ints, leaving: Bools) -> bool:
        """Tell whether the records that can be kept hold any state."""
        return self._prepare(channels.lay_out(rounds - clock.last - 1, ~leaving, clock.pending)) is not None

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:  # noqa: ARG002
        """Read the state, move it by the arrivals, and keep those of them that hold the result."""
        slots = arrivals.rounds - clock.last - 1
        code = self._prepare(channels.lay_out(slots, ~arrivals.leaving, clock.pending))
        if code is None:
            return np.zeros(len(retained) + len(arrivals), np.bool_)
        state = self._step(self._read(clock, retained), arrivals)
        return mask_arrivals(retained, self._write(state, code, clock.pending)[slots])

    def update_many(self, clock: Clock, retained: Records, values: Floats, keys: NDArray[np.uint64]) -> Bools:
        """Give the records of the last batch to keep; states in between need not be written, since none loses a bit."""
        length = len(values) // len(keys)
        code = self._prepare(np.ones(length, np.bool_))
        assert code is not None  # noqa: S101  # a batch has `min_batch` records, and all can be kept
        state = self._read(clock, retained)
        for k in range(len(keys)):
            state = self.check_state(self.move(state, values[k * length : (k + 1) * length]))
        return self._write(state, code, length)

    def rewrite(self, clock: Clock, retained: Records, coins: int) -> tuple[int, Bools] | None:  # noqa: ARG002
        """Write the state, moved by the records that wait, into all that is left and not leaving, if it fits."""
        slots, length = retained.rounds - clock.first, clock.t - clock.first + 1
        code = self._prepare(channels.lay_out(slots, ~retained.leaving, length))
        if not clock.encoded or code is None:
            return None
        return clock.t, self._write(self._find_state(clock, retained), code, length)[slots]

    def answer(self, clock: Clock, retained: Records) -> E_co:
        """Answer from the state, moved by the records that arrived since the last update."""
        counted = clock.encoded + count_waiting(clock, retained)
        state = self._find_state(clock, retained)
        return replace(self.make_estimate(state, counted), basis=state)

    def combine(self, parts: Sequence[E_co]) -> E_co:
        """Conclude the answer for all records from the merged states of the parts; see `Policy.combine`."""
        states = [part.basis for part in parts]
        for i, state in enumerate(states):
            if not isinstance(state, bytes):
                raise ParameterError(
                    f"estimates[{i}] does not have the state that it was concluded from; pass what the method "
                    "`estimate` of a stream returns, unchanged"
                )
        merged = self.merge(states)  # type: ignore[arg-type]
        return replace(self.make_merged(merged, sum(part.counted for part in parts)), basis=merged)

    def merge(self, states: Sequence[bytes]) -> bytes:  # noqa: ARG002
        """Merge the states of parts of the records into one that tells of all of them.

        No record holds it, so it may have more bits than `state_bits`.

        Args:
            states: those of streams, or merged ones.

        Returns:
            the merged state, which `make_estimate` can read.

        Raises:
            ParameterError: it cannot be done, as by default.
        """
        raise ParameterError(
            f"estimates of {type(self).__name__} cannot be combined, because it does not say how its states are "
            "merged; derive a class from Stateful and define merge, or keep these records in one stream"
        )

    def make_merged(self, state: bytes, counted: int) -> E_co:
        """Conclude the answer from a merged state; by default what `make_estimate` gives.

        Args:
            state: the state.
            counted: the number of records that it counts.

        Returns:
            the estimate.
        """
        return self.make_estimate(state, counted)

    def _find_state(self, clock: Clock, retained: Records) -> bytes:
        """The state of all records that count."""
        return self._step(self._read(clock, retained), retained.where(retained.rounds > clock.last))

    def _step(self, state: bytes, records: Records) -> bytes:
        """The next state, after records in the order of their rounds."""
        if not len(records):
            return state
        return self.check_state(self.move(state, records.values[np.argsort(records.rounds, kind="stable")]))

    def _prepare(self, can: Bools) -> Code | None:
        """What it takes to write a state into the records that can be kept; None if they cannot hold any."""
        return prepare_state(can, self.state_bits)

    def _write(self, state: bytes, code: Code, length: int) -> Bools:
        """The slots of a batch to keep."""
        return write_state(state, self.state_bits, code, length)

    def _read(self, clock: Clock, retained: Records) -> bytes:
        """The state that the encoded batch holds; the first one if none is encoded."""
        if not clock.encoded:
            return self.first_state
        state = read_state(channels.lay_out_encoded(retained, clock)[1], self.state_bits)
        if state is None:
            raise make_lost_error(clock)
        return state

    @property
    def _length(self) -> int:
        """The number of bytes of a state."""
        return (self.state_bits + 7) // 8

    def is_state(self, state: object) -> bool:
        """Tell whether an object is a state: bytes of the right length, and no bits beyond those of the state.

        Args:
            state: the object.

        Returns:
            Whether it is.
        """
        unused = 8 * self._length - self.state_bits
        return isinstance(state, bytes) and len(state) == self._length and not state[-1] >> (8 - unused)

    def describe_state(self) -> str:
        """Describe a state in words, for errors.

        Returns:
            The words.
        """
        return f"bytes of length {self._length} that are below 2^{self.state_bits} as a little-endian number"

    def check_state(self, state: object) -> bytes:
        """Check a state that `move` returned: nothing is ever cut off.

        Args:
            state: what it returned.

        Returns:
            the state.

        Raises:
            RuleError: it is not a state.
        """
        if not self.is_state(state):
            got = f"{len(state)} bytes" if isinstance(state, bytes) else f"a {type(state).__name__}"
            raise RuleError(
                f"the next state is {got}, which is not a state of bits={self.state_bits}; return "
                f"{self.describe_state()}"
            )
        return state  # type: ignore[return-value]
