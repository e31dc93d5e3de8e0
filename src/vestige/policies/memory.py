"""Any algorithm whose state fits into the choice of records, as two functions of your own.

`vestige.policies.stateful` has the theorem.
Guarantee: if all kept records are there, the state is that of an algorithm that saw every record since `since`, to the
last bit, or the statistic starts over; held by tests/policies/test_memory.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from vestige.errors import ParameterError
from vestige.estimate import Estimate
from vestige.policies.base import MAX_COLUMNS
from vestige.policies.stateful import MAX_BITS, Stateful, check_reserve
from vestige.types import Floats
from vestige.validation import check_int

Step = Callable[[bytes, Floats], bytes]
Conclude = Callable[[bytes], ArrayLike]


@dataclass(frozen=True, eq=False)
class MemoryEstimate(Estimate):
    """What an algorithm concludes from its state.

    Attributes:
        value: the answer.
        state: the state itself, moved by the records that wait for the next update.
    """

    state: bytes = b""


@dataclass(frozen=True)
class Memory(Stateful[MemoryEstimate]):
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
        if self.start is not None and not self.is_state(self.start):
            raise ParameterError(f"start is not a state of bits={self.bits}; pass {self.describe_state()}, or None")
        check_int("columns", self.columns, 1, MAX_COLUMNS)
        check_reserve(self.reserve)

    @property
    def state_bits(self) -> int:
        """The number of bits of the state."""
        return self.bits

    @property
    def first_state(self) -> bytes:
        """The state to begin with."""
        return super().first_state if self.start is None else self.start

    def move(self, state: bytes, rows: Floats) -> bytes:
        """Move the state by records: `step`; see `Stateful.move`."""
        return self.step(state, rows)

    def make_estimate(self, state: bytes, counted: int) -> MemoryEstimate:  # noqa: ARG002
        """Give what `conclude` returns, and the state; see `Stateful.make_estimate`."""
        value = _convert_answer(self.conclude(state))
        return MemoryEstimate(value if value.ndim else float(value), state=state)


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
