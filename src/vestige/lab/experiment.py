"""An experiment is a claim, a grid, a trial that is a pure function, a figure, and a verdict that could be negative.

The parts on trial are passed to each trial by name, so that a test can replace one by a broken part and see the verdict
change.
Guarantee: the same seed gives the same results, whatever was run before; held by tests/lab/test_runner.py.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from vestige.errors import ParameterError
from vestige.lab.results import Results
from vestige.lab.significance import Shown
from vestige.lab.submission import Contest, Submission
from vestige.random.generators import make_generator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Point = Mapping[str, str | int | float]
"""One point of a grid: parameters by name."""
Parts = Mapping[str, Callable[..., Any]]
"""The parts on trial, by the name of what each claims to be."""
RunTrial = Callable[[Point, np.random.Generator, Parts], Mapping[str, float]]
"""One trial: from a point, a random generator and the parts to measurements by name."""

HELD, REFUTED, CONSTANTS = "held", "refuted", "held with these constants"
NOT_SHOWN, INCOMPLETE = "not shown", "incomplete"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a claim held, and the measurements that say so.

    Attributes:
        outcome: `held`, `held with these constants` or `refuted`; `not shown` where these trials cannot decide, and
            `incomplete` where points of the grid are missing.
        reason: what was measured, in sentences.
        constants: measured values of constants that the paper leaves open.
    """

    outcome: str
    reason: str
    constants: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def from_checks(
        cls, checks: Mapping[str, Shown], reason: str, constants: Mapping[str, float] | None = None
    ) -> Verdict:
        """Decide by checks: the claim held if all of them did, and is refuted if one of them is.

        Args:
            checks: by the sentence that it checks, what the trials say of it: True if it held, False if it is refuted,
                None if they cannot decide.
            reason: what was measured, in sentences.
            constants: measured values of constants that the claim leaves open.

        Returns:
            The verdict; its reason begins with the checks that did not hold.

        Example:
            >>> Verdict.from_checks({"the error falls": False}, "It went from 1 to 2.").reason
            'Refuted: the error falls. It went from 1 to 2.'
            >>> Verdict.from_checks({"the error falls": None}, "It went from 1 to 0.9.").outcome
            'not shown'
        """
        refuted = [name for name, shown in checks.items() if shown is not None and not shown]
        undecided = [name for name, shown in checks.items() if shown is None]
        for outcome, names in ((NOT_SHOWN, undecided), (REFUTED, refuted)):
            if names:
                reason = f"{outcome.capitalize()}: {'; '.join(names)}. {reason}"
        if refuted or undecided:
            return cls(REFUTED if refuted else NOT_SHOWN, reason)
        return cls(CONSTANTS, reason, constants) if constants else cls(HELD, reason)


@dataclass(frozen=True)
class Experiment:
    """A claim and how it is tested.

    Attributes:
        name: name on the command line.
        claim: the claim, one sentence.
        source: where the paper states it; or that it is ours.
        grid: the points where it is tested; all have the same parameters.
        run_trial: measures one trial at a point, with the given parts.
        draw_figure: draws the results.
        find_verdict: computes the verdict from the results.
        parts: the parts on trial, by name.
        trials: number of trials at each point.
        quick: selects the points of a quick run.
        quick_trials: number of trials at each point of a quick run; with fewer, a claim is neither held nor refuted.
        trial_unit: what one trial consists of, where it is more than one stream.
        contest: how policies from elsewhere are tried beside those of the grid; None where they cannot be.
        submission: the policy from elsewhere that all points of the grid are of; None for those of the experiment.
    """

    name: str
    claim: str
    source: str
    grid: tuple[Point, ...]
    run_trial: RunTrial
    draw_figure: Callable[[Results, Figure], None]
    find_verdict: Callable[[Results], Verdict]
    parts: Parts
    trials: int
    quick: Callable[[Point], bool]
    quick_trials: int
    trial_unit: str = ""
    contest: Contest | None = None
    submission: Submission | None = None

    def submit(self, submission: Submission) -> Experiment:
        """Put a policy from elsewhere in the place of those of the grid, over the same random numbers.

        Args:
            submission: the policy.

        Returns:
            The experiment with this policy alone. Its results are kept in a file of their own, and are shown and judged
            together with those of the experiment.

        Raises:
            ParameterError: the experiment does not compare policies, one of them has this name, or this one cannot
                enter.

        Example:
            >>> from vestige import Mean
            >>> from vestige.lab import EXPERIMENTS, Submission
            >>> mine = EXPERIMENTS["retention"].submit(Submission.from_policy(Mean(tolerance=1.0), "coarse"))
            >>> mine.points(quick=True)
            ({'policy': 'coarse', 'retention': 128}, {'policy': 'coarse', 'retention': 256})
        """
        if self.contest is None:
            raise ParameterError(f"{self.name} takes no policies from elsewhere")
        name = submission.name
        if name in self.parts:
            raise ParameterError(f"{self.name} has a policy {name} of its own; use another name")
        quick = [_leave_out_policy(point) for point in self.points(quick=True)]
        return replace(
            self,
            grid=tuple({"policy": name, **place} for place in self.contest.find_places(submission)),
            parts={**self.parts, name: submission},
            quick=lambda point: _leave_out_policy(point) in quick,
            submission=submission,
        )

    @property
    def file_name(self) -> str:
        """Name of the file of its results."""
        if self.submission is None:
            return f"{self.name}.parquet"
        return f"{self.name}.{self.submission.name}.{self.submission.digest[:8]}.parquet"

    def points(self, *, quick: bool) -> tuple[Point, ...]:
        """List the points of a run.

        Args:
            quick: whether the run is quick.

        Returns:
            The grid, or the part of it that a quick run takes.

        Example:
            >>> from vestige.lab import EXPERIMENTS
            >>> len(EXPERIMENTS["descent"].points(quick=False)), len(EXPERIMENTS["descent"].points(quick=True))
            (28, 12)
        """
        return tuple(point for point in self.grid if not quick or self.quick(point))

    def measure(self, point: Point, seed: int, number: int) -> dict[str, Any]:
        """Run one trial. Trials of one number use the same random numbers at each point, so that points compare.

        Args:
            point: a point of the grid.
            seed: seed of the run.
            number: number of the trial.

        Returns:
            One row of results: the point, the number of the trial, and the measurements.

        Raises:
            CheckError: a policy from elsewhere failed.

        Example:
            >>> from vestige.lab import EXPERIMENTS
            >>> row = EXPERIMENTS["descent"].measure({"adversary": "none", "steps": 1}, seed=0, number=3)
            >>> sorted(row)
            ['adversary', 'distance', 'gradient', 'steps', 'trial']
        """
        rng = make_generator(seed, self.name, number)
        try:
            measured = self.run_trial(point, rng, self.parts)
        except Exception as problem:
            if self.submission is None:
                raise
            place = ", ".join(f"{name} {value}" for name, value in _leave_out_policy(point).items())
            where = ", ".join(filter(None, (self.name, place, f"trial {number}")))
            raise self.submission.explain_failure(problem, where) from None
        return {**point, "trial": number, **measured}

    def judge(self, results: Results) -> Verdict:
        """Compute the verdict.

        Args:
            results: all trials.

        Returns:
            The verdict. It is `incomplete` unless each point of a quick run has at least two trials, and `not shown`
            if one of these points has fewer trials than a quick run.

        Example:
            >>> from vestige.lab import EXPERIMENTS
            >>> EXPERIMENTS["descent"].judge(Results.from_rows([])).outcome
            'incomplete'
        """
        points = self.points(quick=True)
        counts = [len(results.where(**point)) if len(results) else 0 for point in points]
        fewest = min(counts)
        label = ", ".join(f"{name} {value}" for name, value in points[counts.index(fewest)].items())
        if fewest < 2:
            return Verdict(INCOMPLETE, f"There are {fewest} trials at {label}; run the experiment to its end.")
        verdict = self.find_verdict(results)
        if fewest < self.quick_trials:
            few = f"{fewest} trials at {label} are too few to decide; use at least {self.quick_trials}."
            return Verdict(NOT_SHOWN, f"{few} {verdict.reason}")
        return verdict

    @property
    def digest(self) -> str:
        """Digest of the experiment's file and grid; results with another digest are of another experiment."""
        code = inspect.getsource(inspect.getmodule(self.run_trial) or self.run_trial)
        points = json.dumps([dict(point) for point in self.grid])
        made = "" if self.submission is None else self.submission.digest
        return hashlib.sha256((code + points + made).encode()).hexdigest()[:16]


def _leave_out_policy(point: Point) -> dict[str, str | int | float]:
    return {name: value for name, value in point.items() if name != "policy"}


def grid(**parameters: Iterable[str | int | float]) -> tuple[Point, ...]:
    """Combine all values of all parameters.

    Args:
        **parameters: the values of each parameter.

    Returns:
        One point for each combination.

    Example:
        >>> grid(policy=["window"], retention=[8, 16])
        ({'policy': 'window', 'retention': 8}, {'policy': 'window', 'retention': 16})
    """
    return tuple(dict(zip(parameters, values, strict=True)) for values in product(*parameters.values()))
