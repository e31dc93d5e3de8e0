"""`vestige serve --demo`: the flights of New York are replayed into a store, beside a shadow that knows them all.

Four definitions take the same flights: `delay` (`Mean`), `delay-window` (`Window`), `delay-private` (`Private`) and
`delay-by-airport`. The person to be removed is an aeroplane, by its tail number. What only the shadow knows is labelled
so on the page; the store and the ordinary routes know nothing of it.
Guarantee: what the leak meter says is what an independent computation over the file gives; held by
tests/service/test_demo_service.py.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np

from vestige.errors import ParameterError
from vestige.flights import read_flights
from vestige.service.problems import RefusalError
from vestige.service.shadow import Error, Shadow, combine

RETENTION = 128
BATCH = RETENTION // 2
BOUND = 120.0
EPSILON = 1.0
RATES = (0, 32, 2_000)
"""Flights a second that the page offers; any number up to the last may be asked for."""
STREAMS = {"mean": "delay", "window": "delay-window", "private": "delay-private", "keys": "delay-by-airport"}
_COLUMN, _SUBJECT = "dep_delay", "tailnum"
_SHARED = {"statistic": "mean", "columns": [_COLUMN], "subject": _SUBJECT, "retention": RETENTION}
DEFINITIONS: tuple[dict[str, Any], ...] = (
    _SHARED | {"name": STREAMS["mean"], "channel": "bits", "standard_error": True},
    _SHARED | {"name": STREAMS["window"], "window": True},
    _SHARED | {"name": STREAMS["private"], "epsilon": EPSILON, "delta": 1e-6, "bounds": [f"{_COLUMN}={BOUND:g}"]},
    _SHARED | {"name": STREAMS["keys"], "by": ["origin"]},
)
_WARM = 64 * BATCH
"""Flights that are taken at once, so that there is something to see."""
_SHOWN = 120
"""Updates whose answers are remembered for the chart."""
_log = logging.getLogger("vestige.service")


class Feed(Protocol):
    """What the demo needs of a service."""

    def define(self, definition: Mapping[str, Any]) -> None:
        """Create a stream unless it exists."""

    def take(self, names: Collection[str], rows: Any) -> None:
        """Take the rows of a pyarrow table into streams; they are flushed when this returns."""

    def estimate(self, name: str) -> Mapping[str, Any] | None:
        """Answer of a stream without keys, as the service gives it; None before the first record."""

    def list_rounds(self, name: str) -> Collection[int]:
        """List the rounds of the records that a stream without keys holds."""


class Demo:
    """A replay into a service, with the shadow truth and the leak meter.

    Args:
        feed: the service.
        rate: flights a second at first; default: the slow one of `RATES`.

    Example:
        >>> sorted(STREAMS)
        ['keys', 'mean', 'private', 'window']
    """

    def __init__(self, feed: Feed, rate: int | None = None) -> None:
        self._feed = feed
        self._flights = read_flights(_SUBJECT, "origin", _COLUMN)
        self._subjects = self._flights[_SUBJECT].to_numpy()
        values = self._flights[_COLUMN].to_numpy().astype(np.float64)
        self._shadows = {"mean": Shadow(values), "private": Shadow(np.clip(values, -BOUND, BOUND))}
        self._errors = {name: Error() for name in self._shadows}
        self._rate = RATES[1] if rate is None else rate
        self._watched: int | None = None
        self._history: deque[dict[str, float]] = deque(maxlen=_SHOWN)
        self._lock = threading.RLock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo", daemon=True)
        for definition in DEFINITIONS:
            feed.define(definition)
        found = feed.estimate(STREAMS["mean"])
        self._t = 0 if found is None else int(found["t"])

    def start(self) -> None:
        """Take flights in a thread of its own, the first of them at once."""
        self._thread.start()

    def stop(self) -> None:
        """End the replay."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def step(self) -> None:
        """Send flights until the next batch is full."""
        with self._lock:
            self.send(BATCH - self._t % BATCH)

    def send(self, number: int) -> None:
        """Send flights into all streams, a batch at a time.

        Args:
            number: how many.
        """
        end = self._t + number
        while not self._stopped.is_set():
            with self._lock:
                if self._t >= end:
                    return
                start = self._t % len(self._flights)
                rows = self._flights.slice(start, min(BATCH - self._t % BATCH, end - self._t))
                self._feed.take(STREAMS.values(), rows)
                self._t += rows.num_rows
                self._follow()

    def watch(self, round_: int | None) -> None:
        """Choose the record that the leak meter shows.

        Args:
            round_: its round; None for a great delay among those that were erased last.

        Raises:
            ParameterError: no such record has arrived.
        """
        with self._lock:
            if round_ is None:
                round_ = self._choose(range(self._t - RETENTION - BATCH, self._t - RETENTION + 1))
            if not 1 <= round_ <= self._t:
                raise ParameterError(f"watch={round_} is not a round that has arrived; use 1 to {self._t}")
            self._watched = round_

    def watch_subject(self, subject: str) -> None:
        """Choose the newest record of an aeroplane for the leak meter.

        Args:
            subject: its tail number.

        Raises:
            ParameterError: no record of it has arrived.
        """
        with self._lock:
            size = len(self._flights)
            found = np.flatnonzero(self._subjects == subject) + 1
            passes, rest = divmod(self._t, size)
            arrived = [*(found[found <= rest] + passes * size), *(found[found > rest] + (passes - 1) * size)]
            if not arrived or max(arrived) < 1:
                raise ParameterError("subject is not an aeroplane of which a flight has arrived; use another one")
            self._watched = int(max(arrived))

    def _choose(self, rounds: Iterable[int]) -> int:
        """The round of a great delay that the private stream does not cut, among some."""
        value = self._shadows["mean"].value
        arrived = [round_ for round_ in rounds if round_ >= 1] or [1]
        return max(arrived, key=lambda round_: (value(round_) <= BOUND, value(round_)))

    def set_rate(self, rate: int) -> None:
        """Set the speed of the replay.

        Args:
            rate: flights a second; 0 pauses.

        Raises:
            ParameterError: it is negative or above the limit.
        """
        if not 0 <= rate <= RATES[-1]:
            raise ParameterError(f"rate={rate} is not from 0 to {RATES[-1]}; use one of {RATES}")
        self._rate = rate

    def describe(self) -> dict[str, Any]:
        """Describe the replay, the shadow truth and the leak meter as plain data.

        Returns:
            What `GET /v1/demo` answers.
        """
        with self._lock:
            t, watched = max(1, self._t), self._watched
            deviation, truth = self._shadows["mean"].deviation(t), self._find_truth(t)
            return {
                "shadow": "This answer holds what no store has; it exists in the demo only.",
                "rate": self._rate,
                "rates": RATES,
                "t": self._t,
                "streams": STREAMS,
                "unit": "min",
                "record": "flight",
                "quantity": "average departure delay",
                "epsilon": EPSILON,
                "truth": truth,
                "prior": {"mean": truth["mean"], "deviation": deviation},
                "candidate": self._name(self._choose(sorted(self._feed.list_rounds(STREAMS["mean"]))[-BATCH:])),
                "watched": None if watched is None else self._name(watched),
                "leak": [] if watched is None else [self._measure(policy, watched) for policy in list(STREAMS)[:3]],
            }

    def find_truth(self, t: int) -> dict[str, float]:
        """Find the shadow truth of a moment, for an answer of that moment.

        Args:
            t: number of flights that had arrived.

        Returns:
            What `GET /v1/demo/truth` answers.

        Raises:
            ParameterError: so many have not arrived.
        """
        with self._lock:
            if not 1 <= t <= self._t:
                raise ParameterError(f"t={t} is not a number of flights that have arrived; use 1 to {self._t}")
            return self._find_truth(t)

    def _find_truth(self, t: int) -> dict[str, float]:
        shadow = self._shadows["mean"]
        return {"mean": shadow.mean(t), "standard_error": shadow.deviation(t) / np.sqrt(t), "count": t}

    def list_answers(self) -> list[dict[str, float]]:
        """List the answers after the last updates, for a chart that begins before the page was opened.

        Returns:
            What `GET /v1/demo/history` answers.
        """
        with self._lock:
            return list(self._history)

    def _name(self, round_: int) -> dict[str, Any]:
        """A record by its round, whom it is about, and its value, which the shadow alone knows."""
        subject = str(self._subjects[(round_ - 1) % len(self._flights)])
        return {"round": round_, "subject": subject, "value": self._shadows["mean"].value(round_)}

    def _measure(self, policy: str, watched: int) -> dict[str, Any]:
        """What one stream says about a record: it holds it, or its answer counts it, or neither."""
        found = self._ask(policy) or {"answers": [{"value": 0.0}], "count": 0, "since": self._t + 1, "as_of": 0}
        held = watched in self._feed.list_rounds(STREAMS[policy])
        truth = self._shadows["mean"]
        mean, deviation = truth.mean(self._t), truth.deviation(self._t)
        answer = float(found["answers"][0]["value"])
        if held:
            guess = combine(truth.value(watched), 0.0, mean, deviation)
        elif policy == "window" or not found["since"] <= watched <= found["as_of"]:
            guess = combine(None, 0.0, mean, deviation)
        else:
            others = self._sum(policy, found) - self._shadows[policy].value(watched)
            guess = combine(found["count"] * answer - others, self._errors[policy].spread, mean, deviation)
        return {"policy": policy, "held": held, "error": answer - mean, **asdict(guess)}

    def _ask(self, policy: str) -> Mapping[str, Any] | None:
        """What one stream answers; None as long as it has no answer."""
        found = self._feed.estimate(STREAMS[policy])
        return found if found is not None and found["answers"] else None

    def _sum(self, policy: str, found: Mapping[str, Any]) -> float:
        """The sum of the records that an answer counts."""
        shadow, last = self._shadows[policy], int(found["as_of"])
        return shadow.sum(last) - shadow.sum(last - int(found["count"]))

    def _follow(self) -> None:
        """Follow the errors of what the streams hold, a step for each batch."""
        self._remember()
        for policy, error in self._errors.items():
            found = self._ask(policy)
            if found is not None:
                said = int(found["count"]) * float(found["answers"][0]["value"])
                error.follow(int(found["since"]), said - self._sum(policy, found))

    def _remember(self) -> None:
        """Note the answers of the moment beside the truth."""
        found = {policy: self._ask(policy) for policy in ("mean", "window")}
        values = {policy: each["answers"][0]["value"] for policy, each in found.items() if each is not None}
        if len(values) == len(found) and self._t % BATCH == 0:
            point = {"t": self._t, "answer": values["mean"], "window": values["window"]}
            self._history.append(point | {"truth": self._shadows["mean"].mean(self._t)})

    def _run(self) -> None:
        try:
            self._replay()
        except RefusalError as refusal:
            if not self._stopped.is_set():
                _log.error("the replay ended: %s", refusal)

    def _replay(self) -> None:
        """Send flights at the rate that is set, in small portions."""
        if self._t < _WARM:
            self.send(_WARM - self._t)
        self.watch(None)
        pause = 0.25
        while not self._stopped.wait(pause):
            if self._rate:
                began = time.monotonic()
                self.send(max(1, round(self._rate * 0.25)))
                pause = max(0.02, 0.25 - (time.monotonic() - began))
