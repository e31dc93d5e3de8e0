"""Trials are played in several processes from a plain script, a notebook and standard input, with the same result."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from vestige import Window
from vestige.audit import measure_leakage, workers
from vestige.errors import MissingExtraError, ParameterError
from vestige.types import Floats

SCRIPT = """
from dataclasses import dataclass
import numpy as np
from vestige import Policy
from vestige.audit import measure_leakage

@dataclass(frozen=True)
class Mine(Policy):
    def update(self, clock, retained, arrivals, coins):
        return ~np.concatenate((retained.leaving, arrivals.leaving))
    def answer(self, clock, retained):
        return float(retained.values.mean())

game = dict(retention=8, t=24, trials=200, data=lambda rng, n: rng.exponential(size=n))
alone = measure_leakage(Mine(), **game, workers=1)
print(measure_leakage(Mine(), **game) == alone, measure_leakage(Mine(), **game, workers=2) == alone)
"""
CELL = "import sys; exec(sys.stdin.read(), vars(sys.modules['__main__']))"
LOCK = threading.Lock()


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["script.py"], id="script"),
        pytest.param(["-c", CELL], id="notebook", marks=pytest.mark.slow),
        pytest.param(["-"], id="stdin", marks=pytest.mark.slow),  # has no file either
    ],
)
def test_a_program_without_a_guard_audits_a_policy_of_its_own(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, *arguments], input=SCRIPT, capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert (done.stdout, done.stderr) == ("True True\n", "")


def test_what_cannot_be_pickled_is_refused() -> None:
    def draw(rng: np.random.Generator, n: int, lock: object = LOCK) -> Floats:  # noqa: ARG001
        return rng.normal(size=n)

    with pytest.raises(ParameterError, match="policy or data cannot be sent to other processes; pass workers=1"):
        measure_leakage(Window(), retention=8, t=24, trials=200, data=draw, workers=2)


def test_without_joblib_one_process_runs_the_trials_and_warns_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = measure_leakage(Window(), retention=8, t=24, trials=200, workers=1)
    monkeypatch.setitem(sys.modules, "joblib", None)
    workers._warn_of_one_process.cache_clear()
    with caplog.at_level(logging.WARNING, "vestige"):
        assert measure_leakage(Window(), retention=8, t=24, trials=200) == expected
        assert measure_leakage(Window(), retention=8, t=24, trials=200) == expected
    assert [record.getMessage() for record in caplog.records] == [
        "vestige: trials run in one process; for one process on each core: pip install 'vestige[audit]'"
    ]
    with pytest.raises(MissingExtraError, match=r"workers=2 needs the 'audit' extra"):
        measure_leakage(Window(), retention=8, t=24, trials=200, workers=2)
