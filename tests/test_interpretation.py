"""A kernel that is interpreted does what the compiled one does, bit for bit, and a first run compiles very little."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vestige import (
    Covariance,
    KeyedStreams,
    LinearRegression,
    LogisticRegression,
    Mean,
    Moments,
    Policy,
    SqliteStore,
    Stream,
    Sum,
    open_store,
)
from vestige._numba import _Kernel, _make_plain, _to_python, limit_interpretation
from vestige.errors import NoAnswerError
from vestige.policies import ExactHistogram, Shares
from vestige.types import Floats

ROWS = 700
POLICIES: dict[str, Policy[Any]] = {
    "mean": Mean(),
    "means": Mean(3),
    "mean that decays": Mean(half_life=200.0),
    "average": Mean(2, channel="average"),
    "word": Mean(2, channel="bits"),
    "sum": Sum(),
    "moments": Moments(),
    "covariance": Covariance(2),
    "regression": LinearRegression(1),
    "classes": LogisticRegression(1),
    "state": ExactHistogram((0.0, 1.0)),
    "shares": Shares(("a", "b")),
}
DATA: dict[str, Callable[[np.random.Generator, tuple[int, int]], Floats]] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "cents": lambda rng, shape: np.round(rng.gamma(2.0, 10.0, shape), 2),
    "few values": lambda rng, shape: rng.integers(0, 2, shape).astype(np.float64),
    "alike": lambda _, shape: np.full(shape, 0.1),
    "drift": lambda rng, shape: np.sort(rng.normal(size=shape) ** 3, axis=0),
    "outliers": lambda rng, shape: np.exp(rng.normal(0.0, 10.0, shape)) * rng.choice([-1.0, 1.0], shape),
    "far from zero": lambda rng, shape: 1e15 + np.round(rng.normal(0.0, 40.0, shape)),
    "tiny": lambda rng, shape: rng.normal(size=shape) * 1e-300,
}


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Call it, and from then on all kernels that streams use are interpreted; what Python refuses is an error."""

    def call(self: _Kernel, *args: Any) -> Any:
        with np.errstate(all="ignore"):
            return _to_python(_make_plain(self.py_func)(*args))

    return lambda: monkeypatch.setattr(_Kernel, "__call__", call)


def keep(policy: Policy[Any], rows: Floats) -> tuple[object, ...]:
    """What a stream holds and answers after these rows, some of which are removed in between."""
    stream = Stream(policy, retention=2 * policy.min_batch + 40, notice=2 * policy.min_batch, seed=0)
    half = len(rows) // 2
    stream.extend(rows[:half])
    stream.forget(rounds=range(half - 60, half, 7))
    stream.extend(rows[half:])
    try:
        answer = repr(stream.estimate().to_dict())
    except NoAnswerError as problem:
        answer = str(problem)
    return stream.retained.rounds.tolist(), stream.retained.values.tobytes(), stream.clock, answer


PAIRS = [
    pytest.param(name, data, marks=() if (i + j) % 4 == 0 else pytest.mark.slow)
    for i, name in enumerate(POLICIES)
    for j, data in enumerate(DATA)
]


@pytest.mark.parametrize(("name", "data"), PAIRS)
def test_an_interpreted_stream_holds_the_same_records(name: str, data: str, interpreted: Callable[[], None]) -> None:
    policy = POLICIES[name]
    rows = DATA[data](np.random.default_rng(0), (ROWS, policy.columns))
    if name in {"classes", "shares"}:
        rows[:, -1] = rows[:, -1] > 0.0
    compiled = keep(policy, rows)
    interpreted()
    assert keep(policy, rows) == compiled


def _invert(numbers: Floats, inverses: Floats) -> float:
    for i in range(len(numbers)):
        inverses[i] = 1.0 / float(numbers[i])
    return float(inverses[0])


@pytest.fixture
def invert() -> _Kernel:
    """Not in the cache, since the cache of another run may hold it."""
    inverting = _Kernel(_invert, counts_references=True, can_interpret=True)  # type: ignore[arg-type]
    inverting._is_cached = False
    return inverting


@pytest.fixture
def limit() -> Iterator[Callable[[float], None]]:
    """Sets for how long kernels are interpreted, for one test."""
    yield limit_interpretation
    limit_interpretation(0.0)


def test_what_takes_little_time_is_interpreted_and_then_compiled(
    invert: _Kernel, limit: Callable[[float], None]
) -> None:
    limit(100.0)
    inverses = np.zeros(2)
    assert [invert(np.array([2.0, 4.0]), inverses) for _ in range(5)] == [0.5] * 5
    assert type(invert(np.array([2.0, 4.0]), inverses)) is float
    assert 0.0 < _Kernel.seconds_left < 100.0
    limit(1e-9)
    invert(np.array([2.0, 4.0]), inverses)
    assert not invert._is_compiled
    invert(np.array([2.0, 4.0]), inverses)
    assert invert._is_compiled


def test_where_one_kernel_is_compiled_all_are(invert: _Kernel, limit: Callable[[float], None]) -> None:
    """Or a small one beside it would be interpreted in each process, forever."""
    limit(100.0)
    other = _Kernel(_invert, counts_references=True, can_interpret=True)  # type: ignore[arg-type]
    other._is_cached = True
    other(np.ones(2), np.zeros(2))
    invert(np.ones(2), np.zeros(2))
    assert invert._is_compiled


def test_what_has_many_numbers_is_compiled_at_once(invert: _Kernel, limit: Callable[[float], None]) -> None:
    limit(100.0)
    invert(np.ones(10_000), np.zeros(10_000))
    assert not invert._is_compiled
    invert(np.ones(10_001), np.zeros(10_001))
    assert invert._is_compiled


def test_what_python_refuses_is_left_to_the_compiled_kernel(invert: _Kernel, limit: Callable[[float], None]) -> None:
    """Which finds its arrays as they were."""
    limit(100.0)
    inverses = np.array([7.0, 7.0])
    assert invert(np.array([2.0, 0.0]), inverses) == 0.5
    assert invert._is_compiled
    assert inverses.tolist() == [0.5, np.inf]


def test_a_first_run_on_a_small_file_compiles_nothing_but_its_coins(tmp_path: Path) -> None:
    rows = np.round(np.random.default_rng(0).gamma(2.0, 10.0, 1_000), 2)
    (tmp_path / "small.csv").write_text("amount\n" + "".join(f"{row}\n" for row in rows))
    run = [sys.executable, "-m", "vestige", "run", "small.csv", "--column", "amount", "--retention", "512"]
    done = subprocess.run(
        [*run, "--seed", "0", "--json"],
        cwd=tmp_path,
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels")},
        capture_output=True,
        text=True,
        check=True,
    )
    compiled = {path.name.split("-")[0] for path in tmp_path.rglob("*.nbc")}
    assert (done.stderr, compiled) == ("", {"kernels.derive_keys"})


def test_the_answer_of_one_stream_needs_no_numba(tmp_path: Path) -> None:
    """Which takes longer to import than the whole command takes, also where all kernels are in the cache."""
    with SqliteStore(tmp_path / "s.db") as store:
        for name, policy in POLICIES.items():
            rows = np.random.default_rng(0).integers(0, 2, (ROWS, policy.columns)).astype(np.float64)
            Stream(policy, retention=2 * policy.min_batch + 40, seed=0, store=store.stream(name)).extend(rows)
    program = (
        "import sys; from click.testing import CliRunner; from vestige.cli import command; "
        "done = CliRunner().invoke(command, ['estimate', 's.db', '--stream', sys.argv[1], '--format', 'json']); "
        "assert done.exit_code == 0, done.output; assert 'numba' not in sys.modules; print(done.stdout)"
    )
    for name in ("mean", "means", "word", "sum", "moments"):
        command = [sys.executable, "-c", program, name]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert name in done.stdout


def keep_keyed(path: Path, terms: dict[str, Any]) -> tuple[object, ...]:
    """What keyed streams hold and answer after some blocks, and the store that they are kept in."""
    rng, policy = np.random.default_rng(5), Mean(2, channel="bits")
    answers: list[object] = []
    for _ in range(3):
        with open_store(path) as store:
            keyed = KeyedStreams(policy, **terms, seed=1, store=store.family())
            for day in range(2):
                n = 60
                times = None
                if "max_age" in terms:
                    start = np.datetime64("2024-01-01", "us") + np.timedelta64(len(answers) + day, "D")
                    times = start + np.sort(rng.integers(0, 10**10, n)).astype("m8[us]")
                keys, rows = rng.integers(0, 4, n), 1e3 + rng.lognormal(size=(n, 2))
                keyed.take(keys, rows, times=times, subjects=rng.choice(["ada", "bob"], n), numbers=np.arange(1, n + 1))
                keyed.flush()
            keyed.forget(subject="ada", now=bool(rng.random() < 0.5))
            if times is not None:
                answers.append(keyed.sweep(times[-1] + np.timedelta64(3, "D")))
            answers.append([(key, keyed.clock(key), keyed.retained(key).values.tolist()) for key in keyed])
            answers.append(keyed.estimates().to_arrow().to_pylist())
            keyed.remove(next(iter(keyed)))
            with store._use() as tables:  # type: ignore[attr-defined]
                rows_stored = [(row.summary.streams, row.names) for row in tables.iterate_rows()]
            answers.append(rows_stored)
    return tuple(answers)


@pytest.mark.parametrize("terms", [{"retention": 100}, {"retention": 150, "max_age": timedelta(days=4)}])
def test_keyed_streams_are_the_same(terms: dict[str, Any], tmp_path: Path, interpreted: Callable[[], None]) -> None:
    compiled = keep_keyed(tmp_path / "a.db", terms)
    interpreted()
    assert repr(keep_keyed(tmp_path / "b.db", terms)) == repr(compiled)
