"""Parameters that minimise a loss over a whole stream, carried with the curvature of the loss of all records.

See `vestige.statistics.newton` for a step. The parameters are written finely; curvature, and where predictors lie far
from zero the centres about which they are taken, in a few bits (`vestige.statistics.coarse`). The tests of all batches
are added up, so that an answer can say that records contradict it.
Guarantee: the table in docs/policies.md; held by tests/policies/test_descent.py and tests/policies/test_losses.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from vestige.errors import DataError
from vestige.statistics.coarse import (
    CENTRE_BITS,
    LEAST_LOG,
    LOG_RANGE,
    choose_centre,
    compose,
    decompose,
    find_logs,
    from_bits,
    pack_centre,
    round_by_chance,
    to_bits,
    unpack_centre,
)
from vestige.statistics.model import Model
from vestige.statistics.newton import Batch, Past, find_typical, solve
from vestige.statistics.statistic import Packing
from vestige.types import Bools, Floats

M = TypeVar("M", bound=Model)

_LATCH = 12.0
"""Standard deviations from which on batches contradict each other for good."""
_FAR = 8.0
"""A predictor is taken about a centre if its mean is further from zero than so many standard deviations."""
_HEADER = 2
"""The first bit is one, so that no batch is empty; the second says that the numbers are off."""
_TEST_BITS, _TEST_STEP = 7, 1.0 / 4.0
_LEAST_TESTS = np.array([-8.0, -16.0])
_TOP = float(_LEAST_TESTS[0] + ((1 << _TEST_BITS) - 1) * _TEST_STEP)
_FINENESS = ((14, 9, 20), (13, 7, 16), (12, 6, 14))
"""Bits of a logarithm of curvature, of a partial correlation, and of a parameter, the most that there is room for."""
_ROUGH = (12, 0)
"""The same where kept records have to tell correlations."""
_REACHES = {9: 8.0, 7: 4.0, 6: 4.0, 0: 8.0}
"""Of Fisher's transformation, by the bits of a partial correlation: 4 is a correlation of 0.9993."""
_NEAR = 0.6
_WIDTH_BITS = 5
_LEAST_BITS, _MOST_BITS = 8, 49
"""Bits of a parameter: with fewer it says nothing, and more are more than float64 can tell apart."""
_LEAST_FRACTION = 4
_FEW = 9
"""Up to so many parameters the smallest batch has room for correlations; else kept records may have to tell them."""
_RECORDS = 48
_SMALLEST = 1e-300
_NOTHING = 1.5
"""Curvature up to so many times that of the penalty, or of the least that is written, is none."""


class State(NamedTuple):
    """What a stream holds of a loss.

    Attributes:
        parameters: those of records about the centres; shape (count,).
        bend: the curvature of the average loss there; shape (count, count).
        squares: the average squares of gradients there; of a likelihood, the diagonal of `bend`; shape (count,).
        tests: what the tests of all batches add up to, in standard deviations; see `Batch.test`; shape (2,).
        centres: shape (centred,).
    """

    parameters: Floats
    bend: Floats
    squares: Floats
    tests: Floats
    centres: Floats


@dataclass(frozen=True, slots=True)
class Descent(Packing, Generic[M]):
    """The parameters of a model that minimise its average loss, and the curvature of that.

    Attributes:
        model: the loss and its derivatives.
        forgets: whether old records count less and less, so that what contradicted them is forgotten too.
    """

    model: M
    forgets: bool = False

    @property
    def count(self) -> int:
        """The number of parameters."""
        return len(self.model.start)

    @property
    def size(self) -> int:
        """How many there are of parameters, curvatures, squares of gradients, tests and centres."""
        return (1 + self._kinds) * self.count + self._pairs + len(_LEAST_TESTS) + self.model.centred

    @property
    def min_rows(self) -> int:
        """The smallest batch: room for correlations if there are few parameters, else 48 records for each."""
        size, partial, good = _FINENESS[-1]
        if self.count <= _FEW:
            return self._count_before(size, partial) + good * self.count
        return max(_RECORDS * self.count, self.least_rows)

    @property
    def least_rows(self) -> int:
        """The fewest bits that hold the numbers, if only roughly."""
        return self._count_before(*_ROUGH, self.model.centred) + _LEAST_BITS * self.count

    @property
    def most_rows(self) -> int:
        """The most bits that can be used."""
        return self._count_before(*_FINENESS[0][:2], self.model.centred) + _MOST_BITS * self.count

    @property
    def _pairs(self) -> int:
        return self.count * (self.count - 1) // 2

    @property
    def _kinds(self) -> int:
        return 1 if self.model.is_likelihood else 2

    def make_numbers(self, state: State) -> Floats:
        """Give the numbers of a state; see `size`.

        Args:
            state: the state.

        Returns:
            the numbers; shape (size,).
        """
        sizes, partials = decompose(state.bend)
        squares = np.zeros(0) if self.model.is_likelihood else find_logs(state.squares)
        return np.concatenate([state.parameters, sizes, squares, partials, state.tests, state.centres])

    def read_state(self, numbers: Floats) -> State:
        """Give the state that numbers say.

        Args:
            numbers: shape (size,).

        Returns:
            the state.
        """
        parameters, sizes, squares, partials, tests, centres = self._split(numbers)
        bend = compose(sizes, partials)
        return State(parameters, bend, np.exp2(squares) if len(squares) else bend.diagonal(), tests, centres)

    def step(self, estimate: Floats | None, values: Floats, weights: Floats, share: float) -> Floats:
        """Compute the numbers after these records; see `Statistic.step`."""
        with np.errstate(all="ignore"):
            state = self._begin(values) if estimate is None else self.read_state(estimate)
            moved = self._move(state, values, weights, share if estimate is not None else 1.0)
            numbers = self.make_numbers(self._center(moved))
        if not np.isfinite(numbers).all():
            raise DataError("the loss is not finite on these records; scale the columns, or start nearer")
        return numbers

    def merge(self, parts: Floats, shares: Floats) -> Floats:
        """Compute the numbers of all records, each part weighted by its curvature; see `Statistic.merge`."""
        states = [self.read_state(part) for part in parts]
        centres = states[int(shares.argmax())].centres
        states = [self._shift(state, centres - state.centres) for state in states]
        bend = np.tensordot(shares, np.array([state.bend for state in states]), 1)
        pull = shares @ np.array([state.bend @ state.parameters for state in states])
        squares = shares @ np.array([state.squares for state in states])
        tests = np.array([state.tests for state in states])
        tests = tests[np.abs(tests).argmax(axis=0), np.arange(len(_LEAST_TESTS))]
        return self.make_numbers(State(solve(bend, pull), bend, squares, tests, centres))

    def find_deviations(self, values: Floats, numbers: Floats) -> Floats:  # noqa: ARG002
        """No record says anything of these numbers; see `Statistic.find_deviations`."""
        return np.full(self.size, np.inf)

    def find_parameters(self, numbers: Floats) -> Floats:
        """Find the parameters for records that are not about centres.

        Args:
            numbers: shape (size,).

        Returns:
            the parameters; shape (count,).
        """
        parameters, *_, centres = self._split(numbers)
        return self.model.find_shift(-centres) @ parameters if centres.any() else np.array(parameters)

    def find_covariance(self, numbers: Floats, worth: float) -> Floats:
        """Find the covariance of the errors of the parameters, for records that are not about centres.

        That of a likelihood is the inverse of its curvature; else it is H^-1 G H^-1, where H is the curvature and G the
        average square of gradients (Huber, "The behavior of maximum likelihood estimates under nonstandard conditions",
        1967), whose correlations are taken to be those of H.

        Args:
            numbers: shape (size,).
            worth: the number of records.

        Returns:
            the matrix; shape (count, count).
        """
        state = self.read_state(numbers)
        turn = self.model.find_shift(-state.centres)
        made: Floats = turn @ self._find_covariance(state) @ turn.T / worth
        return made

    def find_test(self, numbers: Floats, updates: int) -> float:
        """Find by how much the batches contradict what was believed before them.

        Args:
            numbers: shape (size,).
            updates: how often the tests were rounded.

        Returns:
            the larger of the two, in standard deviations of chance and of that rounding.
        """
        square, slope = self._split(numbers)[4]
        return float(max(square, abs(slope)) / np.sqrt(1.0 + updates * _TEST_STEP**2 / 24.0))

    def is_flat(self, numbers: Floats, rows: int) -> bool:
        """Tell whether a direction has so little curvature that coarse correlations do not say how much.

        Args:
            numbers: shape (size,).
            rows: the number of bits of the word.

        Returns:
            whether one has.
        """
        *_, partials, _, centres = self._split(numbers)
        reach = _REACHES[self.choose_bits(rows, int((centres != 0.0).sum()))[1]]
        return bool((np.abs(partials) > reach - _NEAR).any())

    def count_evidence(self, numbers: Floats, values: Floats, worth: float) -> Floats:
        """Count the records of typical curvature at the start that would say as much as all do, in each direction.

        Args:
            numbers: shape (size,).
            values: some of the records; shape (n, columns).
            worth: the number of all records.

        Returns:
            the counts, without those parameters that earlier records alone said something of; shape (known,).
        """
        state, model = self.read_state(numbers), self.model
        values = self._subtract(values, state.centres)
        with np.errstate(all="ignore"):
            bend = model.curvature(model.start, values, np.full(len(values), 1.0 / len(values))).diagonal()
            one = find_typical(model.gradients(model.start, values), bend * len(values), len(values))
        known = (one > 0.0) & np.isfinite(one)
        lengths = np.sqrt(one[known])
        evidence = worth * np.linalg.eigvalsh(state.bend[np.ix_(known, known)] / np.outer(lengths, lengths))
        diagonal = state.bend.diagonal()
        unsaid = (one == 0.0) & (diagonal <= np.maximum(_NOTHING * model.penalty, _NOTHING * 2.0**LEAST_LOG))
        return np.concatenate([evidence, np.zeros(int(unsaid.sum()))])

    def find_gap(self, parts: Floats, worths: Floats) -> float:
        """Find how far the parameters of several parts of the records are apart, beyond their errors.

        Args:
            parts: the numbers of each part; shape (parts, size).
            worths: the number of records of each; shape (parts,).

        Returns:
            the sum of squares in standard deviations.
        """
        merged = self.read_state(self.merge(parts, worths / worths.sum()))
        total, degrees = 0.0, max((len(parts) - 1) * self.count, 1)
        for part, worth in zip(parts, worths, strict=True):
            state = self.read_state(part)
            state = self._shift(state, merged.centres - state.centres)
            apart = state.parameters - merged.parameters
            total += worth * float(apart @ solve(self._find_covariance(state), apart))
        return float((total - degrees) / np.sqrt(2.0 * degrees))

    def find_rounding(self, numbers: Floats, rows: int, free: int) -> float:
        """Find the root mean square error of writing a parameter, in errors that one record would leave alone.

        Args:
            numbers: shape (size,).
            rows: the number of bits of the word.
            free: how many of them can be chosen.

        Returns:
            the error.
        """
        parameters, sizes, *_, centres = self._split(numbers)
        before = self.choose_bits(rows, int((centres != 0.0).sum()))[-1]
        width = _find_width((parameters - self.model.start) * np.exp2(sizes / 2.0))
        return float(2.0 ** (width + 1 - min(_MOST_BITS, (free - before) // self.count)) / np.sqrt(6.0))

    def choose_bits(self, rows: int, far: int = 0) -> tuple[int, int, int]:
        """Choose how fine curvature is written.

        Args:
            rows: the number of bits of a word.
            far: the number of predictors that are taken about centres.

        Returns:
            the bits of a logarithm and of a partial correlation, where none means that kept records tell them; and
            those of all that stands before the parameters.
        """
        for size, partial, good in _FINENESS:
            before = self._count_before(size, partial, far)
            if rows >= before + good * self.count:
                return size, partial, before
        if self.count <= _FEW and rows >= before + _LEAST_BITS * self.count:
            return size, partial, before
        return *_ROUGH, self._count_before(*_ROUGH, far)

    def pack(self, numbers: Floats, off: bool, rows: int, free: int, rng: np.random.Generator) -> Bools:
        """Pack numbers into the bits of a word; see `Packing.pack`."""
        parameters, sizes, squares, partials, tests, centres = self._split(numbers)
        size, partial, before = self.choose_bits(rows, int((centres != 0.0).sum()))
        fine, reach = LOG_RANGE / (1 << size), _REACHES[partial]
        logs = round_by_chance((np.concatenate([sizes, squares]) - LEAST_LOG) / fine, size, rng)
        partials = (np.clip(partials, -reach, reach) + reach) / (2.0 * reach) * (1 << partial)
        apart = (parameters - self.model.start) * np.exp2((logs[: self.count] * fine + LEAST_LOG) / 2.0)
        width, widest = _find_width(apart), (1 << _WIDTH_BITS) - 1
        off = off or (free - before) // self.count < width + 1 + _LEAST_FRACTION or width > widest
        width = min(width, widest)
        head = [
            np.array([True, off]),
            to_bits(round_by_chance((tests - _LEAST_TESTS) / _TEST_STEP, _TEST_BITS, rng), _TEST_BITS),
            *(pack_centre(centre) for centre in centres),
            to_bits(logs, size),
            to_bits(round_by_chance(partials, partial, rng), partial) if partial else np.zeros(0, np.bool_),
            to_bits(np.array([float(width)]), _WIDTH_BITS),
        ]
        message = np.zeros(rows, np.bool_)
        message[:before] = np.concatenate(head)
        for i in range(self.count):
            bits = message[before + i :: self.count][:_MOST_BITS]
            usable = min(len(bits), max(0, -(-(free - before - i) // self.count)))
            place = (apart[i] * 2.0 ** -(width + 1) + 0.5) * 2.0 ** len(bits)
            if usable < len(bits):  # what comes out at random only adds
                lost = 2.0 ** (len(bits) - usable)
                place = (place - (lost - 1.0) / 2.0) / lost
            bits[:usable] = to_bits(round_by_chance(np.array([place]), usable, rng), usable)
        return message

    def unpack(self, message: Bools, values: Floats) -> tuple[Floats, bool]:
        """Unpack the numbers of a word; see `Packing.unpack`."""
        count, at = self.count, _HEADER + len(_LEAST_TESTS) * _TEST_BITS
        tests = from_bits(message, _HEADER, len(_LEAST_TESTS), _TEST_BITS) * _TEST_STEP + _LEAST_TESTS
        centres, at = self._unpack_centres(message, values)
        size, partial, before = self.choose_bits(len(message), int((centres != 0.0).sum()))
        logs = from_bits(message, at, self._kinds * count, size) * (LOG_RANGE / (1 << size)) + LEAST_LOG
        at += self._kinds * count * size
        reach = _REACHES[partial]
        partials = from_bits(message, at, self._pairs, partial) * (2.0 * reach / (1 << partial)) - reach
        width = int(from_bits(message, before - _WIDTH_BITS, 1, _WIDTH_BITS)[0])
        parameters = np.empty(count)
        for i in range(count):
            bits = message[before + i :: count][:_MOST_BITS]
            place = from_bits(bits, 0, 1, len(bits))[0] * 2.0 ** -len(bits)
            parameters[i] = (place - 0.5) * 2.0 ** (width + 1)
        parameters = self.model.start + parameters * np.exp2(-logs[:count] / 2.0)
        if not partial:
            partials = self._tell_partials(parameters, self._subtract(values, centres))
        return np.concatenate([parameters, logs, partials, tests, centres]), bool(message[1])

    def is_read(self, numbers: Floats, message: Bools, values: Floats) -> bool:
        """Tell whether kept records say where the centres are; see `Packing.is_read`."""
        return np.array_equal(self._unpack_centres(message, values)[0], self._split(numbers)[-1])

    def settle(self, numbers: Floats, values: Floats, attempt: int) -> Floats:
        """Take predictors about centres that records cannot mistake, at last about zero; see `Packing.settle`."""
        state = self.read_state(numbers)
        centres = np.zeros(self.model.centred)
        for j in np.flatnonzero(state.centres) if attempt < Packing.TRIES - 2 else ():
            spread = float(values[:, j].std()) * 2.0 ** (attempt + 1)
            centres[j] = choose_centre(float(np.median(values[:, j])), spread)
        return self.make_numbers(self._shift(state, centres - state.centres))

    def _count_before(self, size: int, partial: int, far: int = 0) -> int:
        """The bits before the parameters."""
        tests, curved = len(_LEAST_TESTS) * _TEST_BITS, self._kinds * self.count * size + self._pairs * partial
        return _HEADER + tests + self.model.centred + CENTRE_BITS * far + curved + _WIDTH_BITS

    def _split(self, numbers: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats, Floats]:
        """Parameters, logarithms of curvatures and of squares, partial correlations, tests and centres."""
        count = self.count
        ends = np.cumsum([count, count, (self._kinds - 1) * count, self._pairs, len(_LEAST_TESTS)])
        return tuple(np.split(numbers, ends))  # type: ignore[return-value]

    def _unpack_centres(self, message: Bools, values: Floats) -> tuple[Floats, int]:
        """The centres that a word says, and where its bits go on."""
        centres, at = np.zeros(self.model.centred), _HEADER + len(_LEAST_TESTS) * _TEST_BITS
        for j in range(self.model.centred):
            centres[j], at = unpack_centre(message, at, values[:, j])
        return centres, at

    def _begin(self, values: Floats) -> State:
        """What holds before any record, about centres that the first of them say."""
        count, centres = self.count, np.zeros(self.model.centred)
        for j in range(self.model.centred):
            alike = bool((values[:, j] == values[0, j]).all())
            middle, spread = float(values[0 if alike else slice(None), j].mean()), float(values[:, j].std())
            spread = 0.0 if alike else spread
            if abs(middle) > _FAR * spread:
                centres[j] = choose_centre(middle, spread)
        return State(self.model.start, np.zeros((count, count)), np.zeros(count), np.zeros(2), centres)

    def _move(self, state: State, values: Floats, weights: Floats, share: float) -> State:
        """The state after these records."""
        model, total = self.model, float(weights.sum())
        before, past = total * (1.0 - share) / share, None
        if before > 0.0:
            scale = np.sqrt(state.squares / np.maximum(state.bend.diagonal(), _SMALLEST))
            past = Past(state.parameters, before * state.bend, before * state.bend * np.outer(scale, scale))
        values = self._subtract(values, state.centres)
        batch, tests = Batch(model, values, weights, past), state.tests
        if past is not None and (self.forgets or tests[0] < _TOP):
            tests = np.sqrt(1.0 - share) * tests + np.sqrt(share) * batch.test()
            if not self.forgets and max(tests[0], abs(tests[1])) > _LATCH:
                tests = np.array([_TOP, tests[1]])
        at, bend = batch.minimise()
        squares = state.squares
        if not model.is_likelihood:
            squares = (1.0 - share) * squares + share * (batch.parts @ model.gradients(at, values) ** 2)
        return State(at, bend / (before + total), squares, tests, state.centres)

    def _subtract(self, values: Floats, centres: Floats) -> Floats:
        if not centres.any():
            return values
        moved = values.copy()
        moved[:, : len(centres)] -= centres
        return moved

    def _shift(self, state: State, by: Floats) -> State:
        """The same state about other centres."""
        if not by.any():
            return state
        turn, back = self.model.find_shift(by), self.model.find_shift(-by)
        bend = back.T @ state.bend @ back
        return State(turn @ state.parameters, bend, bend.diagonal(), state.tests, state.centres + by)

    def _center(self, state: State) -> State:
        """The state about other centres where means have gone far from them."""
        by, bend = np.zeros(self.model.centred), state.bend
        for j in range(self.model.centred):
            apart = bend[0, j + 1] / max(bend[0, 0], _SMALLEST)
            spread = np.sqrt(max(bend[j + 1, j + 1] / max(bend[0, 0], _SMALLEST) - apart**2, 0.0))
            if abs(apart) > 2.0 * _FAR * spread > 0.0:
                by[j] = choose_centre(state.centres[j] + apart, spread) - state.centres[j]
        return self._shift(state, by)

    def _find_covariance(self, state: State) -> Floats:
        """The covariance of the parameters that one record would leave, about the centres."""
        inverse = solve(state.bend, np.eye(self.count))
        if self.model.is_likelihood:
            return inverse
        scale = np.sqrt(state.squares / np.maximum(state.bend.diagonal(), _SMALLEST))
        made: Floats = inverse @ (state.bend * np.outer(scale, scale)) @ inverse
        return made

    def _tell_partials(self, at: Floats, values: Floats) -> Floats:
        """The partial correlations of the curvature of the kept records."""
        n = len(values)
        with np.errstate(all="ignore"):
            bend = self.model.curvature(at, values, np.full(n, 1.0 / n)) + np.diag(self.model.penalty)
        if not np.isfinite(bend).all():
            return np.zeros(self._pairs)
        return decompose(bend + np.diag(bend.diagonal()) * self.count / n)[1]


def _find_width(apart: Floats) -> int:
    """The bits of the whole part of the largest of these numbers."""
    return max(int(np.ceil(np.log2(float(np.abs(apart).max()) * 1.01 + 1e-9))), 0)
