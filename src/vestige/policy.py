"""A policy: two pure functions, one that chooses the records to keep and one that answers from them.

Section 2 of Immorlica et al. (2024), "Adaptive Subsampling": A_upd and A_out. `update` returns a mask, so a policy
cannot make records up; both see nothing but the clock and records, so it cannot remember.
Guarantee: `vestige.checks.check_policy` catches one that does; held by tests/test_checks.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic

import numpy as np
from numpy.typing import NDArray

from vestige.clock import Clock
from vestige.errors import NoRecordsError, ParameterError
from vestige.estimate import E_co
from vestige.records import Records
from vestige.types import Bools, Floats, Ints
from vestige.whole_numbers import WholeNumbers, decode, find_codes

UNPROTECTED = "noise protects nobody among them, and who also knows the answer before can tell their values"
"""What is said of an answer that counts records which a policy hides otherwise."""


class Policy(ABC, Generic[E_co]):
    """Base class of all policies; make your own a frozen dataclass.

    Only `update` and `answer` have to be defined. A policy never remembers anything: all that it may use is passed to
    it. Whatever it returns is checked by the stream before a record is kept.

    Attributes:
        every_round: whether `update` is called at every round (a streaming policy) or once per batch.
        all_or_nothing: whether the kept records carry the answer only together, so that it is lost if one of them is
            erased before the next update; the stream then rewrites it or starts over. A window sets this to False.
        requires_secret_coins: whether nobody may be able to guess the coins, as where they generate noise; then they
            have 256 bits, and a stream refuses a seed.
        is_exact: whether it carries the answer over without rounding, however few records a batch has.
        needs_records: whether the answer is read off kept records; False where the public clock alone says it, as for
            a count, so that there is an answer although no record is held.
        is_window: whether it keeps every record that it may, and answers from those alone.
        hides_waiting: whether its answers are those of the last update, so that records that wait for the next one
            cannot be told from them.

    Example:
        >>> from dataclasses import dataclass
        >>> from vestige import Stream
        >>> @dataclass(frozen=True)
        ... class KeepNewest(Policy):
        ...     def update(self, clock, retained, arrivals, coins):
        ...         newest = np.concatenate((retained.rounds, arrivals.rounds)) == clock.t
        ...         return newest & ~np.concatenate((retained.leaving, arrivals.leaving))
        ...     def answer(self, clock, retained):
        ...         return float(retained.values.mean())
        >>> stream = Stream(KeepNewest(), retention=4)
        >>> stream.extend([1.0, 2.0, 3.0, 4.0])
        4
        >>> stream.estimate().value
        4.0
    """

    every_round: ClassVar[bool] = False
    all_or_nothing: ClassVar[bool] = True
    requires_secret_coins: ClassVar[bool] = False
    is_exact: ClassVar[bool] = False
    needs_records: ClassVar[bool] = True
    is_window: ClassVar[bool] = False
    hides_waiting: ClassVar[bool] = False

    def unwrap(self) -> Policy:
        """Give the policy that this one wraps, such as that of a window; itself if it wraps none.

        Returns:
            the policy.
        """
        return self

    def labels(self, columns: Sequence[str]) -> tuple[str, ...]:  # noqa: ARG002
        """Name the numbers of the answer.

        Args:
            columns: the names of the columns of a record, targets last; empty where they are not known.

        Returns:
            one label for each number of the answer; empty where they are not known beforehand.
        """
        return ()

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the values of a record; empty if it takes any."""
        return ()

    @property
    def columns(self) -> int:
        """Number of values in a record."""
        return 1

    @property
    def min_batch(self) -> int:
        """Smallest batch that it can work with."""
        return 1

    @property
    def min_early_batch(self) -> int:
        """Number of records that a batch needs to be closed early, for a deadline or a request."""
        return self.min_batch

    @property
    def min_last_batch(self) -> int:
        """The same where closing it cannot wait any longer, so that a part of the answer may be lost."""
        return self.min_early_batch

    @property
    def max_batch(self) -> int | None:
        """Largest batch that it can work with; None without a limit."""
        return None

    @property
    def decay(self) -> float:
        """Factor by which each new record reduces the weight of the earlier ones; 1 if all count equally."""
        return 1.0

    @property
    def max_magnitude(self) -> float:
        """Largest magnitude of a value that it can take."""
        return 1e300

    @property
    def takes_missing(self) -> bool:
        """Whether a value may be missing, which is nan."""
        return False

    @property
    def checks_rows(self) -> bool:
        """Whether `check_rows` may refuse a row; by default if it is defined."""
        return type(self).check_rows is not Policy.check_rows

    def read_whole_numbers(self, column: int) -> WholeNumbers:  # noqa: ARG002
        """Say what becomes of whole numbers beyond 2^53, which floats round; by default those are refused that they do.

        Args:
            column: which value of a record, from 0 on.

        Returns:
            What becomes of them; see `vestige.whole_numbers`.
        """
        return "refused"

    def check_rows(self, rows: Floats) -> None:
        """Refuse rows that the policy cannot take; by default it takes all finite numbers up to `max_magnitude`.

        Args:
            rows: shape (n, columns).

        Raises:
            DataError: a row cannot be taken; say where it is, never what it holds.
        """

    @abstractmethod
    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        """Choose the records to keep.

        Records marked `leaving` may be learned from but not be kept.

        Args:
            clock: `clock.t` counts the arrivals; `clock.first` .. `clock.last` is still the batch before them.
            retained: the records that were held, without those that are due.
            arrivals: the records since `clock.last`.
            coins: a 64-bit key (256 bits where `requires_secret_coins`), fresh for this round; the only randomness
                allowed.

        Returns:
            A mask over `retained`, then `arrivals`.
        """

    def update_many(self, clock: Clock, retained: Records, values: Floats, keys: NDArray[np.uint64]) -> Bools:
        """Choose the records to keep after an update for each of several whole batches; define it where that is faster.

        A stream uses it in place of `update` if it is defined in the same class, or in one that is derived from that.

        Args:
            clock: the clock before the first batch.
            retained: the records before the first batch.
            values: rows of the batches, none of which is leaving; shape (batches * length, columns).
            keys: coins of each update; shape (batches,), or (batches, 4) where `requires_secret_coins`.

        Returns:
            A mask over the newest of `retained` and the rows; what is older than its first entry is not kept. The
            stream erases what is due by the end.

        Raises:
            NotImplementedError: the policy does not define it.
        """
        raise NotImplementedError

    def can_encode(self, clock: Clock, rounds: Ints, leaving: Bools) -> bool:  # noqa: ARG002
        """Whether the statistic can be encoded in arrivals of these rounds, some of which are leaving.

        If not, it starts over and the clock says so; hence this must not depend on values, and is shown none.

        Args:
            clock: the clock before the update; its `t` counts the arrivals.
            rounds: rounds of the arrivals.
            leaving: which of them cannot be kept.

        Returns:
            Whether it can.
        """
        return not leaving.all()

    def count_bits(self, length: int, can: Bools | None = None) -> int:  # noqa: ARG002
        """Count the bits in which a batch encodes the answer, so that the clock can say how far it may be rounded.

        Like `can_encode`, it is shown no values.

        Args:
            length: number of rounds of the batch.
            can: which of them have a record that can be kept; default: all.

        Returns:
            The number of bits; 0 if nothing is rounded, as by default.
        """
        return 0

    def rewrite(self, clock: Clock, retained: Records, coins: int) -> tuple[int, Bools] | None:  # noqa: ARG002
        """Encode the same answer without the records that are leaving, because they are erased immediately.

        Args:
            clock: the public clock.
            retained: all records that are held, those that are leaving among them.
            coins: a fresh key, as for `update`.

        Returns:
            The last round of the batch that is encoded then, either `clock.last` or `clock.t`, whatever the values are;
            and a mask of the records to keep, which keeps all records after that round that are not leaving. None if it
            cannot be done, as by default.
        """
        return None

    @abstractmethod
    def answer(self, clock: Clock, retained: Records) -> float | Floats | E_co:
        """Answer from the retained records.

        Args:
            clock: the public clock.
            retained: all records that are held; those after `clock.last` have arrived since the last update.

        Returns:
            The statistic, or an estimate that says more about it.

        Raises:
            NoRecordsError: the records that carry the answer are not all there.
        """

    def answer_with_waiting(self, clock: Clock, retained: Records) -> float | Floats | E_co:
        """Answer with the records that wait too, where `answer` leaves them out; see `hides_waiting`.

        Args:
            clock: the public clock.
            retained: all records that are held.

        Returns:
            By default what `answer` gives, in which they are.
        """
        return self.answer(clock, retained)

    def combine(self, parts: Sequence[E_co]) -> E_co:  # noqa: ARG002
        """Combine the answers of several streams of this policy into that for all of their records.

        `vestige.combine` checks them before, and fills in afterwards what a stream fills in.

        Args:
            parts: the answers of the streams, or of such combinations; no record is in two of them.

        Returns:
            the answer for all records, with the `basis` that it takes to combine it once more.

        Raises:
            ParameterError: it cannot be done, as by default.
            NoAnswerError: what is known of all records does not determine an answer.
        """
        raise ParameterError(
            f"estimates of {type(self).__name__} cannot be combined, because it does not define how; keep these "
            "records in one stream, or define its combine"
        )


def stands_alone(policy: Policy) -> bool:
    """Tell whether each record stands for itself alone, as in a window.

    Args:
        policy: the policy that keeps it.

    Returns:
        whether it does.

    Example:
        >>> from vestige import Mean, Window
        >>> stands_alone(Window()), stands_alone(Mean())
        (True, False)
    """
    return policy.needs_records and not policy.all_or_nothing


def split_encoded(clock: Clock, retained: Records) -> tuple[Records, Records]:
    """Split the retained records at the end of the encoded batch.

    Args:
        clock: the public clock.
        retained: all records that are held.

    Returns:
        The records of the encoded batch, and those that arrived after it.

    Example:
        >>> retained = Records([1, 3, 5], [[10.0], [30.0], [50.0]])
        >>> encoded, waiting = split_encoded(Clock(t=5, first=1, last=4), retained)
        >>> encoded.rounds, waiting.rounds
        (array([1, 3]), array([5]))
    """
    encoded = (clock.first <= retained.rounds) & (retained.rounds <= clock.last)
    return retained.where(encoded), retained.where(retained.rounds > clock.last)


def leave_out_waiting(clock: Clock, retained: Records) -> tuple[Clock, Records]:
    """Go back to the last update, without the records that have arrived since.

    Args:
        clock: the public clock.
        retained: all records that are held.

    Returns:
        The clock and the records as they were right after the update, less what has been erased.

    Example:
        >>> held = Records([1, 3, 5], [[10.0], [30.0], [50.0]])
        >>> clock, retained = leave_out_waiting(Clock(t=5, first=1, last=4), held)
        >>> clock.t, retained.rounds
        (4, array([1, 3]))
    """
    return replace(clock, t=clock.last), retained.where(retained.rounds <= clock.last)


def count_waiting(clock: Clock, retained: Records) -> int:
    """Count the records that arrived after the encoded batch and are held.

    Args:
        clock: the public clock.
        retained: all records that are held.

    Returns:
        Their number.

    Example:
        >>> count_waiting(Clock(t=5, first=1, last=4), Records([1, 3, 5], [[10.0], [30.0], [50.0]]))
        1
    """
    return int((retained.rounds > clock.last).sum())


def list_values(policy: Policy, records: Records) -> list[list[Any]]:
    """List the values of records as they came, also whole numbers that are held by codes; see `read_whole_numbers`.

    Args:
        policy: the policy that keeps them.
        records: the records.

    Returns:
        A row for each record: floats, whole numbers beyond 2^53, and texts for those that are told by a hash alone.

    Example:
        >>> from vestige import Stream, TopK
        >>> stream = Stream(TopK(), retention=20_000)
        >>> _ = stream.extend([7, 2**60 + 1])
        >>> list_values(stream.policy, stream.retained)
        [[7.0], [1152921504606846977]]
    """
    rows: list[list[Any]] = records.values.tolist()
    for column in np.flatnonzero(find_codes(records.values).any(axis=0)).tolist():
        if policy.read_whole_numbers(column) == "coded":
            for row in rows:
                row[column] = decode(row[column])
    return rows


def mask_arrivals(retained: Records, keep: Bools) -> Bools:
    """Make the mask that keeps none of the retained records and some of the arrivals.

    Args:
        retained: the records that were held.
        keep: one flag per arrival.

    Returns:
        A mask as `Policy.update` returns it.

    Example:
        >>> mask_arrivals(Records([1], [[10.0]]), np.array([True, False]))
        array([False,  True, False])
    """
    return np.concatenate((np.zeros(len(retained), np.bool_), keep))


def make_lost_error(clock: Clock) -> NoRecordsError:
    """Make the error for an answer whose records are not all there.

    Args:
        clock: the public clock.

    Returns:
        The error to raise.
    """
    return NoRecordsError(
        f"records of the batch {clock.first} to {clock.last} are missing, so what it encoded is lost; "
        "restart with all records that the stream retained, or start a new stream"
    )
