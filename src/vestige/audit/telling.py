"""How an adversary tells the worlds apart: a score of what he sees, learned on trials that are not counted.

Two kinds of sight are tried, and the better one on those trials is kept: the answer, and the pattern of which rounds
are present. Whatever the score, the bounds hold; a cleverer one could only show more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vestige.audit.estimating import best_threshold, called, epsilon_lower_bound
from vestige.audit.playing import Seen
from vestige.records import Bools, Floats


@dataclass(frozen=True, slots=True, eq=False)
class Teller:
    """A score for one look, and the threshold from which on it says "second world".

    Attributes:
        sight: `answer` or `presence`.
        direction: what the answer is multiplied with, or the log-likelihood ratio of each round's presence.
        offset: what is added.
        threshold: where the second world begins.
    """

    sight: str
    direction: Floats
    offset: float
    threshold: float

    def scores(self, seen: Seen, look: int) -> Floats:
        """How much what is seen in each trial looks like the second world."""
        shown = seen.answers[:, look] if self.sight == "answer" else seen.present[:, look].astype(np.float64)
        made: Floats = np.nan_to_num(shown, nan=0.0) @ self.direction + self.offset
        return made

    def calls(self, seen: Seen, look: int) -> Bools:
        """Which trials are called the second world."""
        return called(self.scores(seen, look), self.threshold)


def learned(first: Seen, second: Seen, look: int, confidence: float, delta: float) -> Teller:
    """The teller that does best on these trials, of which one half teaches scores and the other judges them."""
    halves = [(_part(first, k), _part(second, k)) for k in range(2)]
    best, most = None, -1.0
    for sight in ("answer", "presence"):
        direction, offset = _answers(*halves[0], look) if sight == "answer" else _presence(*halves[0], look)
        rough = Teller(sight, direction, offset, 0.0)
        scores = [rough.scores(half, look) for half in halves[1]]
        threshold = best_threshold(*scores, confidence=confidence, delta=delta)
        teller = Teller(sight, direction, offset, threshold)
        tp, fp = int(teller.calls(halves[1][1], look).sum()), int(teller.calls(halves[1][0], look).sum())
        n = len(halves[1][0].values)
        shown = epsilon_lower_bound(tp, n - tp, fp, n - fp, confidence=confidence, delta=delta)
        if shown > most:
            best, most = teller, shown
    assert best is not None  # noqa: S101  # a bound is never below 0
    return best


def _part(seen: Seen, which: int) -> Seen:
    return Seen(seen.answers[which::2], seen.present[which::2], seen.values[which::2])


def _answers(first: Seen, second: Seen, look: int) -> tuple[Floats, float]:
    """Fisher's direction between the answers, each number on its own."""
    a, b = (np.nan_to_num(seen.answers[:, look], nan=0.0) for seen in (first, second))
    spread = np.sqrt((a.var(axis=0) + b.var(axis=0)) / 2.0)
    least = np.finfo(np.float64).eps * np.maximum(np.abs(a).max(axis=0), np.abs(b).max(axis=0)) + 1e-150
    direction = (b.mean(axis=0) - a.mean(axis=0)) / np.maximum(spread, least) ** 2
    size = np.abs(direction).max()
    direction = direction / size if size > 0.0 and np.isfinite(size) else np.ones_like(direction)
    return direction, -float((a.mean(axis=0) + b.mean(axis=0)) @ direction / 2.0)


def _presence(first: Seen, second: Seen, look: int) -> tuple[Floats, float]:
    """The log-likelihood ratio of each round's presence, as if they were independent."""
    rates = [(seen.present[:, look].sum(axis=0) + 0.5) / (len(seen.values) + 1.0) for seen in (first, second)]
    kept = np.log(rates[1]) - np.log(rates[0])
    dropped = np.log1p(-rates[1]) - np.log1p(-rates[0])
    return kept - dropped, float(dropped.sum())
