"""Version 1 of the word is read as the code that wrote it did: it said this of masks of all kinds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vestige import Clock, Records
from vestige.channels import Channel, FixedPoint, Reading, find_channel, version1
from vestige.statistics import Mean, Products, Statistic
from vestige.types import Bools, Floats

CASES = json.loads((Path(__file__).with_name("fixtures") / "version1.json").read_text())


def make_numbers(size: int) -> Statistic:
    """A statistic of this size, up to 3, that is not the mean of the values."""
    return Products(3, ((0, 1), (0, 2), (1, 2))[:size], centred=False)


@pytest.mark.parametrize("case", CASES)
def test_every_mask_is_read_as_it_was(case: dict[str, Any]) -> None:
    """All kinds of controls, words that are turned, that repeat and that mean zero where they are kept."""
    size, rounds = len(case["numbers"]), np.flatnonzero(np.array(list(case["present"])) == "1")
    values = [[float(37 * slot + 11 * i) % 101.0 / 10.0 for i in range(size)] for slot in rounds.tolist()]
    clock = Clock(t=1_000, first=201, last=200 + len(case["present"]), word=1)
    held = Records(np.r_[3, 201 + rounds, 999], np.array([[-50.0] * size, *values, [70.0] * size]))
    channels = [find_channel(case["channel"])] if case["channel"] else [FixedPoint(8.0), find_channel("bits")]
    for channel in channels:
        reading = version1.read(channel, held, clock, Mean(size) if case["channel"] else make_numbers(size))
        assert reading.numbers.tolist() == case["numbers"]
        assert reading.off.tolist() == case["off"]


def test_cases_are_of_every_kind() -> None:
    kinds = {(case["channel"], off, case["present"][-1]) for case in CASES for off in case["off"]}
    assert {(channel, off) for channel, off, _ in kinds} == {
        (None, False),
        *((channel, off) for channel in ("average", "bits", "auto") for off in (False, True)),
    }
    assert {(None, False, "0"), (None, False, "1")} <= kinds


def test_nothing_left_is_a_number_lost() -> None:
    clock = Clock(t=100, first=1, last=64, word=1)
    for channel, statistic in ((find_channel("auto"), Mean(1)), (find_channel("bits"), make_numbers(2))):
        reading = version1.read(channel, Records.empty(3), clock, statistic)
        assert np.isnan(reading.numbers).all()
        assert not reading.off.any()


def test_a_channel_from_outside_reads_what_it_wrote() -> None:
    def count(_channel: Channel, _values: Floats, present: Bools, *_: object) -> Reading:
        return Reading(np.array([float(present.sum())]), np.zeros(1, np.bool_))

    others = dict.fromkeys(("find_min_batch", "write", "can_encode"))
    own = type("Own", (Channel,), {"read_slots": count, **others})()
    held, clock = Records([1, 2, 5], [[1.0], [2.0], [3.0]]), Clock(t=8, first=1, last=8, word=1)
    assert version1.read(own, held, clock, Mean(1)).numbers.tolist() == [3.0]
    assert not version1.has_words(own, make_numbers(1))
