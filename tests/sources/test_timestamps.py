"""What a time column says: dates, Unix times in every unit, zones, and what is refused."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import pytest

from vestige.errors import SourceError
from vestige.sources import FileSource
from vestige.sources.positions import encode_position
from vestige.sources.protocol import Unit
from vestige.sources.timestamps import parse_times

MOMENT = np.datetime64("2024-05-31T12:30:15", "us")
PER_SECOND: dict[Unit, int] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
SECONDS = 1_717_158_615


def read(value: object, kind: pa.DataType | None = None, unit: Unit | None = None) -> np.datetime64 | None:
    """What the value alone means; None if it is refused."""
    try:
        return cast(np.datetime64, parse_times(pa.array([value], kind), unit)[0])
    except pa.ArrowInvalid:
        return None


@pytest.mark.parametrize("unit", PER_SECOND)
def test_the_size_of_a_number_says_its_unit(unit: Unit) -> None:
    count = SECONDS * PER_SECOND[unit]
    for value in (count, str(count), float(count)):
        assert read(value) == read(value, unit=unit) == MOMENT
    assert read(count, pa.decimal128(25, 3)) == MOMENT


@pytest.mark.parametrize("unit", PER_SECOND)
def test_the_plausible_years_are_1990_to_2100_in_every_unit(unit: Unit) -> None:
    first, last = 631_152_000 * PER_SECOND[unit], 4_102_444_800 * PER_SECOND[unit]
    for value, expected in ((first, "1990-01-01"), (first - 1, None), (last, None)):
        for spelled in (value, str(value)):
            assert read(spelled) == (None if expected is None else np.datetime64(expected, "us"))
    assert str(read(last - 1))[:4] == "2099"


@pytest.mark.parametrize(
    "value", [0, 1, -1, 5, 2024, 12345678, 20240230, 20241301, 20240100, 20240001, 18991231, 21010101, 202405, -SECONDS]
)
def test_a_number_that_could_be_anything_is_refused(value: int) -> None:
    assert read(value) is read(str(value)) is read(float(value)) is None
    assert read(str(value), unit="s") == np.datetime64(value, "s").astype("datetime64[us]")
    assert read(value, unit="ms") == np.datetime64(value, "ms").astype("datetime64[us]")


@pytest.mark.parametrize("value", ["20240101", 20240101, 20240101.0, "20240101.0", " 20240101 "])
def test_eight_digits_are_a_date(value: object) -> None:
    assert read(value) == np.datetime64("2024-01-01", "us")
    assert read(value, unit="s") == np.datetime64(20240101, "s").astype("datetime64[us]")


def test_every_day_is_a_date_and_nothing_else_is() -> None:
    days = {int(str(day).replace("-", "")): day for day in np.arange("1900-01-01", "2101-01-01", dtype="datetime64[D]")}
    for number in random.Random(0).sample(range(19000101, 21001232), 2_000):  # noqa: S311
        assert read(number) == days.get(number)
    numbers = list(days)
    assert (parse_times(pa.array(numbers)) == np.array(list(days.values()), "datetime64[us]")).all()


@pytest.mark.parametrize("text", ["2024-05-31T12:30:15z", "2024-05-31t12:30:15Z", "2024-05-31t12:30:15.0z"])
def test_small_letters_are_read(text: str) -> None:
    assert read(text) == MOMENT


def test_every_zone_means_the_same_moment() -> None:
    moment = datetime(2024, 5, 31, 12, 30, 15)
    texts = [
        moment.replace(tzinfo=timezone.utc).astimezone(timezone(timedelta(minutes=minutes))).isoformat()  # noqa: UP017
        for minutes in range(-12 * 60, 14 * 60 + 1, 15)
    ]
    assert (parse_times(pa.array(texts)) == MOMENT).all()
    assert all(read(text) == MOMENT for text in texts)


def test_nanoseconds_lose_no_microsecond() -> None:
    counts = np.random.default_rng(0).integers(631_152_000 * 10**9, 4_102_444_800 * 10**9, 1_000)
    expected = (counts // 1_000).view("datetime64[us]")
    for column in (pa.array(counts), pa.array([str(n) for n in counts]), pa.array([*map(str, counts), "1.5e9"])):
        assert (parse_times(column)[:1_000] == expected).all()


@pytest.mark.parametrize("value", ["58842-01-01", 10**12, "1e300", 2**63 - 1, -(10**12), -(2**63), float("inf")])
def test_what_is_beyond_all_years_is_refused_even_with_a_unit(value: object) -> None:
    assert read(value, unit="s") is None


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_the_least_whole_number_is_no_time(unit: Unit) -> None:
    assert read(-(2**63), unit=unit) is None
    assert read(str(-(2**63)), unit=unit) is None


BASES = [
    *("2024-05-31", "2024-05-31T12:30:15Z", "2024-05-31 12:30", "2024-05-31T12:30:15.5+02:00", "1717158615", "1e9"),
    *("1717158615.25", "1717158615123456789", "20240531", "2024", "2024-05-31t12:30:15z", "2024-05-31T12:30:15-0530"),
]
COMPANY = [["2024-05-31T12:30:15Z"], ["2024-05-31"], ["1717158615"], ["1717158615.5"], ["1717158615", "2024-05-31"]]


def test_what_a_row_means_never_depends_on_the_rows_beside_it() -> None:
    """Notations with slips, alone, before and after others."""
    draw = random.Random(0)  # noqa: S311
    read_alone = 0
    for _ in range(300):
        text = draw.choice(BASES)
        for _ in range(draw.randrange(3)):
            place = draw.randrange(len(text) + 1)
            text = (
                text[:place]
                + draw.choice("0123456789:-+.TZtz e") * draw.randrange(2)
                + text[place + draw.randrange(2) :]
            )
        alone = read(text)
        read_alone += alone is not None
        beside = draw.choice(COMPANY)
        for column, place in (([text, *beside], 0), (beside * 40 + [text], -1)):
            try:
                assert str(parse_times(pa.array(column))[place]) == str(alone)
            except pa.ArrowInvalid:
                assert alone is None
    assert 100 < read_alone < 280


def test_the_row_and_the_remedy_are_named(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,at\n1,1717158615000\n2,1717158615\n3,4711\n")
    with pytest.raises(
        SourceError, match=r"column 'at' has a time that cannot be read in row 3; .*give --time-unit"
    ) as error:
        list(FileSource(str(tmp_path / "rows.csv"), ["a"], time="at").blocks())
    assert "4711" not in str(error.value)
    (block,) = FileSource(str(tmp_path / "rows.csv"), ["a"], time="at", time_unit="s").blocks(encode_position(1))
    assert block.times is not None
    assert block.times.astype("datetime64[s]").astype(int).tolist() == [SECONDS, 4711]
