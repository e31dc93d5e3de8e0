"""What a stream takes, refuses and says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from vestige import Clock, Mean, Records, Stream, Window, paper
from vestige.errors import DataError, NoRecordsError, ParameterError
from vestige.row_numbers import find_rows, number_rows
from vestige.store import Position
from vestige.store.position import encode_count


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
        (["1.5"], "not a number"),
        ({"a": 1.0}, "not a number"),
        ("12", "not a number"),
        (5.0, "not a number"),
        ([1.0, [2.0, 3.0]], "not a number"),
        ([1.0 + 2.0j], "not a number"),
        (np.array(["2024-01-01", "NaT"], "datetime64[D]"), "not a number"),
        (np.ma.array([1.0, 2.0], mask=[False, True]), "row 1 of 2"),
        ([1.0, None], "row 1 of 2"),
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


@pytest.mark.parametrize("rows", [[], np.empty(0), np.empty((0, 2)), iter([])])
def test_nothing_may_arrive(rows: object) -> None:
    two = stream(2)
    two.extend(rows)  # type: ignore[arg-type]
    assert two.t == 0


@pytest.mark.parametrize(
    "rows",
    [
        range(1, 101),
        list(range(1, 101)),
        (float(i) for i in range(1, 101)),
        np.arange(1, 101, dtype=np.uint8),
        np.arange(200)[1::2] // 2 + 1,
        np.asfortranarray(np.arange(1.0, 101.0)[:, None]),
        [Fraction(i) for i in range(1, 101)],
    ],
)
def test_many_kinds_of_rows_are_numbers(rows: object) -> None:
    taken = stream()
    taken.extend(rows)  # type: ignore[arg-type]
    assert taken.estimate().value == pytest.approx(50.5)


def test_a_table_is_taken_by_its_values_not_its_labels() -> None:
    taken = stream(2)
    taken.extend(pd.DataFrame({0: [5.0, 6.0], 1: [7.0, 8.0]}))
    assert np.asarray(taken.estimate().value).tolist() == [5.5, 7.5]


def test_a_time_is_a_time() -> None:
    with pytest.raises(DataError, match="time is a str"):
        stream().push(1.0, time="2024-01-01")  # type: ignore[arg-type]


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
        ({}, "a stream needs a limit in rounds, which decides the size of a batch; pass retention="),
        ({"retention": 1}, "retention=1 is out of range; use a whole number, 2 or more"),
        ({"retention": 9.5}, "retention=9.5 is out of range"),
        ({"notice": True}, "notice=True is out of range"),
        ({"retention": 43}, r"retention=43 gives batches of 21, below the 22 .* use retention >= 44"),
        ({"retention": 96, "notice": 30}, r"notice=30 gives batches of 15, below the 22 .* use notice >= 44"),
        ({"retention": 96, "seed": "x"}, "seed='x' is out of range"),
        ({"retention": 96, "clock": Clock()}, "a restart needs both"),
        ({"retention": 96, "clock": Clock(t=50), "retained": Records.empty(1)}, "does not fit updates every 48 rounds"),
        ({"retention": 96, "clock": Clock(), "retained": Records.empty(2)}, "retained records have 2 values"),
        ({"retention": 96, "clock": Clock(), "retained": Records([1], [[0.0]])}, "reach round 1, after clock.t=0"),
    ],
)
def test_bad_parameters_are_refused(options: dict[str, object], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        Stream(Mean(), **options)  # type: ignore[arg-type]


def test_a_restart_needs_the_limits_that_the_stream_had() -> None:
    before = Stream(Mean(channel="bits"), retention=96, seed=0)
    before.extend(np.full(500, 5.0))
    with pytest.raises(ParameterError, match="restart with the policy and the limits that the stream had"):
        Stream(Mean(channel="bits"), retention=60, retained=before.retained, clock=before.clock)


def test_limits_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        stream().retention = 7  # type: ignore[misc]


def test_what_is_no_policy_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"is not a vestige\.Policy; pass an instance"):
        Stream(Mean, retention=96)  # type: ignore[arg-type]


def test_too_large_a_batch_is_refused() -> None:
    with pytest.raises(
        ParameterError, match=r"retention=120 gives batches of 60, above the 52 .* use retention <= 104"
    ):
        Stream(paper.SimpleMean(), retention=120)


def test_forgetting_marks_what_is_held() -> None:
    held = stream()
    held.extend(np.arange(60.0))
    held.forget(rounds=[55, 56])
    held.forget(rounds=[])
    assert held.retained.rounds[held.retained.leaving].tolist() == [55, 56]
    for rounds in ([61], [0], [1.5]):
        with pytest.raises(ParameterError, match="whole numbers from 1 to t=60"):
            held.forget(rounds=rounds)  # type: ignore[arg-type]


def test_a_printed_stream_shows_no_value() -> None:
    shown = stream()
    shown.push(0.123456)
    assert (
        repr(shown)
        == "<Stream of Mean(dim=1, channel='auto', half_life=None, tolerance=0.03, spread=False): t=1, 1 held>"
    )


def test_records_say_their_source_and_their_row_in_it() -> None:
    stream, rows = Stream(Mean(), retention=96, seed=0), np.random.default_rng(0).normal(size=400)
    stream.extend(rows[:100], source="a.csv", numbers=np.arange(1, 300, 3))
    held = stream.retained
    assert find_rows(held.numbers, 1).tolist() == [3 * r - 2 for r in held.rounds]
    assert stream.position("a.csv") == Position(encode_count(298), 1)
    stream.push(0.0)
    stream.extend([0.0])
    assert stream.retained.numbers[-2:].tolist() == [0, 0], "they are rows of no source"
    stream.extend(rows[100:110], source="a.csv")
    assert find_rows(stream.retained.numbers[-10:], 1).tolist() == list(range(299, 309)), "that follow the position"
    assert stream.position("a.csv") == Position(encode_count(308), 1)
    before = stream.retained.from_source(1)
    stream.extend(rows[110:120], source="b.csv")
    assert stream.retained.from_source(1) == before, "those of the other source are still known"
    assert find_rows(stream.retained.numbers[-10:], 2).tolist() == list(range(1, 11))
    stream.extend(rows[120:125], source="b.csv", numbers=np.arange(1, 6))
    assert stream.retained.from_source(2).numbers.tolist() == [1, 2, 3, 4, 5], "it is read from its start again"
    assert stream.retained.from_source(1) == before
    stream.restart_source("a.csv")
    assert (len(stream.retained.from_source(1)), stream.position("a.csv")) == (0, Position())
    stream.extend(rows[125:127], source="c.csv")
    assert stream.position("c.csv") == Position(encode_count(2), slot=1), "the smallest that is free"
    assert len(stream.retained.from_source(0)) == 0, "rows of no source"


def test_more_sources_than_slots_are_read_without_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vestige.stream.positions.LARGEST_SLOT", 1)
    stream = Stream(Mean(), retention=96, seed=0)
    for source in "ab":
        stream.extend([1.0, 2.0], source=source)
    assert (stream.position("a"), stream.position("b")) == (
        Position(encode_count(2), slot=1),
        Position(encode_count(2)),
    )
    assert stream.retained.numbers.tolist() == [*number_rows(np.array([1, 2]), 1), 0, 0]


def test_numbers_are_those_of_the_records_however_they_are_cut() -> None:
    rows, parts = np.random.default_rng(1).normal(size=500), [1, 47, 3, 96, 150, 203]
    whole, cut = (Stream(Mean(), retention=96, seed=0) for _ in range(2))
    whole.extend(rows, source="a")
    for part in np.split(rows, np.cumsum(parts)[:-1]):
        cut.extend(part, source="a")
    assert cut.retained == whole.retained
    assert (find_rows(whole.retained.numbers, 1) == whole.retained.rounds).all()


@pytest.mark.parametrize("numbers", [[2, 1], [0, 1], [1, 1], [1.0, 2.0]])
def test_numbers_that_are_none_are_refused(numbers: list[Any]) -> None:
    stream = Stream(Mean(), retention=96)
    with pytest.raises(ParameterError, match="numbers are not whole numbers from 1 up that increase"):
        stream.extend([1.0, 2.0], source="a", numbers=np.array(numbers))
    with pytest.raises(ParameterError, match="numbers are not whole numbers from 1 up that increase"):
        stream.extend([1.0, 2.0], source="a", numbers=np.array([2**60, 5], np.uint64))  # whose difference wraps around
    with pytest.raises(ParameterError, match="numbers end beyond row 281,474,976,710,655"):
        stream.extend([1.0], source="a", numbers=np.array([2**48]))
    assert stream.t == 0


def test_positions_are_kept_as_they_are() -> None:
    stream, ids = Stream(Mean(), retention=96, seed=0), [f"id {i}".encode() for i in range(150)]
    stream.extend(np.arange(150.0), source="queue", positions=ids)
    assert stream.position("queue") == Position(b"id 149", slot=1)
    assert not stream.retained.numbers.any(), "they are no row numbers"
    with pytest.raises(ParameterError, match="was read with positions of its own before"):
        stream.extend([1.0], source="queue")
    stream.move_source("queue", b"elsewhere")
    assert stream.position("queue").value == b"elsewhere"


def test_positions_that_are_none_are_refused() -> None:
    stream = Stream(Mean(), retention=96)
    with pytest.raises(ParameterError, match="a position is not bytes, or longer than 72"):
        stream.extend([1.0, 2.0], source="a", positions=[b"", bytes(73)])
    with pytest.raises(ParameterError, match="a position is not bytes, or longer than 72"):
        stream.extend([1.0], source="a", positions=["1"])  # type: ignore[list-item]
    with pytest.raises(DataError, match="one entry for each of 2 rows"):
        stream.extend([1.0, 2.0], source="a", positions=[b""])
    assert stream.t == 0
