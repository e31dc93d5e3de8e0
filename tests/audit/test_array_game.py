"""Trials in array form are those of streams, bit for bit, and their bounds hold where the truth is known."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np
import pytest

from vestige import Mean, Private
from vestige.audit import ArrayGame, cuda
from vestige.audit import array_kernels as kernels
from vestige.errors import MissingExtraError, ParameterError
from vestige.policy import Policy
from vestige.random.keys import draw

PRIVATE = Private(bound=1.0, epsilon=1.0, delta=1e-6)
GAMES = {
    "mean": ArrayGame(Mean(channel="bits"), retention=56, t=140, alternative=4.0, target=3, seed=5),
    "mean, smallest batch": ArrayGame(Mean(channel="bits"), retention=44, t=66, alternative=-1e6, target=44),
    "mean, largest word": ArrayGame(Mean(channel="bits"), retention=160, t=400, null=1e-9, target=80, seed=1),
    "private": ArrayGame(PRIVATE, retention=128, t=320, null=-1.0, target=3, seed=5),
    "private, few bits": ArrayGame(PRIVATE, retention=36, t=90, null=5.0, seed=2),
    "private, known records": ArrayGame(
        Private(bound=0.1, epsilon=0.5, delta=1e-5), retention=80, t=160, others=np.linspace(-1.0, 1.0, 160)
    ),
}


@pytest.mark.parametrize("name", GAMES)
def test_answers_are_those_of_streams(name: str) -> None:
    game = GAMES[name]
    for is_alternative in (False, True):
        answers = game.play(range(3, 13), is_alternative=is_alternative)
        for trial, answer in zip(range(3, 13), answers, strict=True):
            stream = game.make_stream(trial)
            stream.extend(game.make_records(trial, is_alternative=is_alternative))
            assert game.target not in stream.retained.rounds
            assert stream.estimate().value == answer


@pytest.mark.parametrize("blocks", [1, 2, 7])
def test_coins_are_those_of_shake_256(blocks: int) -> None:
    state, words = np.zeros(kernels.STATE + 5, np.uint64), np.zeros(blocks * kernels.RATE, np.uint64)
    kernels.absorb(np.uint64(7), state)
    kernels.squeeze(state, words, 0, len(words))
    key = np.array([draw(7, i) for i in range(4)], np.uint64)
    assert words.tobytes() == hashlib.shake_256(key.tobytes()).digest(8 * len(words))


def test_a_trial_depends_on_its_number_alone() -> None:
    for game in GAMES.values():
        together = game.play(range(50), is_alternative=True)
        apart = [game.play(range(n, n + 1), is_alternative=True)[0] for n in range(50)]
        assert together.tolist() == apart
        assert len(set(apart)) > 1


@dataclass(frozen=True)
class Weak(Private):
    """A broken copy with half of the noise that it promises."""

    @property
    def scale(self) -> float:
        return 0.5 * super().scale


def test_bounds_are_below_the_truth_and_refute_a_broken_copy() -> None:
    """The noise of two batches is in the first answer after the erasure, so mu is that of one over sqrt(2).

    At a confidence of 1 - 1e-6 a bound is wrong with a chance of at most 1e-6. Near the middle a rate of n trials has a
    standard error of 0.5 / sqrt(n), which moves mu by sqrt(2 pi) times as much: five of them lie between each rate and
    its bound, and as many for chance between both rates and the truth.
    """
    honest = ArrayGame(PRIVATE, retention=128, t=128, null=-1.0)
    true = PRIVATE.mu / np.sqrt(2.0)
    bounds = honest.bound(400_000, delta=1e-6, confidence=1.0 - 1e-6)
    error = np.sqrt(2.0 * np.pi) * 0.5 / np.sqrt(bounds.trials)
    assert true - 5.0 * (2.0 + np.sqrt(2.0)) * error < bounds.mu < true
    assert 0.0 < bounds.epsilon < 1.0
    weak = replace(honest, policy=Weak(bound=1.0, epsilon=1.0, delta=1e-6))
    assert weak.bound(400_000, delta=1e-6, confidence=1.0 - 1e-6).mu > PRIVATE.mu


def test_a_mean_reaches_the_ceiling() -> None:
    game = ArrayGame(Mean(channel="bits"), retention=56, t=56, alternative=1e6)
    bounds = game.bound(20_000)
    assert bounds.epsilon == bounds.epsilon_ceiling
    assert (bounds.true_positives, bounds.false_positives) == ((20_000, 20_000), (0, 0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"policy": Mean()}, "has no array form; use Mean"),
        ({"policy": Mean(2, channel="bits")}, "has no array form"),
        ({"policy": Private(bounds=[1.0], epsilon=1.0, delta=1e-6)}, "has no array form"),
        ({"retention": 43}, "retention=43 is out of range"),
        ({"retention": 57}, "do not end with an update"),
        ({"t": 141}, "do not end with an update"),
        ({"target": 113}, "target=113"),
        ({"null": np.inf}, "null=inf"),
        ({"others": np.zeros(140)}, "others is for Private"),
    ],
)
def test_what_cannot_be_played_is_refused(arguments: dict[str, object], message: str) -> None:
    usual: dict[str, object] = {"policy": Mean(channel="bits"), "retention": 56, "t": 140}
    with pytest.raises(ParameterError, match=message):
        ArrayGame(**{**usual, **arguments})  # type: ignore[arg-type]


def test_wrong_calls_are_refused() -> None:
    game = GAMES["mean"]
    with pytest.raises(ParameterError, match="range of trials"):
        game.play(range(0, 10, 2), is_alternative=True)
    with pytest.raises(ParameterError, match="trials=0"):
        game.bound(0)
    assert isinstance(game.policy, Policy)


def has_device() -> bool:
    try:
        cuda.find_device()
    except (MissingExtraError, ParameterError):
        return False
    return True


def test_without_a_gpu_the_error_says_what_to_do() -> None:
    if has_device():
        pytest.skip("there is a GPU")
    with pytest.raises((ParameterError, MissingExtraError), match="accelerator=True"):
        GAMES["mean"].play(range(1), is_alternative=True, accelerator=True)


@pytest.mark.filterwarnings("ignore:Grid size")  # so few trials do not fill a GPU
@pytest.mark.parametrize("name", GAMES)
def test_answers_of_a_gpu_are_those_of_the_processor(name: str) -> None:
    if not has_device():
        pytest.skip("no GPU of NVIDIA with numba-cuda was found")
    game = GAMES[name]
    there = game.play(range(100_000), is_alternative=True, accelerator=True)
    assert np.array_equal(there, game.play(range(100_000), is_alternative=True))
