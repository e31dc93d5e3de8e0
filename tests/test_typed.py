"""Users' programs pass mypy --strict: the package is typed, and each stream knows the kind of its estimate."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "docs/policies.md", "docs/guides/start.md")

PROGRAM = '''
from dataclasses import dataclass
from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import vestige
from vestige import Batched, Clock, Estimate, LinearRegression, LogisticRegression, Mean, MeanEstimate, Moments
from vestige import Policy, Private, Records, Stream, Window


@dataclass(frozen=True)
class KeepNewest(Policy):
    """A policy of the user's own."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> NDArray[np.bool_]:
        newest = np.concatenate((retained.rounds, arrivals.rounds)) == clock.t
        return np.asarray(newest & ~np.concatenate((retained.leaving, arrivals.leaving)))

    def answer(self, clock: Clock, retained: Records) -> float:
        return float(retained.values.mean())


def describe(stream: Stream) -> str:
    estimate = stream.estimate()
    return f"{estimate.value} of {estimate.counted}, {estimate.notes}"


def main() -> None:
    mean = Stream(Mean(spread=True), retention=512, seed=0)
    assert_type(mean.estimate(), MeanEstimate)
    error = mean.estimate().standard_error
    print(None if error is None else np.sqrt(error), mean.estimate().oldest_age)
    print(Stream(Moments(), retention=512).estimate().standard_error * 2.0)
    fit = Stream(LinearRegression(2), retention=1024).estimate()
    print(fit.intercept, fit.standard_errors.round(2), fit.predict([1.0, 2.0]), fit.value.shape)
    print(Batched(LogisticRegression(1), batch=512).estimate().predict_proba([[1.0]]))
    print(Stream(Window(Moments()), retention=96).estimate().kurtosis)
    print(Stream(Private(Moments(), bound=9.0, epsilon=1.0, delta=1e-6), retention=512).estimate().variance)
    assert_type(Stream(KeepNewest(), retention=96).estimate(), Estimate)
    print(describe(mean), describe(Stream(KeepNewest(), retention=96)))
    try:
        mean.push("many")
    except vestige.DataError:
        pass
'''


def write_examples(page: str) -> str:
    """The Python examples of a page as one program."""
    examples = doctest.DocTestParser().get_examples((ROOT / page).read_text())
    return "".join(example.source for example in examples)


def test_strict_programs_pass(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    for page in PAGES:
        (tmp_path / f"{Path(page).stem.lower()}_page.py").write_text(write_examples(page))
    assert (ROOT / "src" / "vestige" / "py.typed").exists()
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *map(str, sorted(tmp_path.glob("*.py")))],
        cwd=ROOT,  # where what `make lint` found out is cached, about numpy above all
        env=os.environ | {"MYPYPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
