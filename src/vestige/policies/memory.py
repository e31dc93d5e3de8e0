"""Any algorithm whose state fits into the choice of records, held bit for bit.

Theorem. Let a state of M bits move by `state = step(state, rows)` from batch to batch. Then batches of M + 1 records
hold it exactly, so that it runs under a retention of 2 (M + 1). If some records cannot be kept, it still runs as long
as every row of its message can be written (`vestige.channels.syndrome`). If k more records than rows can be kept in
each block, the chance that a block has a row that cannot be written is at most 2^-k. docs/theorems.md has the proof.
The message is a one, so that no batch is empty, and then the bits of the state.
Guarantee: if all kept records are there, the state is that of an algorithm that saw every record since `since`, to the
last bit, or the statistic starts over; held by tests/policies/test_memory.py. Without one of them another message is
read; half of the time its first bit shows that. Stores find missing records by their seals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vestige import channels
from vestige.channels.layout import MAX_ROWS
from vestige.clock import Clock
from vestige.errors import ParameterError, RuleError
from vestige.estimate import Estimate
from vestige.policies.base import MAX_COLUMNS
from vestige.policy import Policy, make_lost_error, mask_arrivals
from vestige.records import Records
from vestige.types import Bools, Floats, Ints
from vestige.validation import check_float, check_int

if TYPE_CHECKING:
    from vestige.channels.syndrome import Code

Step = Callable[[bytes, Floats], bytes]
Conclude = Callable[[bytes], ArrayLike]

_HEADER = 1
MAX_BITS = 1_000_000
"""The most bits of a state."""
_MAX_RESERVE = 0.9
_SPARE = 20
"""Records that a message has beyond its rows where the reserve is spent: all rows are free but one time in 2^20."""
_DEVIATIONS = 6.0
"""How many standard deviations more wet records than its share a block has room for."""


@dataclass(frozen=True, eq=False)
class MemoryEstimate(Estimate):
    """What an algorithm concludes from its state.

    Attributes:
        value: the answer.
        state: the state itself, moved by the records that wait for the next update.
    """

    state: bytes = b""


@dataclass(frozen=True)
class Memory(Policy[MemoryEstimate]):
    """Any algorithm whose state has a fixed number of bits: it runs as if it could remember.

    The state is written bit for bit in the choice of the records that are kept. As long as all of these are there, no
    bit is lost: if too many records of a batch cannot be kept, the algorithm starts over, and the estimate says since
    when it counts.

    Args:
        bits: the number of bits of the state, from 1 to 1,000,000.
        step: a function of the state and of rows in the order of their arrival, shape (n, columns), that returns the
            next state. It must return the same whenever it is given the same, and remember nothing. The stream decides
            where batches end, so rows that are passed in two calls must give the same state as in one:
            `step(step(state, a), b)` equals `step(state, a followed by b)`. Rows are float64: hash other values, such
            as names, to whole numbers below 2^53. Define it with `def` in a module: a store knows it by its name.
        conclude: a function of the state that returns the answer, a number or an array of numbers.
        start: the state to begin with; default: all bits are zero.
        columns: the number of values per record.
        reserve: the share of a batch that may be records that cannot be kept, because their removal was requested: from
            0 to 0.9. Where that share is spent at random places, fewer than one batch in 50,000 starts over.

    A state is `bytes`, as few as hold `bits` bits. Read as a little-endian number it is below 2^bits: the bits of the
    last byte that are left over, the high ones, are zero.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        A window of the last 4,800 visits knows of each of 2,000 people whether they have ever visited:

        >>> from vestige import Stream
        >>> def mark_seen(state, rows):  # one bit for each of 2,000 people
        ...     seen = np.unpackbits(np.frombuffer(state, np.uint8), bitorder="little")
        ...     seen[rows[:, 0].astype(int)] = 1
        ...     return np.packbits(seen, bitorder="little").tobytes()
        >>> def count_seen(state):
        ...     return int.from_bytes(state, "little").bit_count()
        >>> policy = Memory(2_000, mark_seen, count_seen)
        >>> policy.min_batch
        2372
        >>> rng = np.random.default_rng(0)
        >>> visits = rng.integers(0, 1_500, 200_000)  # nobody above 1,499, except for one, once, long ago
        >>> visits[7] = 1_789
        >>> stream = Stream(policy, retention=4_800, seed=0)
        >>> _ = stream.extend(visits)
        >>> estimate = stream.estimate()
        >>> estimate.value, estimate.oldest_age < 4_800
        (1501.0, True)
        >>> [bool(int.from_bytes(estimate.state, "little") >> person & 1) for person in (1_788, 1_789)]
        [False, True]
    """

    is_exact: ClassVar[bool] = True
    bits: int
    step: Step = field(repr=False)
    conclude: Conclude = field(repr=False)
    start: bytes | None = field(default=None, repr=False)
    columns: int = 1
    reserve: float = 0.1

    def __post_init__(self) -> None:
        check_int("bits", self.bits, 1, MAX_BITS)
        for name in ("step", "conclude"):
            _check_function(name, getattr(self, name))
        if self.start is not None and not self._is_state(self.start):
            raise ParameterError(f"start is not a state of bits={self.bits}; pass {self._describe_state()}, or None")
        check_int("columns", self.columns, 1, MAX_COLUMNS)
        check_float("reserve", self.reserve, lambda n: 0.0 <= n <= _MAX_RESERVE, "a share of a batch from 0 to 0.9")

    @property
    def min_batch(self) -> int:
        """One record for each bit, one more so that no batch is empty, and the reserve."""
        rows = self.bits + _HEADER
        if not self.reserve:
            return rows
        blocks = math.ceil(rows / MAX_ROWS)
        needed = math.ceil(rows / blocks) + _SPARE + blocks.bit_length()
        spread = _DEVIATIONS * math.sqrt(self.reserve * (1.0 - self.reserve) * (1.0 - 1.0 / blocks))
        dry = 1.0 - self.reserve  # a block of n slots has n dry - spread sqrt(n) dry ones or more
        root = (spread + math.sqrt(spread**2 + 4.0 * dry * needed)) / (2.0 * dry)
        return blocks * math.ceil(root**2)

    @property
    def min_early_batch(self) -> int:
        """One record for each bit, and one more."""
        return self.bits + _HEADER

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
            state = self._check_state(self.step(state, values[k * length : (k + 1) * length]))
        return self._write(state, code, length)

    def rewrite(self, clock: Clock, retained: Records, coins: int) -> tuple[int, Bools] | None:  # noqa: ARG002
        """Write the state, moved by the records that wait, into all that is left and not leaving, if it fits."""
        slots, length = retained.rounds - clock.first, clock.t - clock.first + 1
        code = self._prepare(channels.lay_out(slots, ~retained.leaving, length))
        if not clock.encoded or code is None:
            return None
        return clock.t, self._write(self._find_state(clock, retained), code, length)[slots]

    def answer(self, clock: Clock, retained: Records) -> MemoryEstimate:
        """Answer from the state, moved by the records that arrived since the last update.

        Args:
            clock: the public clock.
            retained: all records that are held.

        Returns:
            the answer, and the state.

        Raises:
            ParameterError: `conclude` does not return a number or an array of numbers.
        """
        state = self._find_state(clock, retained)
        value = _convert_answer(self.conclude(state))
        return MemoryEstimate(value if value.ndim else float(value), state=state)

    def _find_state(self, clock: Clock, retained: Records) -> bytes:
        """The state of all records that count."""
        return self._step(self._read(clock, retained), retained.where(retained.rounds > clock.last))

    def _step(self, state: bytes, records: Records) -> bytes:
        """The next state, after records in the order of their rounds."""
        if not len(records):
            return state
        return self._check_state(self.step(state, records.values[np.argsort(records.rounds, kind="stable")]))

    def _prepare(self, can: Bools) -> Code | None:
        """What it takes to write a state into the records that can be kept; None if they cannot hold any."""
        from vestige.channels.syndrome import make_code, prepare  # noqa: PLC0415

        rows = self.bits + _HEADER
        if can.sum() < rows:
            return None
        code = make_code(rows)
        return code if prepare(can, rows, code) == rows else None

    def _write(self, state: bytes, code: Code, length: int) -> Bools:
        """The slots of a batch to keep."""
        from vestige.channels.syndrome import write_message  # noqa: PLC0415

        message, keep = np.ones(self.bits + _HEADER, np.bool_), np.zeros(length, np.bool_)
        message[_HEADER:] = np.unpackbits(np.frombuffer(state, np.uint8), count=self.bits, bitorder="little")
        write_message(message, len(message), code, keep)
        return keep

    def _read(self, clock: Clock, retained: Records) -> bytes:
        """The state that the encoded batch holds; the first one if none is encoded."""
        from vestige.channels.syndrome import read_message  # noqa: PLC0415

        if not clock.encoded:
            return bytes(self._length) if self.start is None else self.start
        message = np.empty(self.bits + _HEADER, np.bool_)
        read_message(channels.lay_out_encoded(retained, clock)[1], message)
        if not message[0]:
            raise make_lost_error(clock)
        return np.packbits(message[_HEADER:], bitorder="little").tobytes()

    @property
    def _length(self) -> int:
        """The number of bytes of a state."""
        return (self.bits + 7) // 8

    def _is_state(self, state: object) -> bool:
        unused = 8 * self._length - self.bits
        return isinstance(state, bytes) and len(state) == self._length and not state[-1] >> (8 - unused)

    def _describe_state(self) -> str:
        return f"bytes of length {self._length} that are below 2^{self.bits} as a little-endian number"

    def _check_state(self, state: object) -> bytes:
        """A state that the function returned, if it fits: nothing is ever cut off."""
        if not self._is_state(state):
            got = f"{len(state)} bytes" if isinstance(state, bytes) else f"a {type(state).__name__}"
            raise RuleError(
                f"step returned {got}, which is not a state of bits={self.bits}; return {self._describe_state()}"
            )
        return state  # type: ignore[return-value]


def _check_function(name: str, function: object) -> None:
    """Refuse what a store could not tell from another function of the same name."""
    if not callable(function):
        raise ParameterError(f"{name} is a {type(function).__name__}; pass a function")
    if "<" in getattr(function, "__qualname__", "<"):
        raise ParameterError(
            f"{name} is a function without a name of its own, such as a lambda; define it with def in a module"
        )


def _convert_answer(concluded: object) -> Floats:
    """What `conclude` returned, as float64."""
    try:
        made = np.asarray(concluded)
        if made.dtype.kind in "biuf" or all(isinstance(number, Real) for number in made.flat):
            return made.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    raise ParameterError(
        f"conclude returned a value of type {type(concluded).__name__}, which is not a number that float64 can hold "
        "or an array of such numbers; let conclude return one"
    )
