"""How an adversary tells the worlds apart: a score of what he sees, learned on trials that are not counted.

Two kinds of sight are tried, and the better one on those trials is kept: the answer, and the pattern of which rounds
are present. Whatever the score, the bounds hold; a cleverer one could only show more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vestige.audit.bounds import best_threshold, called, mu_lower_bound
from vestige.audit.game import Seen
from vestige.types import Bools, Floats

SIGHTS = ("answer", "presence")


@dataclass(frozen=True, slots=True, eq=False)
class Distinguisher:
    """A score for one look, and the thresholds from which on it says "second world".

    Attributes:
        look: at which of the looks.
        sight: `answer` or `presence`.
        blank: what stands for an answer that is not seen.
        direction: what the answer is multiplied with, or the log-likelihood ratio of each round's presence.
        threshold: where the second world begins, to show epsilon.
        middle: the same to show mu and the total variation.
    """

    look: int
    sight: str
    blank: Floats
    direction: Floats
    threshold: float
    middle: float

    def scores(self, seen: Seen) -> Floats:
        """How much what is seen in each trial looks like the second world."""
        made: Floats = _shown(seen, self.look, self.sight, self.blank) @ self.direction
        return made

    def calls(self, seen: Seen, *, middle: bool = False) -> Bools:
        """Which trials are called the second world."""
        return called(self.scores(seen), self.middle if middle else self.threshold)


def _shown(seen: Seen, look: int, sight: str, blank: Floats) -> Floats:
    if sight == "presence":
        return np.unpackbits(seen.present[:, look], axis=1).astype(np.float64)
    answers = seen.answers[:, look]
    return np.where(np.isnan(answers), blank, answers)


def learned(first: Seen, second: Seen, look: int, confidence: float, delta: float) -> Distinguisher:
    """The teller that does best on these trials, of which one half teaches scores and the other judges them."""
    taught, judged = ([seen.where(slice(k, None, 2)) for seen in (first, second)] for k in range(2))
    tellers = [_taught(taught, judged, look, sight, confidence, delta) for sight in SIGHTS]

    def shown(teller: Distinguisher) -> float:
        fp, tp = (int(teller.calls(seen, middle=True).sum()) for seen in judged)
        return mu_lower_bound(tp, len(judged[1]) - tp, fp, len(judged[0]) - fp, confidence=confidence)

    return max(tellers, key=shown)


def _taught(
    taught: list[Seen], judged: list[Seen], look: int, sight: str, confidence: float, delta: float
) -> Distinguisher:
    answers = np.concatenate([seen.answers[:, look] for seen in taught])
    seen_at_all = ~np.isnan(answers)
    blank = np.where(seen_at_all, answers, 0.0).sum(axis=0) / np.maximum(seen_at_all.sum(axis=0), 1)
    shown = [_shown(seen, look, sight, blank) for seen in taught]
    direction = _between_answers(*shown) if sight == "answer" else _between_patterns(*shown)
    rough = Distinguisher(look, sight, blank, direction, 0.0, 0.0)
    scores = [rough.scores(seen) for seen in judged]
    threshold, middle = (
        best_threshold(*scores, confidence=confidence, delta=delta, middle=middle) for middle in (False, True)
    )
    return Distinguisher(look, sight, blank, direction, threshold, middle)


def _between_answers(first: Floats, second: Floats) -> Floats:
    """Fisher's direction between the answers, each number on its own."""
    spread = np.sqrt((first.var(axis=0) + second.var(axis=0)) / 2.0)
    least = np.finfo(np.float64).eps * np.maximum(np.abs(first).max(axis=0), np.abs(second).max(axis=0)) + 1e-150
    direction: Floats = (second.mean(axis=0) - first.mean(axis=0)) / np.maximum(spread, least) ** 2
    size = np.abs(direction).max()
    return direction / size if size > 0.0 and np.isfinite(size) else np.ones_like(direction)


def _between_patterns(first: Floats, second: Floats) -> Floats:
    """The log-likelihood ratio of each round's presence, as if they were independent."""
    rates = [(shown.sum(axis=0) + 0.5) / (len(shown) + 1.0) for shown in (first, second)]
    made: Floats = np.log(rates[1] / rates[0]) - np.log((1.0 - rates[1]) / (1.0 - rates[0]))
    return made
