"""Each verdict holds for what is on trial, and changes when something broken takes its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from vestige import paper, theory
from vestige.audit import epsilon_ceiling
from vestige.cli import command
from vestige.clock import Clock
from vestige.estimate import Estimate
from vestige.lab import EXPERIMENTS, Experiment, Results, significance
from vestige.lab.baselines import MEANS
from vestige.lab.experiment import CONSTANTS, HELD, REFUTED
from vestige.lab.experiments import batching, descent, groups, leakage, oracle, random_dp, regression, statistics
from vestige.lab.results import read_rows
from vestige.noise import gaussian_epsilon
from vestige.policies import LinearEstimate, LinearRegression, Mean, MeanEstimate, Private, Window
from vestige.records import Records
from vestige.types import Bools, Floats

Row = dict[str, Any]
WINDOW, AVERAGE = MEANS["window"], MEANS["Mean, average"]
BITS = leakage.PARTS["Mean, bits"]


def quick_rows(experiment: Experiment) -> list[Row]:
    """What a quick run measures."""
    points = experiment.points(quick=True)
    return [experiment.measure(point, 0, k) for point in points for k in range(experiment.quick_trials)]


def pushed_too_far(limit: float, *others: Any) -> Any:
    """An adversary who pushes a hundred times as hard as allowed."""
    return descent.push(100.0 * limit, *others)


def signs(rng: np.random.Generator, size: int) -> Any:
    """Numbers without a density: all subset sums are whole."""
    return rng.choice([-1.0, 1.0], size)


def one_sided(rng: np.random.Generator, *shape: int) -> Any:
    """Vectors that all lie on the other side of the target."""
    return -np.abs(rng.normal(size=shape))


def short_stream(policy: Any, retention: int, seed: int) -> Any:
    """A stream that holds records for less long than it says."""
    return batching.make_stream(policy, retention - 2, seed)


class Knowing(Window):
    """Knows the mean, which nobody can."""

    def __init__(self, dim: int) -> None:
        super().__init__(Mean(dim))

    def answer(self, clock: Clock, retained: Records) -> Estimate:  # noqa: ARG002
        return Estimate(np.zeros(self.columns))


def one_half(batch: int) -> Any:
    """Leaves nothing to chance."""
    return random_dp.list_halves(batch)[:1]


def spelled(averages: Floats, targets: Floats) -> Any:
    """Keeps a subset that spells the last digits of the target, as presence bits do."""
    return np.floor(1e6 * targets).astype(np.int64) % averages.shape[1]


def smallest(averages: Floats, targets: Floats) -> Any:
    """Keeps the same subset, whatever the target is."""
    return np.zeros((len(targets), len(averages)), np.int64)


class CoarseMean(Mean):
    """Answers in hundredths, as a word with too few bits would."""

    def answer(self, clock: Clock, retained: Records) -> MeanEstimate:
        found = super().answer(clock, retained)
        return replace(found, value=np.round(found.value, 2))


class HalfPublished(paper.CoordinateMean):
    """Makes use of every other pair of records only."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        half = (arrivals.rounds - clock.last) % 4 < 2
        return super().update(clock, retained, replace(arrivals, leaving=arrivals.leaving | half), coins)


class Squared(Mean):
    """Does all its work over again for each coordinate."""

    def update_many(self, clock: Clock, retained: Records, values: Floats, keys: Any) -> Bools:
        for _ in range(self.dim - 1):
            super().update_many(clock, retained, values, keys)
        return super().update_many(clock, retained, values, keys)


class FirstOutput(LinearRegression):
    """Answers every output by the coefficients of the first."""

    def __init__(self, dim: int, outputs: int) -> None:
        super().__init__(dim, intercept=False, outputs=outputs)

    def conclude(self, numbers: Floats, worth: float, rounding: float) -> LinearEstimate:
        found = super().conclude(numbers, worth, rounding)
        return replace(found, value=np.tile(np.asarray(found.value).reshape(self.outputs, -1)[0], (self.outputs, 1)))


class Weak(paper.Regression):
    """Algorithm 2 that reads a tenth too much."""

    def __init__(self, dim: int, outputs: int) -> None:  # noqa: ARG002
        super().__init__(dim)

    def answer(self, clock: Clock, retained: Records) -> Floats:
        return 1.1 * np.asarray(super().answer(clock, retained))


def windowed(make: Callable[[], Any]) -> Callable[[], Window]:
    return lambda: Window(make())


def coarse(channel: str) -> Callable[[int], Mean]:
    return lambda dim: CoarseMean(dim, channel)


def scaled(times: float) -> Callable[..., Any]:
    return lambda *xy: times * groups.estimate_groups(*xy)


def private(clipped: float, noise: float) -> Callable[[], Private]:
    """Clips at a multiple of the bound, and has this much of the noise that epsilon 1 needs: a larger epsilon."""
    mu = clipped / noise * Private(bound=1.0, epsilon=1.0, delta=leakage.DELTA).mu
    epsilon = gaussian_epsilon(mu, leakage.DELTA)
    return lambda: Private(bound=clipped * leakage.BOUND, epsilon=epsilon, delta=leakage.DELTA)


class Slackening(Private):
    """Right in its first batch, and then as another one."""

    then: Private

    def __init__(self, clipped: float, noise: float) -> None:
        super().__init__(bound=leakage.BOUND, epsilon=1.0, delta=leakage.DELTA)
        object.__setattr__(self, "then", private(clipped, noise)())

    def _advance(self, clock: Clock, *rest: Any) -> Bools:
        return self.then._advance(clock, *rest) if clock.encoded else super()._advance(clock, *rest)


BROKEN: dict[str, list[dict[str, Callable[..., Any]]]] = {
    "retention": [
        {"Mean, auto": WINDOW},
        {"window": AVERAGE},
        {"algorithm 1": Knowing},
    ],
    "length": [{"algorithm 1": WINDOW}, {"Mean, auto": WINDOW}],
    "required_batch": [
        {"Mean, average": WINDOW, "Mean, auto": WINDOW},
        {"coordinate-wise": WINDOW},
        {"Mean, auto": coarse("auto")},
        {"Mean, bits": coarse("bits")},
        {"coordinate-wise": HalfPublished},
    ],
    "oracle": [
        {"oracle": lambda x: oracle.find_nearest(x) / 1e4},
        {"oracle": lambda x: x.mean(axis=0) @ x.mean(axis=0)},
    ],
    "regression": [{"algorithm 2": regression.PARTS["window"]}],
    "descent": [{"push": pushed_too_far}, {"push": lambda *_: 0.0}],
    "subsets": [{"uniform": signs}, {"normal": one_sided}],
    "groups": [
        {"estimates": lambda *xy: np.sign(xy[1][:, 0])},
        {"estimates": lambda *xy: xy[1].mean(axis=1) / 9.0},
        {"estimates": scaled(1.1)},
        {"estimates": scaled(0.9)},
    ],
    "adversary": [
        {"Mean, auto": AVERAGE},
        {"Mean, average": MEANS["Mean, bits"]},
        {"oppose": lambda _, sizes: sizes * np.where(np.arange(len(sizes)) % 2, 1.0, -1.0)},
    ],
    "dimension": [{"coordinate-wise": WINDOW}, {"Mean, auto": Squared}],
    "outputs": [{"algorithm 2": Weak}, {"LinearRegression": FirstOutput}],
    "statistics": [{name: windowed(make)} for name, make in statistics.PARTS.items()],
    "density": [{"Mean, auto": AVERAGE}, {"Mean, average": WINDOW}],
    "drift": [{"Mean, auto": AVERAGE}, {"Mean, average": WINDOW}],
    "batching": [{"streamed": short_stream}],
    "outlier": [{"window": MEANS["Mean, auto"]}, {"algorithm 1": WINDOW}, {"Mean, auto": WINDOW}],
    "leakage": [
        {"window": BITS},
        {"Mean, bits": Window},
        {"Private, epsilon 1": private(clipped=10.0, noise=1.0)},
        {"Private, epsilon 1": lambda: Slackening(clipped=1.0, noise=0.85)},
    ],
    "random_dp": [{"halves": one_half, "nearest": spelled}, {"nearest": smallest}],
    "timing": [{"algorithm 1": WINDOW}, {"Mean, auto": MEANS["algorithm 1"]}],
    "long_lived_records": [{"window": MEANS["Mean, auto"]}, {"Mean, auto": WINDOW}],
}

ALIKE: dict[str, list[dict[str, Callable[..., Any]]]] = {
    "retention": [{"coordinate-wise": WINDOW}, {"algorithm 1": WINDOW}],
    "adversary": [{"Mean, bits": AVERAGE}, {"algorithm 1": MEANS["Mean, bits"]}],
    "density": [{"Mean, bits": AVERAGE}],
    "drift": [{"Mean, bits": AVERAGE}],
    "regression": [{"LinearRegression": regression.PARTS["window"]}],
    "leakage": [
        {"Private, epsilon 1": BITS},
        {"Private, epsilon 1": private(clipped=1.0, noise=0.85)},
        {"Private, epsilon 1": lambda: Slackening(clipped=10.0, noise=1.0)},
    ],
}
"""Parts with a fault that one above has too; they take long."""


LONG = ("outputs", "dimension", "timing", "retention", "leakage", "regression", "density", "batching")
"""Experiments whose quick mode takes some seconds: their verdicts are tried in the slow tests."""
TIMED = {"dimension": (1.0, 1.0), "timing": (0.9, 0.25)}
"""Experiments that measure time, and the powers with which it grows, of what is published and of ours."""


def concerned(experiment: Experiment, point: Any, broken: dict[str, Callable[..., Any]]) -> bool:
    """Whether a broken part has to do with a point: where parts are policies that points name, it is those points."""
    named = {known.get("policy") for known in experiment.grid} & set(broken)
    return not named or point["policy"] in named


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        *(
            pytest.param(name, BROKEN[name][:1], id=name, marks=[pytest.mark.slow(4)] if name in LONG else [])
            for name in EXPERIMENTS
        ),
        *(
            pytest.param(name, BROKEN[name][1:] + ALIKE.get(name, []), id=f"{name} again", marks=pytest.mark.slow(4))
            for name in EXPERIMENTS
        ),
    ],
)
def test_a_verdict_holds_and_changes_with_a_broken_part(name: str, parts: list[dict[str, Callable[..., Any]]]) -> None:
    experiment = EXPERIMENTS[name]
    rows = quick_rows(experiment)
    held = experiment.judge(Results.from_rows(rows))
    assert held.outcome in (HELD, CONSTANTS), held.reason
    for broken in parts:
        assert set(broken) <= set(experiment.parts)
        changed = replace(
            experiment,
            parts={**experiment.parts, **broken},
            grid=tuple(point for point in experiment.grid if concerned(experiment, point, broken)),
        )
        others = [row for row in rows if not concerned(experiment, row, broken)]
        found = experiment.judge(Results.from_rows(others + quick_rows(changed)))
        assert found.outcome == REFUTED, (sorted(broken), found.reason)


def made_up(experiment: Experiment, powers: tuple[float, float]) -> Experiment:
    """The experiment with times that grow by these powers, of the dimension or of the number of subsets."""
    policies = list(dict.fromkeys(point["policy"] for point in experiment.grid))

    def run(point: Any, rng: np.random.Generator, parts: Any) -> dict[str, float]:  # noqa: ARG001
        batch = theory.mean_retention(1, float(point["error"])) // 2 if "error" in point else 0
        size = 2.0 ** (batch / 2.0) if batch else float(point["dim"])
        seconds = size ** powers[policies.index(point["policy"])] * float(rng.uniform(0.9, 1.1))
        return {"seconds": seconds, "ratio": seconds, "batch": float(batch)}

    return replace(experiment, run_trial=run)


@pytest.mark.parametrize("name", TIMED)
def test_a_verdict_on_times_changes_with_the_power_by_which_they_grow(name: str) -> None:
    """The times themselves are measured in the slow tests, since other processes disturb them."""
    experiment, (published, ours) = EXPERIMENTS[name], TIMED[name]
    held = experiment.judge(Results.from_rows(quick_rows(made_up(experiment, (published, ours)))))
    assert held.outcome in (HELD, CONSTANTS), held.reason
    for powers in ((0.1, ours), (2.0, ours), (published, 2.0)):
        found = experiment.judge(Results.from_rows(quick_rows(made_up(experiment, powers))))
        assert found.outcome == REFUTED, (powers, found.reason)


@pytest.mark.parametrize("names", [("descent", "groups"), pytest.param(tuple(EXPERIMENTS), marks=pytest.mark.slow(40))])
def test_the_quick_mode(tmp_path: Path, names: tuple[str, ...]) -> None:
    """The command draws what the verdicts above were of, so that it says the same of all; a few show that it does."""
    done = CliRunner().invoke(command, ["lab", "run", *names, "--quick", "--jobs", "2", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    for name in names:
        assert f"{name}: held" in done.output
        drawn, experiment = read_rows(tmp_path / f"{name}.parquet"), EXPERIMENTS[name]
        assert len(drawn) == len(experiment.points(quick=True)) * experiment.quick_trials
        if name not in ("timing", "dimension"):  # which measure time
            measured = experiment.measure(experiment.points(quick=True)[0], 0, 0)
            assert repr(measured) in map(repr, drawn)  # some are nan, which equals nothing


def test_the_games_can_show_more_than_is_promised() -> None:
    for name, promised in leakage.PROMISES.items():
        shown = epsilon_ceiling(leakage.count_games(name), confidence=1.0 - significance.LEVEL, delta=leakage.DELTA)
        assert shown >= promised + leakage.MORE
