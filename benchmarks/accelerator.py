"""The audit game in array form: a GPU beside all cores of the processor, and what so many trials show.

    python benchmarks/accelerator.py [TRIALS]

It needs a GPU of NVIDIA and `pip install 'vestige[cuda]'`, so that it is not a part of `make bench`. The answers of
both are compared bit for bit.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, replace

from vestige import Mean, Private
from vestige.audit import ArrayGame

COMPARED = 2_000_000
DELTA = 1e-6


@dataclass(frozen=True)
class Weak(Private):
    """A broken copy: 0.6 of the noise that it promises."""

    @property
    def scale(self) -> float:
        """The deviation of the noise, too small."""
        return 0.6 * super().scale


PROMISED = Private(bound=1.0, epsilon=1.0, delta=DELTA)
GAMES = {
    "Private, epsilon 1": ArrayGame(PROMISED, retention=128, t=128, null=-1.0),
    "the same with 0.6 of its noise": ArrayGame(
        Weak(bound=1.0, epsilon=1.0, delta=DELTA), retention=128, t=128, null=-1.0
    ),
    "Mean in bits, 20 among uniform": ArrayGame(Mean(channel="bits"), retention=56, t=112, alternative=20.0),
}


def main() -> None:
    """Print the speed of both, then the bounds."""
    most = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10**8
    print(f"{os.cpu_count()} cores beside one GPU")
    for name, game in GAMES.items():
        measure(name, game)
    print(f"\n{'game':32} {'trials':>13} {'epsilon':>8} {'ceiling':>8} {'mu':>7} {'seconds':>8}")
    for name, game in GAMES.items():
        trials = 10_000
        while trials <= most:
            started = time.perf_counter()
            delta = DELTA if isinstance(game.policy, Private) else 0.0
            bounds = replace(game, seed=1).bound(trials, delta=delta, accelerator=True)
            spent = time.perf_counter() - started
            shown = f"{bounds.epsilon:8.4f} {bounds.epsilon_ceiling:8.3f} {bounds.mu:7.4f} {spent:8.2f}"
            print(f"{name:32} {trials:13,} {shown}")
            trials *= 10
    two = f"two batches are noised: {PROMISED.mu / 2**0.5:.4f}"
    print(f"promised: epsilon 1 at delta {DELTA:g}, mu {PROMISED.mu:.4f}; {two}")


def measure(name: str, game: ArrayGame) -> None:
    """Compare answers and speed."""
    trials, seconds, answers = range(COMPARED), {}, {}
    for accelerator in (True, False):
        game.play(range(1_000), is_alternative=True, accelerator=accelerator)  # compiles
        started = time.perf_counter()
        answers[accelerator] = game.play(trials, is_alternative=True, accelerator=accelerator)
        seconds[accelerator] = time.perf_counter() - started
    differ = int((answers[True] != answers[False]).sum())
    speeds = [COMPARED / seconds[accelerator] / 1e6 for accelerator in (True, False)]
    print(
        f"{name:32} GPU {speeds[0]:6.1f}, cores {speeds[1]:6.2f} million trials/s: ratio {speeds[0] / speeds[1]:.1f}; "
        f"{differ} of {COMPARED:,} answers differ"
    )


if __name__ == "__main__":
    main()
