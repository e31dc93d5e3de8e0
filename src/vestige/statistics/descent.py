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
from vestige.random.generators import make_generator
from vestige.statistics.coarse import (
    CENTRE_BITS,
    LEAST_LOG,
    MOST_TIE,
    Curvature,
    choose_centre,
    code_curvature,
    decode_curvature,
    decompose,
    from_bits,
    pack_centre,
    round_by_chance,
    to_bits,
    unpack_centre,
    unpack_codes,
)
from vestige.statistics.model import Model
from vestige.statistics.newton import Batch, Past, find_typical, solve
from vestige.statistics.statistic import Packing
from vestige.types import Bools, Floats

M = TypeVar("M", bound=Model)

_LATCH = 12.0
"""Standard deviations from which on batches contradict each other for good."""
_EARLY = 1.0 / 16.0
"""What the first batches contradict, such as that an event never comes, says little of all: it counts less and less."""
_MISFIT = 3.0
"""What a standard error by which a parabola may mislead counts in the tests, of which six are too many."""
_FAR = 8.0
"""A predictor is taken about a centre if its mean is further from zero than so many standard deviations."""
_HEADER = 2
"""The first bit is one, so that no batch is empty; the second says that the numbers are off."""
_TEST_BITS, _TEST_STEP = 7, 1.0 / 4.0
_LEAST_TESTS = np.array([-8.0, -16.0])
_TOP = float(_LEAST_TESTS[0] + ((1 << _TEST_BITS) - 1) * _TEST_STEP)
_FINENESS = ((3, 5, 20), (2, 4, 16), (1, 3, 14))
"""The code of a fineness, binary digits of curvature, and the bits of a parameter there must be room for besides."""
_ROUGH = (0, 3)
"""The same where kept records have to tell how predictors depend on each other."""
_FINENESS_BITS = 2
_WIDTH_BITS, _LEAST_WIDTH = 8, -128
_LEAST_BITS, _MOST_BITS = 8, 49
"""Bits of a parameter: with fewer it says nothing, and more are more than float64 can tell apart."""
_LEAST_FRACTION = 4
_FEW = 9
"""Up to so many parameters the smallest batch has room for correlations; else kept records may have to tell them."""
_RECORDS = 48
_USUAL_LOG, _USUAL_RATIO, _USUAL_TIE, _USUAL_PARAMETER = 6, 4, 5, 14
_MOST_LOG, _MOST_TIE = 24, 30
"""Bits."""
_SMALLEST = 1e-300
_NOTHING = 1.5
"""Curvature up to so many times that of the penalty, or of the least that is written, is none."""


class State(NamedTuple):
    """What a stream holds of a loss.

    Attributes:
        parameters: those of records about the centres; shape (count,).
        bend: the curvature of the average loss there; shape (count, count).
        squares: the average squares of gradients there; of a likelihood `bend`; shape (count, count).
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
        """The smallest batch: room for usual ties if there are few parameters; else 48 records for each."""
        if self.count <= _FEW:
            usual = _USUAL_LOG + (self._kinds - 1) * _USUAL_RATIO + _USUAL_PARAMETER
            return self._count_head() + self.count * usual + self._pairs * _USUAL_TIE
        return max(_RECORDS * self.count, self.least_rows)

    @property
    def least_rows(self) -> int:
        """The fewest bits that hold the numbers, if only roughly."""
        usual = _USUAL_LOG + (self._kinds - 1) * _USUAL_RATIO + _LEAST_BITS
        return self._count_head() + self.model.centred * CENTRE_BITS + self.count * usual

    @property
    def most_rows(self) -> int:
        """The most bits that can be used."""
        head = self._count_head() + self.model.centred * CENTRE_BITS + self._pairs * _MOST_TIE
        return head + self.count * (self._kinds * _MOST_LOG + _MOST_BITS)

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
        logs, ties, ratios = decompose(state.bend, None if self.model.is_likelihood else state.squares)
        return np.concatenate([state.parameters, logs, ties, ratios, state.tests, state.centres])

    def read_state(self, numbers: Floats) -> State:
        """Give the state that numbers say.

        Args:
            numbers: shape (size,).

        Returns:
            the state.
        """
        parameters, curvature, tests, centres = self._split(numbers)
        bend = curvature.compose()
        squares = bend if self.model.is_likelihood else curvature.compose_squares()
        return State(parameters, bend, squares, tests, centres)

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
        squares = np.tensordot(shares, np.array([state.squares for state in states]), 1)
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
        parameters, _, _, centres = self._split(numbers)
        return self.model.find_shift(-centres) @ parameters if centres.any() else np.array(parameters)

    def find_covariance(self, numbers: Floats, worth: float) -> Floats:
        """Find the covariance of the errors of the parameters, for records that are not about centres.

        That of a likelihood is the inverse of its curvature; else it is H^-1 G H^-1, where H is the curvature and G the
        average square of gradients (Huber, "The behavior of maximum likelihood estimates under nonstandard conditions",
        1967). With H = L D L', it is taken to be L R L', where R is diagonal.

        Args:
            numbers: shape (size,).
            worth: the number of records.

        Returns:
            the matrix; shape (count, count).
        """
        state = self.read_state(numbers)
        turn = self.model.find_shift(-state.centres)
        made: Floats = turn @ _find_covariance(state) @ turn.T / worth
        return made

    def find_test(self, numbers: Floats, updates: int) -> float:
        """Find by how much the batches contradict what was believed before them.

        Args:
            numbers: shape (size,).
            updates: how often the tests were rounded.

        Returns:
            the larger of the two, in standard deviations of chance and of that rounding.
        """
        square, slope = self._split(numbers)[2]
        return float(max(square, abs(slope)) / np.sqrt(1.0 + updates * _TEST_STEP**2 / 24.0))

    def is_flat(self, numbers: Floats) -> bool:
        """Tell whether a direction has so little curvature that what is written does not say how much.

        Args:
            numbers: shape (size,).

        Returns:
            whether one has.
        """
        return bool((np.abs(self._split(numbers)[1].ties) > MOST_TIE / 2.0).any())

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
            total += worth * float(apart @ solve(_find_covariance(state), apart))
        return float((total - degrees) / np.sqrt(2.0 * degrees))

    def find_rounding(self, numbers: Floats, free: int) -> float:
        """Find the root mean square error of writing a parameter, in errors that one record would leave alone.

        Args:
            numbers: shape (size,).
            free: how many bits of the word can be chosen.

        Returns:
            the error.
        """
        parameters = self._split(numbers)[0]
        head, lengths = self._pack_curvature(numbers, free, make_generator(0))
        width = _find_width((parameters - self.model.start) * lengths)
        bits = min(_MOST_BITS, (free - len(head) - _WIDTH_BITS) // self.count)
        return float(2.0 ** (width + 1 - bits) / np.sqrt(6.0))

    def pack(self, numbers: Floats, off: bool, rows: int, free: int, rng: np.random.Generator) -> Bools:
        """Pack numbers into the bits of a word; see `Packing.pack`."""
        parameters = self._split(numbers)[0]
        head, lengths = self._pack_curvature(numbers, free, rng)
        before, message = len(head) + _WIDTH_BITS, np.zeros(rows, np.bool_)
        if before > free:
            return message
        apart = (parameters - self.model.start) * lengths
        width, widest = _find_width(apart), _LEAST_WIDTH + (1 << _WIDTH_BITS) - 1
        too_wide = (free - before) // self.count < width + 1 + _LEAST_FRACTION or width > widest
        head[1] = off or too_wide or self.is_flat(numbers)  # for good: what is written adds up to some curvature
        width = min(width, widest)
        message[:before] = np.concatenate([head, to_bits(np.array([float(width - _LEAST_WIDTH)]), _WIDTH_BITS)])
        for i in range(self.count):
            bits = message[before + i :: self.count][:_MOST_BITS]
            usable = min(len(bits), max(0, -(-(free - before - i) // self.count)))
            place = (apart[i] * 2.0 ** -(width + 1) + 0.5) * 2.0 ** len(bits)
            if usable < len(bits):  # what comes out at random only adds
                lost = 2.0 ** (len(bits) - usable)
                place = (place - (lost - 1.0) / 2.0) / lost
            rounded = np.clip(round_by_chance(np.array([place]), rng), 0.0, 2.0**usable - 1.0)
            bits[:usable] = to_bits(rounded, usable)
        return message

    def unpack(self, message: Bools, values: Floats) -> tuple[Floats, bool]:
        """Unpack the numbers of a word; see `Packing.unpack`."""
        count = self.count
        tests = from_bits(message, _HEADER, len(_LEAST_TESTS), _TEST_BITS) * _TEST_STEP + _LEAST_TESTS
        centres, at = self._unpack_centres(message, values)
        curvature, has_ties, at = self._unpack_curvature(message, at)
        if at + _WIDTH_BITS > len(message):
            return np.full(self.size, np.nan), False
        lengths = _find_lengths(curvature)
        width, parameters = int(from_bits(message, at, 1, _WIDTH_BITS)[0]) + _LEAST_WIDTH, np.empty(count)
        for i in range(count):
            bits = message[at + _WIDTH_BITS + i :: count][:_MOST_BITS]
            place = from_bits(bits, 0, 1, len(bits))[0] * 2.0 ** -len(bits)
            parameters[i] = (place - 0.5) * 2.0 ** (width + 1)
        parameters = self.model.start + np.where(curvature.said, parameters / lengths, 0.0)
        if not has_ties:
            curvature = self._tell_ties(curvature, parameters, self._subtract(values, centres))
        return np.concatenate([parameters, *curvature, tests, centres]), bool(message[1])

    def is_read(self, numbers: Floats, message: Bools, values: Floats) -> bool:
        """Tell whether kept records say where the centres are; see `Packing.is_read`."""
        return bool(message[0]) and np.array_equal(self._unpack_centres(message, values)[0], self._split(numbers)[-1])

    def settle(self, numbers: Floats, values: Floats, attempt: int) -> Floats:
        """Take predictors about centres that records cannot mistake, at last about zero; see `Packing.settle`."""
        state = self.read_state(numbers)
        centres = np.zeros(self.model.centred)
        for j in np.flatnonzero(state.centres) if attempt < Packing.TRIES - 2 else ():
            spread = float(values[:, j].std()) * 2.0 ** (attempt + 1)
            centres[j] = choose_centre(float(np.median(values[:, j])), spread)
        return self.make_numbers(self._shift(state, centres - state.centres))

    def _count_head(self) -> int:
        """The bits of all but curvature and parameters, without centres and where something is known of all."""
        return _HEADER + len(_LEAST_TESTS) * _TEST_BITS + self.model.centred + _FINENESS_BITS + 1 + _WIDTH_BITS

    def _split(self, numbers: Floats) -> tuple[Floats, Curvature, Floats, Floats]:
        """Parameters, curvature, tests and centres."""
        count = self.count
        ends = np.cumsum([count, count, self._pairs, (self._kinds - 1) * count, len(_LEAST_TESTS)])
        parameters, logs, ties, ratios, tests, centres = np.split(numbers, ends)
        return parameters, Curvature(logs, ties, ratios), tests, centres

    def _pack_curvature(self, numbers: Floats, free: int, rng: np.random.Generator) -> tuple[Bools, Floats]:
        """The bits before the parameters, as fine as there is room for, and the lengths that they say."""
        _, curvature, tests, centres = self._split(numbers)
        tested = round_by_chance((tests - _LEAST_TESTS) / _TEST_STEP, rng)
        said = curvature.said
        head = [
            np.array([True, False]),
            to_bits(np.clip(tested, 0.0, (1 << _TEST_BITS) - 1.0), _TEST_BITS),
            *(pack_centre(centre) for centre in centres),
            np.array([False]) if said.all() else np.append(True, said),
        ]
        begun = sum(map(len, head)) + _FINENESS_BITS + _WIDTH_BITS
        for fineness, digits, good in _FINENESS:  # noqa: B007
            codes = code_curvature(curvature, digits, True, rng)
            room = free - begun - sum(code.count_bits() for code in codes)
            if room >= good * self.count:
                break
        else:
            if self.count > _FEW or room < _LEAST_BITS * self.count:
                fineness, digits = _ROUGH
                sizes = np.maximum(np.log2(np.maximum(curvature.compose().diagonal(), _SMALLEST)), LEAST_LOG)
                codes = code_curvature(curvature._replace(logs=sizes), digits, False, rng)
        head.append(to_bits(np.array([float(fineness)]), _FINENESS_BITS))
        written = decode_curvature([code.numbers for code in codes], said, digits, self._kinds > 1)
        packed = np.concatenate([*head, *(code.pack() for code in codes)])
        return packed, _find_lengths(written)

    def _unpack_curvature(self, message: Bools, at: int) -> tuple[Curvature, bool, int]:
        """The curvature that a word says, whether ties are among that, and where its bits end."""
        said, count = np.ones(self.count, np.bool_), self.count
        if message[at]:
            said = message[at + 1 : at + 1 + count]
            at += count
        at += 1
        fineness = int(from_bits(message, at, 1, _FINENESS_BITS)[0])
        digits, known = {code: digits for code, digits, *_ in (_ROUGH, *_FINENESS)}[fineness], int(said.sum())
        sizes = [(known, digits + 1), *[(known, digits)] * (self._kinds - 1)]
        if fineness:
            sizes.append((known * (known - 1) // 2, digits))
        codes, at = [], at + _FINENESS_BITS
        for length, size in sizes:
            numbers, at = unpack_codes(message, at, length, size)
            codes.append(numbers)
        return decode_curvature(codes, said, digits, self._kinds > 1), bool(fineness), at

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
        nothing = np.zeros((count, count))
        return State(self.model.start, nothing, nothing, np.zeros(len(_LEAST_TESTS)), centres)

    def _move(self, state: State, values: Floats, weights: Floats, share: float) -> State:
        """The state after these records."""
        model, total = self.model, float(weights.sum())
        before, past = total * (1.0 - share) / share, None
        if before > 0.0:
            past = Past(state.parameters, before * state.bend, before * state.squares, before)
        values = self._subtract(values, state.centres)
        batch, tests = Batch(model, values, weights, past), state.tests
        at, bend = batch.minimise()
        if past is not None and (self.forgets or tests[0] < _TOP):
            tests = np.sqrt(1.0 - share) * tests + np.sqrt(share) * batch.test()
            misfit = _MISFIT * batch.find_misfit(at, bend)
            tests[0] += misfit
            lasts = share <= _EARLY or misfit > _LATCH
            if lasts and not self.forgets and max(tests[0], abs(tests[1])) > _LATCH:
                tests = np.array([_TOP, tests[1]])
        squares = bend = bend / (before + total)
        if not model.is_likelihood:
            gradients = model.gradients(at, values)
            scatter = (gradients * batch.parts[:, None]).T @ gradients
            if past is None:  # of an event that has not come, no record tells how uncertain it is, but their sum does
                pull = batch.parts @ gradients + model.penalty * at
                scatter += total * np.outer(pull, pull)
            squares = (1.0 - share) * state.squares + share * scatter
        return State(at, bend, squares, tests, state.centres)

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
        return State(turn @ state.parameters, bend, bend, state.tests, state.centres + by)

    def _center(self, state: State) -> State:
        """The state about other centres where means have gone far from them."""
        by, bend = np.zeros(self.model.centred), state.bend
        for j in range(self.model.centred):
            apart = bend[0, j + 1] / max(bend[0, 0], _SMALLEST)
            spread = np.sqrt(max(bend[j + 1, j + 1] / max(bend[0, 0], _SMALLEST) - apart**2, 0.0))
            if abs(apart) > 2.0 * _FAR * spread > 0.0:
                by[j] = choose_centre(state.centres[j] + apart, spread) - state.centres[j]
        return self._shift(state, by)

    def _tell_ties(self, sizes: Curvature, at: Floats, values: Floats) -> Curvature:
        """Curvature of which the diagonal is known, and all else is that of the kept records."""
        n, lengths = len(values), np.exp2(sizes.logs / 2.0)
        with np.errstate(all="ignore"):
            bend = self.model.curvature(at, values, np.full(n, 1.0 / n)) + np.diag(self.model.penalty)
        bend = bend if np.isfinite(bend).all() else np.zeros_like(bend)
        bend = bend + np.diag(bend.diagonal()) * self.count / n
        roots = np.sqrt(np.maximum(np.abs(bend.diagonal()), _SMALLEST))
        scaled = bend / np.outer(roots, roots)
        np.fill_diagonal(scaled, 1.0)
        return decompose(scaled * np.outer(lengths, lengths))._replace(ratios=sizes.ratios)


def _find_covariance(state: State) -> Floats:
    """The covariance of the parameters that one record would leave, about the centres."""
    inverse = solve(state.bend, np.eye(len(state.bend)))
    made: Floats = inverse if state.squares is state.bend else inverse @ state.squares @ inverse
    return made


def _find_lengths(curvature: Curvature) -> Floats:
    """What makes errors that one record would leave alone of distances of parameters: their unit, in any units."""
    lengths: Floats = np.sqrt(curvature.compose().diagonal())
    return lengths * np.exp2(-curvature.ratios / 2.0) if len(curvature.ratios) else lengths


def _find_width(apart: Floats) -> int:
    """The power of two that the largest of these numbers is below."""
    return max(int(np.ceil(np.log2(max(float(np.abs(apart).max()) * 1.01, _SMALLEST)))), _LEAST_WIDTH)
