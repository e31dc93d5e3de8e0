"""What a stream takes, refuses and says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest

from vestige import Clock, Mean, Records, Stream, Window, paper
from vestige.errors import DataError, NoRecordsError, ParameterError


def stream(dim: int = 1) -> Stream:
    return Stream(Mean(dim=dim), retention=96 * dim, seed=0)


def test_an_estimate_says_how_much_it_rests_on() -> None:
    window = Stream(Window(), retention=10)
    window.extend(np.arange(25.0))
    estimate = window.estimate()
    assert (estimate.value, estimate.t, estimate.held, estimate.oldest_age, estimate.notes) == (19.5, 25, 10, 9, ())
    with pytest.raises(AttributeError):
        estimate.value = 0.0  # type: ignore[misc]


def test_several_dimensions_answer_a_read_only_array() -> None:
    two = stream(2)
    two.push([1.0, 2.0])
    value = two.estimate().value
    assert isinstance(value, np.ndarray)
    assert value.tolist() == [1.0, 2.0]
    assert not value.flags.writeable


def test_before_any_record_there_is_no_answer() -> None:
    with pytest.raises(NoRecordsError, match="no record has arrived yet"):
        stream().estimate()


def test_one_record_is_its_own_mean() -> None:
    one = stream()
    one.push(3.25)
    assert one.estimate().value == 3.25


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([1.0, np.nan, 2.0], "row 1 of 3, column 0, is missing, infinite or beyond 1e.300"),
        ([1.0, np.inf], "row 1 of 2"),
        ([1e301], "row 0 of 1"),
        (np.zeros((3, 2)), r"rows have shape \(3, 2\); the policy takes records of 1 values"),
        (np.zeros((3, 1, 1)), "shape"),
        (["a"], "not a number"),
    ],
)
def test_bad_rows_are_refused_whole(rows: object, text: str) -> None:
    taken = stream()
    taken.push(1.0)
    with pytest.raises(DataError, match=text):
        taken.extend(rows)  # type: ignore[arg-type]
    assert taken.t == 1


def test_no_error_shows_a_value() -> None:
    with pytest.raises(DataError) as caught:
        stream().extend([1.0, 123456.789, np.nan])
    assert "123456" not in str(caught.value)


def test_push_refuses_the_wrong_width() -> None:
    with pytest.raises(DataError, match="records of 2 values"):
        stream(2).push(1.0)


def test_an_empty_extend_changes_nothing() -> None:
    empty = stream()
    empty.extend([])
    assert empty.t == 0


def test_one_time_and_subject_per_row() -> None:
    with pytest.raises(DataError, match="subjects has 1 entries for 2 rows"):
        stream().extend([1.0, 2.0], subjects=["a"])


def test_times_are_kept_in_utc() -> None:
    zoned = stream()
    zoned.push(1.0, time=datetime(2024, 5, 1, 12, tzinfo=timezone(timedelta(hours=2))), subject="s")
    zoned.push(1.0, time=datetime(2024, 5, 1, 10, tzinfo=UTC))
    zoned.push(1.0)
    first, second, third = zoned.retained.times
    assert first == second == np.datetime64("2024-05-01T10:00")
    assert np.isnat(third)
    assert zoned.retained.subjects.tolist() == ["s", None, None]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "a stream needs a limit; pass retention="),
        ({"retention": 1}, "retention=1 is no number of rounds"),
        ({"retention": 9.5}, "retention=9.5 is no number of rounds"),
        ({"notice": True}, "notice=True is no number of rounds"),
        ({"retention": 47}, r"retention=47 gives batches of 23, below the 24 .* use retention >= 48"),
        ({"retention": 96, "notice": 40}, r"notice=40 gives batches of 20, below the 24 .* use notice >= 48"),
        ({"retention": 96, "seed": "x"}, "seed='x' is no whole number"),
        ({"retention": 96, "clock": Clock()}, "a restart needs both"),
        ({"retention": 96, "clock": Clock(t=50), "retained": Records.none(1)}, "50 records after its batch"),
        ({"retention": 96, "clock": Clock(), "retained": Records.none(2)}, "retained records have 2 values"),
        ({"retention": 96, "clock": Clock(), "retained": Records([1], [[0.0]])}, "reach round 1, after clock.t=0"),
    ],
)
def test_bad_parameters_are_refused(options: dict[str, object], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        Stream(Mean(), **options)  # type: ignore[arg-type]


def test_what_is_no_policy_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"is no vestige\.Policy; pass an instance"):
        Stream(Mean, retention=96)  # type: ignore[arg-type]


def test_too_large_a_batch_is_refused() -> None:
    with pytest.raises(
        ParameterError, match=r"retention=120 gives batches of 60, above the 52 .* use retention <= 104"
    ):
        Stream(paper.SimpleMean(), retention=120)


def test_forgetting_says_how_many_are_held() -> None:
    held = stream()
    held.extend(np.arange(60.0))
    assert held.forget(rounds=[55, 56]) == 2
    assert held.forget(rounds=[]) == 0
    for rounds in ([61], [0], [1.5]):
        with pytest.raises(ParameterError, match="whole numbers from 1 to t=60"):
            held.forget(rounds=rounds)  # type: ignore[arg-type]


def test_a_printed_stream_shows_no_value() -> None:
    shown = stream()
    shown.push(0.123456)
    assert repr(shown) == "<Stream of Mean(dim=1, channel='auto'): t=1, 1 held>"
