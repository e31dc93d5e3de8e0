"""Curvature and centres in a few bits: logarithms, ties, and what kept records need not be told.

A matrix of curvature is taken apart as L D L', with ones on the diagonal of L (Cholesky). Where predictors nearly
follow from each other, little of D is left, and what is rounded of L must not swamp it. So a tie, an entry of L, is
written in units of the root of the ratio of what is left in its two directions, and each so that it makes up for the
errors of those before it: what is read is then the same matrix in all directions, up to a factor near one. Numbers are
rounded up or down by chance, so that they are right on average and little changes while they hardly change. A number
takes fewer bits the smaller it is (Golomb 1966, https://doi.org/10.1109/TIT.1966.1053907, with powers of two).
Guarantee: what is taken apart is put together again; held by tests/test_coarse.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vestige.types import Bools, Floats, Ints

LEAST_LOG = -256.0
"""The logarithm to base two of what is nothing."""
MOST_TIE = 512.0
"""Of a tie: less than its square is left of a direction after those before it, or so much is written."""
CENTRE_BITS = 12
"""The bits of a centre besides the first one."""
_POWER_BITS, _LEAST_POWER, _RESIDUE_BITS = 8, -128, 4
_SURE = 0.45
_SMALLEST = 1e-300
_LEAST_CORRELATION = 1e-12
_MOST_STEPS, _LONGEST = 2.0**24, 48


class Curvature(NamedTuple):
    """A matrix of curvature that was taken apart, and another of squares in the same directions.

    Attributes:
        logs: logarithms to base two of what is left of each direction after those before it; shape (count,).
        ties: how far each direction depends on each before it, in units of the roots of what is left of both, row by
            row; shape (count * (count - 1) // 2,).
        ratios: logarithms to base two of squares over what is left, in each direction; shape (count,) or (0,).
    """

    logs: Floats
    ties: Floats
    ratios: Floats

    @property
    def said(self) -> Bools:
        """The directions of which anything is known."""
        return self.logs > LEAST_LOG

    def find_root(self) -> Floats:
        """The lower triangular root of the matrix."""
        root: Floats = _fill(self.ties, len(self.logs)) * np.exp2(self.logs / 2.0)[:, None]
        return root

    def compose(self) -> Floats:
        """The matrix."""
        root = self.find_root()
        return root @ root.T

    def compose_squares(self) -> Floats:
        """The matrix of squares."""
        root = self.find_root()
        made: Floats = (root * np.exp2(self.ratios)) @ root.T
        return made


def decompose(bend: Floats, squares: Floats | None = None) -> Curvature:
    """Take a matrix apart, made positive if need be, and the diagonal of another in the same directions."""
    count, sizes = len(bend), np.abs(bend.diagonal())
    lengths = np.sqrt(np.maximum(sizes, _SMALLEST))
    scaled = bend / np.outer(lengths, lengths)
    if not np.isfinite(scaled).all():
        lost = np.full(count, np.nan)
        return Curvature(lost, np.full(count * (count - 1) // 2, np.nan), lost[: 0 if squares is None else count])
    np.fill_diagonal(scaled, 1.0)
    try:
        root = np.linalg.cholesky(scaled)
    except np.linalg.LinAlgError:
        values, axes = np.linalg.eigh(scaled)
        made = (axes * np.maximum(np.abs(values), _LEAST_CORRELATION)) @ axes.T
        diagonal = np.sqrt(made.diagonal())
        root = np.linalg.cholesky(made / np.outer(diagonal, diagonal))
    left = np.maximum(root.diagonal(), 1.0 / MOST_TIE)
    logs = np.maximum(np.log2(np.maximum((left * lengths) ** 2, _SMALLEST)), LEAST_LOG)
    ties, ratios = (root / left[:, None])[np.tril_indices(count, -1)], np.zeros(0)
    if squares is not None:
        units, filled = np.exp2(logs / 2.0), _fill(ties, count)
        turned = np.linalg.solve(filled, np.linalg.solve(filled, squares / np.outer(units, units)).T).diagonal()
        ratios = np.log2(np.where(turned > 0.0, turned, 1.0))
    return Curvature(logs, ties, ratios)


def _fill(ties: Floats, count: int) -> Floats:
    """Ties as a lower triangular matrix with ones on its diagonal."""
    filled = np.eye(count)
    filled[np.tril_indices(count, -1)] = ties
    return filled


def code_curvature(curvature: Curvature, digits: int, has_ties: bool, rng: np.random.Generator) -> list[Codes]:
    """Round to steps of 2^-digits: whole numbers that are near zero, and for each kind the usual size of them."""
    said, count, fine = curvature.said, len(curvature.logs), 2.0**-digits
    logs = round_by_chance(curvature.logs[said] / fine, rng)
    codes = [Codes(np.diff(logs, prepend=0.0), digits + 1)]
    if len(curvature.ratios):
        codes.append(Codes(np.diff(round_by_chance(curvature.ratios[said] / fine, rng), prepend=0.0), digits))
    if not has_ties:
        return codes
    whole = _fill(curvature.ties, count)[np.ix_(said, said)]
    true, inverse = curvature.logs[said], np.linalg.inv(whole)
    written, steps = np.eye(len(logs)), [np.zeros(0)]
    for j in range(1, len(logs)):
        units = _find_units(logs * fine, j, fine) * np.exp2((true[:j] - true[j]) / 2.0)
        places = -inverse[j, :j] @ written[:j, :j] / units
        steps.append(round_by_chance(np.clip(places, -_MOST_STEPS, _MOST_STEPS), rng))
        written[j, :j] = steps[-1] * units
    return [*codes, Codes(np.concatenate(steps), digits)]


def decode_curvature(codes: list[Floats], said: Bools, digits: int, has_ratios: bool) -> Curvature:
    """What these whole numbers say; ties are zero if they are not among them."""
    count, fine = len(said), 2.0**-digits
    logs, ratios, ties = np.full(count, LEAST_LOG), np.zeros(count if has_ratios else 0), np.eye(count)
    logs[said] = np.cumsum(codes[0]) * fine
    if has_ratios:
        ratios[said] = np.cumsum(codes[1]) * fine
    if len(codes) > 1 + has_ratios:
        known, at = logs[said], 0
        tied = np.eye(len(known))
        for j in range(1, len(known)):
            tied[j, :j] = codes[-1][at : at + j] * _find_units(known, j, fine) * np.exp2((known[:j] - known[j]) / 2.0)
            at += j
        ties[np.ix_(said, said)] = tied
    return Curvature(logs, ties[np.tril_indices(count, -1)], ratios)


def _find_units(logs: Floats, j: int, fine: float) -> Floats:
    """The steps in which entries of a row of L are written, powers of two, so that they seldom change."""
    units: Floats = fine * np.exp2(np.rint((logs[j] - logs[:j]) / 2.0))
    return units


class Codes(NamedTuple):
    """Whole numbers, which take about `size + 1` bits if they are less than half of 2^size, and two more if twice that.

    Attributes:
        numbers: shape (n,).
        size: the logarithm.
    """

    numbers: Floats
    size: int

    def count_bits(self) -> int:
        """The bits that `pack` takes."""
        return int((2 * self._find_lengths() - self.size + 1).sum())

    def pack(self) -> Bools:
        """Each number in bits: how many there are, in ones and a zero, then all but the first of them."""
        made = [np.zeros(0, np.bool_)]
        for number, length in zip(self._shift(), self._find_lengths(), strict=True):
            made += [np.ones(length - self.size, np.bool_), np.zeros(1, np.bool_)]
            made.append(to_bits(np.array([number - 2.0**length]), int(length)))
        return np.concatenate(made)

    def _shift(self) -> Floats:
        """Positive numbers: even ones of those above zero, odd ones of those below."""
        shifted: Floats = 2.0 * np.abs(self.numbers) - (self.numbers < 0.0) + 2.0**self.size
        return shifted

    def _find_lengths(self) -> Ints:
        return np.frexp(self._shift())[1].astype(np.int64) - 1


def unpack_codes(message: Bools, at: int, count: int, size: int) -> tuple[Floats, int]:
    """The numbers of `Codes`, and where their bits end."""
    numbers = np.zeros(count)
    for i in range(count):
        length = size
        while at < len(message) and message[at]:
            at, length = at + 1, length + 1
        at += 1 + length
        if at > len(message) or length > _LONGEST:
            return np.full(count, np.nan), at
        shifted = 2.0**length + from_bits(message, at - length, 1, length)[0] - 2.0**size
        numbers[i] = -(shifted + 1.0) / 2.0 if shifted % 2.0 else shifted / 2.0
    return numbers, at


def round_by_chance(places: Floats, rng: np.random.Generator) -> Floats:
    """Whole numbers, up or down by chance, so that they are right on average."""
    rounded: Floats = np.floor(places + rng.random(len(places)))
    return rounded


def to_bits(codes: Floats, bits: int) -> Bools:
    """Whole numbers, the highest bit of each first."""
    shifts = np.arange(bits - 1, -1, -1, dtype=np.int64)
    return ((codes.astype(np.int64)[:, None] >> shifts) & 1).astype(np.bool_).ravel()


def from_bits(message: Bools, at: int, count: int, bits: int) -> Floats:
    """What `to_bits` gives for so many numbers."""
    powers = 2.0 ** np.arange(bits - 1, -1, -1)
    read: Floats = message[at : at + count * bits].reshape(count, bits) @ powers
    return read


def choose_centre(middle: float, spread: float) -> float:
    """An odd number of steps near the middle of records; the step is about their spread, a power of two.

    If they are all alike, it is their value.
    """
    if spread == 0.0 and middle:
        return middle if _find_power(middle) >= _LEAST_POWER else 0.0
    if not (np.isfinite(middle) and 0.0 < spread < np.inf):
        return 0.0
    power = max(int(np.round(np.log2(spread))), int(np.log2(max(abs(middle), _SMALLEST))) - 50)
    if not _LEAST_POWER <= power < _LEAST_POWER + (1 << _POWER_BITS):
        return 0.0
    step = 2.0**power
    return float((2.0 * np.floor(middle / step / 2.0) + 1.0) * step)


def _find_power(number: float) -> int:
    """The power of two of which a number is an odd multiple."""
    numerator, denominator = float(number).as_integer_ratio()
    return (numerator & -numerator).bit_length() - denominator.bit_length()


def pack_centre(centre: float) -> Bools:
    """One bit if it is zero; else the power of its step, and its number of steps modulo 32."""
    if centre == 0.0:
        return np.zeros(1, np.bool_)
    power = _find_power(centre)
    half = (int(centre / 2.0**power) - 1) // 2
    codes = to_bits(np.array([float(power - _LEAST_POWER)]), _POWER_BITS)
    residue = to_bits(np.array([float(half % (1 << _RESIDUE_BITS))]), _RESIDUE_BITS)
    return np.concatenate([np.ones(1, np.bool_), codes, residue])


def unpack_centre(message: Bools, at: int, values: Floats) -> tuple[float, int]:
    """The centre of a column, the one that is nearest to the median of the kept records; and where its bits end.

    It is nan if the median lies between two centres.
    """
    if not message[at]:
        return 0.0, at + 1
    step = 2.0 ** (from_bits(message, at + 1, 1, _POWER_BITS)[0] + _LEAST_POWER)
    residue = from_bits(message, at + 1 + _POWER_BITS, 1, _RESIDUE_BITS)[0]
    end, modulus = at + 1 + _POWER_BITS + _RESIDUE_BITS, float(1 << _RESIDUE_BITS)
    middle = float(np.partition(values, (len(values) - 1) // 2)[(len(values) - 1) // 2])
    turns = ((middle / step - 1.0) / 2.0 - residue) / modulus
    nearest = np.rint(turns)
    if not abs(turns - nearest) <= _SURE:
        return np.nan, end
    return (2.0 * (residue + nearest * modulus) + 1.0) * step, end
