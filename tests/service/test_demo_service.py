"""The leak meter says what an independent computation over the whole file gives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from plain_feed import PlainFeed

from vestige import ParameterError, Private
from vestige.flights import read_flights
from vestige.service.demo import BATCH, BOUND, EPSILON, RETENTION, STREAMS, Demo
from vestige.service.shadow import Shadow
from vestige.types import Floats

T = 100 * BATCH + 17


@pytest.fixture(scope="module")
def delays() -> Floats:
    """The delays that the demo replays."""
    values: Floats = read_flights("tailnum", "origin", "dep_delay")["dep_delay"].to_numpy().astype(np.float64)
    return values


@pytest.fixture(scope="module")
def feed() -> PlainFeed:
    return PlainFeed()


@pytest.fixture(scope="module")
def demo(feed: PlainFeed) -> Demo:
    """A demo that has replayed some flights."""
    made = Demo(feed)
    made.send(T)
    return made


def measure(demo: Demo, watched: int) -> dict[str, dict[str, Any]]:
    demo.watch(watched)
    return {each["policy"]: each for each in demo.describe()["leak"]}


@pytest.mark.parametrize("watched", [1, 1000, T - RETENTION - 1])
def test_reconstruction_is_that_of_the_whole_file(demo: Demo, feed: PlainFeed, delays: Floats, watched: int) -> None:
    leak = measure(demo, watched)
    for policy, limit in (("mean", math.inf), ("private", BOUND)):
        made = feed.streams[STREAMS[policy]].estimate()
        known = np.clip(np.delete(delays[: made.as_of], watched - 1), -limit, limit)
        assert leak[policy]["raw"] == pytest.approx(made.as_of * float(made.value) - math.fsum(known), abs=1e-6)
    assert leak["mean"]["guess"] == pytest.approx(delays[watched - 1], abs=5 * leak["mean"]["spread"])
    assert leak["mean"]["spread"] < 0.1
    assert leak["mean"]["bits"] == pytest.approx(math.log2(delays[:T].std() / leak["mean"]["spread"]), abs=1e-6)


def test_window_says_nothing_once_the_record_has_left(demo: Demo, delays: Floats) -> None:
    window = measure(demo, T - RETENTION)["window"]
    assert (window["held"], window["raw"], window["bits"]) == (False, None, 0.0)
    assert window["guess"] == pytest.approx(delays[:T].mean())
    assert window["spread"] == pytest.approx(delays[:T].std())
    held = measure(demo, T)["window"]
    assert (held["held"], held["guess"]) == (True, delays[T - 1])


def test_private_hides_the_record_behind_its_noise(demo: Demo, feed: PlainFeed) -> None:
    leak = measure(demo, 1000)["private"]
    stream = feed.streams[STREAMS["private"]]
    policy = Private(bound=BOUND, epsilon=EPSILON, delta=1e-6)
    noise = stream.clock.last * float(policy.noise(stream.clock))
    spread = 1.0 / math.sqrt(1.0 / leak["spread"] ** 2 - 1.0 / demo.describe()["prior"]["deviation"] ** 2)
    assert spread == pytest.approx(noise, rel=0.4)  # 100 steps: a deviation of 7%, five of them and some room
    assert leak["bits"] < 0.01


def test_truth_is_that_of_all_flights(demo: Demo, delays: Floats) -> None:
    truth = demo.describe()["truth"]
    assert truth["count"] == T
    assert truth["mean"] == pytest.approx(delays[:T].mean())
    assert truth["standard_error"] == pytest.approx(delays[:T].std() / math.sqrt(T))
    assert demo.find_truth(7)["mean"] == pytest.approx(delays[:7].mean())


def test_trace_fades_as_records_arrive() -> None:
    made = Demo(PlainFeed())
    made.send(BATCH * 20)
    early = measure(made, 10)["mean"]["spread"]
    made.send(BATCH * 300)
    assert early < measure(made, 10)["mean"]["spread"] < 5.0


def test_replay_begins_anew_at_its_end() -> None:
    values = np.array([3.0, 5.0, 10.0])
    shadow, twice = Shadow(values), np.tile(values, 2)
    for t in range(1, 7):
        assert shadow.sum(t) == twice[:t].sum()
        assert shadow.deviation(t) == pytest.approx(twice[:t].std())
        assert shadow.value(t) == twice[t - 1]


def test_what_is_out_of_range_is_refused(demo: Demo) -> None:
    with pytest.raises(ParameterError, match=f"watch={T + 1} is not a round that has arrived; use 1 to {T}"):
        demo.watch(T + 1)
    with pytest.raises(ParameterError, match="rate=-1 is not from 0 to 2000"):
        demo.set_rate(-1)
