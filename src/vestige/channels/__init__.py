"""How a vector is stored in a choice of records.

Sections 3.1 and 3.3 of Immorlica et al. (2024) store it as averages; presence bits are ours. Each segment says how it
was written, and whether what is written is known to be off (see `vestige.channels.kernels`).
Guarantee: what is written is read back within the tolerance, or within one step of the presence word, or is said to be
off; held by tests/channels/test_channels.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from vestige.types import Bools, Floats, Ints
from vestige.validation import check_choice

T = TypeVar("T", bound=np.generic)

_FLAGS, _CONTROLS, _SIGN_AND_EXPONENT, _LEAST_MANTISSA = 2, 5, 12, 11


@dataclass(frozen=True, slots=True)
class Channel:
    """One way of writing."""

    name: ClassVar[str]
    mode: ClassVar[int]
    min_batch: ClassVar[int]
    """The fewest records that a coordinate needs."""

    def read(self, rounds: Ints, atoms: Floats, first: int, last: int) -> tuple[Floats, Bools]:
        """The vector that the kept records of the batch `first` .. `last` hold; nan where a coordinate was lost.

        Args:
            rounds: rounds of the kept records, others are passed over; shape (n,).
            atoms: what is averaged, a row each; shape (n, dim).
            first: first round of the batch.
            last: last round of the batch.

        Returns:
            the vector, and which of its coordinates are known to be off; each of shape (dim,).
        """
        from vestige.channels.kernels import read_kept  # noqa: PLC0415

        return read_kept(rounds, atoms, first, last - first + 1, self.mode)

    def can_write(self, can: Bools, dim: int) -> bool:
        """Whether records of which these `can` be kept say any `dim` numbers, or near ones and that they are off."""
        from vestige.channels.kernels import can_write  # noqa: PLC0415

        return bool(can_write(can, dim, self.mode))


class Average(Channel):
    """The plain average of the kept records is the number."""

    name = "average"
    mode = 0
    min_batch = _FLAGS + 1


class Bits(Channel):
    """Which rounds are present spells the number, rounded without bias to the leading bits of a float64."""

    name = "bits"
    mode = 1
    min_batch = _CONTROLS + _SIGN_AND_EXPONENT + _LEAST_MANTISSA


class Auto(Channel):
    """An average where that meets the tolerance, presence bits where not."""

    name = "auto"
    mode = 2
    min_batch = Bits.min_batch


CHANNELS: dict[str, Channel] = {channel.name: channel() for channel in (Auto, Average, Bits)}


def named(name: str) -> Channel:
    """The channel called `name`.

    >>> named("auto").min_batch
    28
    """
    return CHANNELS[check_choice("channel", name, sorted(CHANNELS))]


def mantissa_bits(length: int) -> int:
    """How many bits of the mantissa the presence bits of `length` records hold.

    >>> mantissa_bits(28), mantissa_bits(100)
    (11, 52)
    """
    return min(length - _CONTROLS - _SIGN_AND_EXPONENT, 52)


def in_slots(slots: Ints, rows: NDArray[T], length: int) -> NDArray[T]:
    """`rows` laid out by slot, zero where there is none: a missing record shifts nothing."""
    laid_out = np.zeros((length, *rows.shape[1:]), rows.dtype)
    laid_out[slots] = rows
    return laid_out
