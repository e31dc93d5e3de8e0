"""What an answer advises after a restart or a miss: something that helps the statistic at hand."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from vestige import Bundle, Distinct, Mean, Quantiles, Stream, TopK
from vestige.cli.answers import StreamAnswer
from vestige.policies import distinct

AGE = timedelta(days=1)
TIMES = (np.arange(400) * 3_600_000_000).astype(np.int64).view("datetime64[us]")


@pytest.mark.parametrize("several", [False, True])
def test_a_sketch_that_missed_needs_no_more_retention_but_more_room(
    monkeypatch: pytest.MonkeyPatch, several: bool
) -> None:
    """Where its bits are too few, it starts over and says so; of several metrics, only it has missed."""
    monkeypatch.setattr(distinct, "_SPARE", -30)
    policy = Bundle({"visitor": [Mean(), Distinct(64)]}) if several else Distinct(64)
    stream: Stream = Stream(policy, retention=policy.default_retention, seed=0)
    stream.extend(np.floor(np.arange(20_000) / 40.0))
    answer = StreamAnswer.from_stream(stream, ("visitor",))
    assert (answer.missed, answer.all_time) == (True, False)
    assert answer.remedies == (
        "a larger sketch, such as distinct[4096], holds more; what it has missed does not come back",
    )
    assert answer.estimate is not None
    assert any("outgrew" in note for note in answer.estimate.notes)


def test_a_sketch_that_starts_over_for_lack_of_records_may_be_smaller() -> None:
    for policy in (Quantiles((0.5,)), Bundle({"amount": [Mean(), TopK(3)]})):
        stream: Stream = Stream(policy, max_age=AGE, seed=0)
        stream.extend(np.arange(400.0), times=TIMES)
        remedies = StreamAnswer.from_stream(stream, ("amount",)).remedies
        assert "a smaller sketch, such as p50[size=20] or distinct[256], needs fewer records in each update" in remedies
    stream = Stream(Mean(), max_age=AGE / 4, seed=0)
    stream.extend(np.arange(400.0), times=TIMES)
    assert StreamAnswer.from_stream(stream, ("amount",)).remedies == (
        "a longer --max-age or fewer keys leave more records to each update",
    )
