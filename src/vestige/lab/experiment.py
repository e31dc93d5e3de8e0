"""An experiment is a claim, a grid, a trial that is a pure function, a figure, and a verdict that could be no.

What is on trial is handed to the trial by name (`parts`), so that a test can put something broken in its place and see
the verdict change.
Guarantee: the same seed gives the same results, whatever was run before; held by tests/lab/test_runner.py.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from vestige.lab.results import Results
from vestige.random.generators import make_generator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Point = Mapping[str, str | int | float]
"""One place of a grid: parameters by name."""
Parts = Mapping[str, Callable[..., Any]]
"""What is on trial, by the name that it claims to be."""
Trial = Callable[[Point, np.random.Generator, Parts], Mapping[str, float]]

HELD, NOT, CONSTANTS = "held", "did not hold", "held with these constants"
UNFINISHED = "not tried enough"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a claim held, and the figures that say so.

    Attributes:
        outcome: `held`, `did not hold` or `held with these constants`; or `not tried enough`, where points are missing.
        because: what was measured, in sentences.
        constants: those that the paper leaves open, as measured.
    """

    outcome: str
    because: str
    constants: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, checks: Mapping[str, bool], because: str, constants: Mapping[str, float] | None = None) -> Verdict:
        """Held if all checks did; else it says which did not.

        Args:
            checks: by what each of them says.
            because: what was measured.
            constants: where the claim leaves constants open, the measured ones.

        >>> Verdict.of({"the error falls": False}, "It went from 1 to 2.").because
        'Not so: the error falls. It went from 1 to 2.'
        """
        failed = [name for name, held in checks.items() if not held]
        if failed:
            return cls(NOT, f"Not so: {'; '.join(failed)}. {because}")
        return cls(CONSTANTS, because, constants) if constants else cls(HELD, because)


@dataclass(frozen=True)
class Experiment:
    """What is claimed, and how it is tried.

    Attributes:
        name: for the command line.
        claim: a sentence.
        source: where the paper says so, or that it is ours.
        grid: where it is tried; all points have the same parameters.
        trial: what is measured in one trial at a point, with the parts that are given.
        figure: draws the results.
        verdict: judges them.
        parts: what is on trial, by name.
        trials: at each point.
        quick: which points a quick run takes.
        quick_trials: at each of them.
        each: what one trial is, where it is more than one draw.
    """

    name: str
    claim: str
    source: str
    grid: tuple[Point, ...]
    trial: Trial
    figure: Callable[[Results, Figure], None]
    verdict: Callable[[Results], Verdict]
    parts: Parts
    trials: int
    quick: Callable[[Point], bool]
    quick_trials: int
    each: str = ""

    def points(self, *, quick: bool) -> tuple[Point, ...]:
        """The grid, or what a quick run takes of it."""
        return tuple(point for point in self.grid if not quick or self.quick(point))

    def measured(self, point: Point, seed: int, number: int) -> dict[str, Any]:
        """One row of results; trials of the same number have the same draws at each point, so that they compare."""
        rng = make_generator(seed, self.name, number)
        return {**point, "trial": number, **self.trial(point, rng, self.parts)}

    def judged(self, results: Results) -> Verdict:
        """The verdict, once each point of a quick run has been tried twice at least."""
        for point in self.points(quick=True):
            tried = len(results.where(**point)) if len(results) else 0
            if tried < 2:
                said = ", ".join(f"{name} {value}" for name, value in point.items())
                return Verdict(UNFINISHED, f"There are {tried} trials at {said}; run the experiment to its end.")
        return self.verdict(results)

    @property
    def digest(self) -> str:
        """Of the file that the experiment is in, and of its grid: results of another are not of this one."""
        code = inspect.getsource(inspect.getmodule(self.trial) or self.trial)
        places = json.dumps([dict(point) for point in self.grid])
        return hashlib.sha256((code + places).encode()).hexdigest()[:16]


def grid(**parameters: Iterable[str | int | float]) -> tuple[Point, ...]:
    """All combinations.

    >>> grid(policy=["window"], retention=[8, 16])
    ({'policy': 'window', 'retention': 8}, {'policy': 'window', 'retention': 16})
    """
    return tuple(dict(zip(parameters, values, strict=True)) for values in product(*parameters.values()))
