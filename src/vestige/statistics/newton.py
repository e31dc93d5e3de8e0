"""The minimum of a loss over records that are gone and a batch that is here, by Newton's method.

Renewable estimation (Luo and Song 2020, https://doi.org/10.1111/rssb.12352): the loss of all records before a batch is
taken to be the parabola about the parameters so far whose curvature is that of the loss of those records; the sum of it
and of the loss of the batch is minimised, and the curvature of the batch is added. Three additions:

- A batch may say little in a direction, so before a parameter moves it has the curvature of one typical record.
- As parameters move, the curvature of the records before changes, half of it where the loss is added up between the
  two. A model that can tell from curvature where records lie says how (`Model.move_curvature`): where they are sorted,
  that of the batch changes otherwise. Else it is scaled as that of the batch changes. A record draws parameters to
  where it fits, and where curvature depends on how well it fits, as that of a robust loss does, this tells nothing of
  other records: so each record counts as far as the others move the parameters.
- Each batch tests what was believed before it: its gradient there, in units of its own error and that of the
  parameters. It also tells how far a parabola is from a loss like its own between the two minima, as where the first
  records can be separated and later ones not: then the loss of those that are gone is not known.

Guarantee: the table in docs/policies.md; held by tests/policies/test_descent.py and tests/policies/test_losses.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vestige.errors import DataError
from vestige.statistics.model import Model
from vestige.types import Floats

_ITERATIONS = 200
_SHORTENINGS = 300
_SMALL_SHORTENINGS = 20
_NEAR = 1e-7
"""An expected gain of the loss of a batch, in its own units of one half of a square, that ends the search."""
_RESCALINGS = 2
_MOST_RESCALING = 4.0
_MOST_PULL = 100.0
"""Of the pull of a record over the whole move: beyond it its loss changes so little that it tells nothing."""
_RESTARTS = 6
"""How often a first fit begins again where it ended, so that the place where it began has no part in it."""
_LEAST = 2.0**-40
"""Of a matrix whose diagonal is one: where its eigenvalues are less, nothing is known."""
_LEAST_SQUARE, _SMALLEST = 1e-200, 1e-300
_RANK = 1e-6
_FEWEST = 4
"""Records per parameter that test anything, where the error of a gradient is told by themselves."""


class Past(NamedTuple):
    """What is believed of the records before a batch.

    Attributes:
        parameters: where their loss is least; shape (size,).
        bend: the curvature of their whole loss there; shape (size, size).
        scatter: the sum of the squares of their gradients there; shape (size, size).
        total: what they count.
    """

    parameters: Floats
    bend: Floats
    scatter: Floats
    total: float


class Batch:
    """A batch of records, and the loss of it and of the records before.

    Args:
        model: the loss.
        values: the records; shape (n, columns).
        weights: what each counts; shape (n,).
        past: what is believed of the records before; None if there are none.
    """

    def __init__(self, model: Model, values: Floats, weights: Floats, past: Past | None) -> None:
        self.model, self.values, self.past = model, values, past
        self.total = float(weights.sum())
        self.parts = weights / self.total
        self.old = model.start if past is None else past.parameters
        self.gradients = self._check(model.gradients(self.old, values))
        self.bend = self.find_bend(self.old)
        self.one = find_typical(self.gradients, self.bend.diagonal() - self.total * model.penalty, self.total)
        held = np.zeros_like(self.bend) if past is None else past.bend
        self.held = held + np.diag(np.maximum(self.one - held.diagonal(), 0.0))

    def find_bend(self, at: Floats) -> Floats:
        """Find the curvature of the loss of the batch, with its share of the penalty.

        Args:
            at: the parameters; shape (size,).

        Returns:
            the matrix; shape (size, size).
        """
        return self.total * (self.model.curvature(at, self.values, self.parts) + np.diag(self.model.penalty))

    def minimise(self) -> tuple[Floats, Floats]:
        """Find the minimum.

        Returns:
            the parameters, shape (size,), and the curvature there of the loss of the records before and of the batch,
            shape (size, size).
        """
        if self.past is None:
            at = self._search(self.old, self.old, self.held)
            if self.model.is_likelihood:
                return at, self.held + self.find_bend(at)
            for _ in range(_RESTARTS):
                at = self._search(at, at, self.held)
            return at, self.find_bend(at)
        at, held = self.old, self.held
        for k in range(_RESCALINGS + 1):
            at = self._search(at, self.old, held)
            after = self.find_bend(at)
            held = self._move(at, after, held, 0.5 if k < _RESCALINGS else 1.0)
        return at, held + after

    def find_misfit(self, at: Floats, bend: Floats) -> float:
        """Find how far the parabola of the records before may mislead, if their loss is like that of the batch.

        Args:
            at: the parameters that `minimise` found; shape (size,).
            bend: the curvature there; shape (size, size).

        Returns:
            how far the minimum may be off, in standard errors.
        """
        assert self.past is not None  # noqa: S101  # its caller knows
        roots = np.sqrt((1.0 + self._find_change(self.find_bend(at))) / 2.0)
        moved = self.parts @ (self._check(self.model.gradients(at, self.values)) - self.gradients)
        moved += self.model.penalty * (at - self.old)
        apart = self.total * moved - (self.bend * np.outer(roots, roots)) @ (at - self.old)
        more = self.past.bend.diagonal() / np.maximum(np.abs(self.bend.diagonal()), _SMALLEST)
        apart *= np.minimum(more, self.past.total / self.total)
        square = float(apart @ solve(bend, apart))
        if not self.model.is_likelihood:
            scatter = self._find_scatter() + self.past.scatter
            size = float(np.mean(scatter.diagonal() / np.maximum(np.abs(bend.diagonal()), _SMALLEST)))
            # of rare events there may be too few for as many directions: then their average size tells
            square = min(square / max(size, _SMALLEST), float(apart @ solve(scatter, apart)))
        return float(np.sqrt(max(square, 0.0)))

    def test(self) -> Floats:
        """Test what was believed before the batch.

        Returns:
            how far the square of its gradient is from its mean, and its gradient along the parameters from zero, in
            standard deviations; shape (2,).
        """
        assert self.past is not None  # noqa: S101  # its caller knows
        count = len(self.old)
        if not self.model.is_likelihood and len(self.values) < _FEWEST * count:
            return np.zeros(2)
        gradient = self.total * (self.parts @ self.gradients + self.model.penalty * self.old)
        through = solve(self.held, self.bend)
        believed = through.T @ self.past.scatter @ through
        along = self.old - self.model.start
        found = _compare(gradient, along, self._find_scatter() + believed)
        # of rare events, one alone may be far more than is expected, and none far less: then it is neither
        expected = self.bend if self.model.is_likelihood else self.past.scatter * (self.total / self.past.total)
        other = _compare(gradient, along, expected + believed)
        return np.array([min(found[0], other[0]), min(found[1], other[1], key=abs)])

    def _search(self, at: Floats, middle: Floats, held: Floats) -> Floats:
        """The minimum of a parabola about `middle` and the loss of the batch, by Newton's method with short steps."""
        before = self._lose(at, middle, held)
        for _ in range(_ITERATIONS):
            slope = self.parts @ self.model.gradients(at, self.values) + self.model.penalty * at
            gradient = self._check(self.total * slope + held @ (at - middle))
            step = solve(self._check(self.find_bend(at) + held), gradient)
            if float(gradient @ step) <= _NEAR:
                return at - step if self._lose(at - step, middle, held) <= before else at
            for k in range(_SHORTENINGS):
                after = self._lose(at - step, middle, held)
                if after <= before:
                    break
                step = step / (2.0 if k < _SMALL_SHORTENINGS else 16.0)
            else:
                return at
            at, before = at - step, after
        return at

    def _find_scatter(self) -> Floats:
        """The sum of the squares of the gradients of the batch."""
        scatter: Floats = self.total * (self.gradients * self.parts[:, None]).T @ self.gradients
        return scatter

    def _find_pulled(self, at: Floats, bend: Floats) -> Floats:
        """How much more curvature the batch has in each direction because each record draws the parameters itself."""
        moves = self.gradients @ (at - self.old)
        pulls = -self.total * self.parts * (self.gradients * solve(bend, self.gradients.T).T).sum(axis=1)
        moved = np.abs(moves) * _MOST_PULL > np.abs(pulls)
        own = self.parts * np.divide(pulls, moves, out=np.zeros_like(moves), where=moved)
        after, before = (self.model.curvature(place, self.values, own) for place in (at, self.old))
        pulled: Floats = self.total * (after - before).diagonal()
        return pulled

    def _move(self, at: Floats, after: Floats, held: Floats, share: float) -> Floats:
        """The curvature of the records before, and of the one more, a share of the way from where it was to here."""
        assert self.past is not None  # noqa: S101  # its caller knows
        moved = self.model.move_curvature(self.past.bend, self.old, at)
        if moved is not None and np.isfinite(moved).all():
            there: Floats = self.held + share * (moved - self.past.bend)
            return there
        change = self._find_change(after, 0.0 if self.model.is_likelihood else self._find_pulled(at, after + held))
        roots = np.sqrt(1.0 + share * (change - 1.0))
        made: Floats = self.held * np.outer(roots, roots)
        return made

    def _find_change(self, after: Floats, pulled: Floats | float = 0.0) -> Floats:
        """How the curvature of the batch changes in each direction, without some of it, up to a limit."""
        known = np.maximum(self.one, _SMALLEST)
        change = (np.maximum(np.abs(after.diagonal()) - pulled, 0.0) + known) / (np.abs(self.bend.diagonal()) + known)
        found: Floats = np.clip(change, 1.0 / _MOST_RESCALING, _MOST_RESCALING)
        return found

    def _lose(self, at: Floats, middle: Floats, held: Floats) -> float:
        apart, model = at - middle, self.model
        loss = model.loss(at, self.values, self.parts) + 0.5 * float(model.penalty @ at**2)
        return self.total * loss + 0.5 * float(apart @ held @ apart)

    def _check(self, numbers: Floats) -> Floats:
        if not np.isfinite(numbers).all():
            raise DataError("the gradient is not finite on these records; scale the columns, or start nearer")
        return numbers


def find_typical(gradients: Floats, diagonal: Floats, total: float) -> Floats:
    """Find the average curvature of those records that say anything of a parameter.

    Args:
        gradients: of each record; shape (n, size).
        diagonal: of the curvature of all of them; shape (size,).
        total: what they count; each counts about the same.

    Returns:
        the curvature of one of them; shape (size,).
    """
    says = (gradients != 0.0).sum(axis=0) * total / len(gradients)
    found: Floats = np.where(says > 0.0, np.abs(diagonal) / np.maximum(says, _SMALLEST), 0.0)
    return found


def solve(bend: Floats, right: Floats) -> Floats:
    """Solve with a matrix of curvature, made positive, so that the solution leads downhill.

    Args:
        bend: shape (size, size).
        right: a vector, or several as columns; shape (size,) or (size, n).

    Returns:
        the inverse of the matrix times these.

    Example:
        >>> solve(np.array([[-2.0]]), np.array([1.0]))
        array([0.5])
    """
    lengths = np.sqrt(np.maximum(np.abs(bend.diagonal()), _LEAST_SQUARE))
    scaled = bend / np.outer(lengths, lengths)
    right = (right.T / lengths).T
    try:
        root = np.linalg.cholesky(scaled)
        if root.diagonal().min() > _LEAST:
            solved: Floats = (np.linalg.solve(root.T, np.linalg.solve(root, right)).T / lengths).T
            return solved
    except np.linalg.LinAlgError:
        pass
    sizes, axes = np.linalg.eigh(scaled)
    sizes = np.maximum(np.abs(sizes), _LEAST)
    made: Floats = ((axes @ ((axes.T @ right).T / sizes).T).T / lengths).T
    return made


def _compare(gradient: Floats, along: Floats, spread: Floats) -> Floats:
    """How far the square of a gradient is from its mean, and the gradient along a direction from zero."""
    lengths = np.sqrt(np.maximum(spread.diagonal(), 0.0))
    known = lengths > 0.0
    if not known.any() or not np.isfinite(spread).all():
        return np.zeros(2)
    lengths, spread, gradient, along = lengths[known], spread[np.ix_(known, known)], gradient[known], along[known]
    sizes, axes = np.linalg.eigh(spread / np.outer(lengths, lengths))
    scores, kept = axes.T @ (gradient / lengths), sizes > _RANK
    degrees = int(kept.sum())
    square = (float((scores[kept] ** 2 / sizes[kept]).sum()) - degrees) / float(np.sqrt(2.0 * degrees))
    width = float(along @ spread @ along)
    return np.array([square, float(gradient @ along) / np.sqrt(width) if width > 0.0 else 0.0])
