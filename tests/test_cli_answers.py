"""Tables and JSON of answers: since when a statistic counts is never hidden."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from reading import read_rows, read_streams
from troubled import KeepsHalf, fill
from vestige import Mean, Moments, SqliteStore, Stream, Window
from vestige.cli import command
from vestige.cli.summary import group_notes

RNG = np.random.default_rng(0)
DAY = 86_400
OFF = ((5, 1_200), (99.9, 3))


def vestige(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], prog_name="vestige")


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """8 shops with a few rows a day over ten days, and one with so many that its statistic goes on."""
    path = tmp_path_factory.mktemp("shops") / "shops.csv"
    busy = [(t, "busy", v) for t, v in zip(range(0, 10 * DAY, 1800), RNG.normal(50.0, 5.0, 480).tolist(), strict=True)]
    slow = [(t, f"s{i:02d}", float(RNG.normal(t / DAY))) for i in range(8) for t in range(i, 10 * DAY, 8 * 3600)]
    with path.open("w") as file:
        file.write("at,shop,spent\n")
        for t, shop, value in sorted(busy + slow):
            file.write(f"{1_700_000_000 + t},{shop},{value!r}\n")
    return path


def arguments(path: Path, store: Path | None = None, age: str = "2d") -> tuple[object, ...]:
    where = () if store is None else ("--store", store)
    limits = ("--retention", 256, "--max-age", age, "--time", "at", "--seed", 1)
    return ("run", path, "--column", "spent", "--by", "shop", *limits, *where)


@pytest.fixture(scope="module")
def made(shops: Path) -> Path:
    """Their streams, of which all but one have started over."""
    store = shops.parent / "made.db"
    assert vestige(*arguments(shops, store)).exit_code == 0
    return store


def test_a_statistic_that_started_over_is_never_called_all_time(shops: Path, made: Path) -> None:
    states = {name: state.clock for name, (_, state) in read_streams(made).items()}
    assert states["busy"].since == 1
    assert sum(clock.since > 1 for clock in states.values()) == 8, "each slow shop has started over"
    counted = sum(clock.t - clock.since + 1 for clock in states.values())
    for result in (vestige(*arguments(shops, made)), vestige("estimate", made)):
        assert result.exit_code == 0, result.output
        text = " ".join(result.stdout.split())
        assert "All-time" not in text
        assert f"9 streams, {counted:,} records" in text
        assert "│ since │" in text.replace("┃", "│")
        assert "8 of 9 streams started over" in text
        assert f"{sum(clock.t for clock in states.values()):,} records arrived." in text
        assert "Note on 8 streams: Counts from round" in text
        assert f"{states['s00'].t - states['s00'].since + 1} │ {states['s00'].since}" in text


def test_json_says_since_when(shops: Path, made: Path) -> None:
    facts = json.loads(vestige(*arguments(shops, made), "--json").stdout)
    assert facts["restarted"] == 8
    for name, (_, state) in read_streams(made).items():
        said = facts["streams"][name]
        assert (said["t"], said["since"]) == (state.clock.t, state.clock.since)
        assert said["counted"] == state.clock.t - state.clock.since + 1


def test_one_stream_that_started_over(made: Path) -> None:
    clock = read_streams(made)["s07"][1].clock
    shown = vestige("estimate", made, "--stream", "s07").stdout
    assert f"Mean of {clock.t - clock.since + 1} records, counted from record {clock.since}\n" in shown
    assert "All-time" not in shown
    assert "All-time mean of 480 records" in vestige("estimate", made, "--stream", "busy").stdout


def test_strict_fails_where_a_statistic_started_over(shops: Path, made: Path, tmp_path: Path) -> None:
    for extra in ((), ("--json",)):
        result = vestige(*arguments(shops, made), "--strict", *extra)
        assert result.exit_code == 1
        assert "--strict: of 9 streams, 8 started over, 0 missed the target and 0 have no answer" in result.stderr
        assert "; a longer --max-age or fewer keys leave more records to each update\n" in result.stderr
        assert result.stdout, "the answers are printed all the same"
    assert vestige("estimate", made, "--strict").exit_code == 1
    assert vestige("estimate", made, "--stream", "busy", "--strict").exit_code == 0
    fine = tmp_path / "f.db"
    result = vestige(*arguments(shops, fine, "30d"), "--strict")
    assert result.exit_code == 0
    assert "All-time mean by shop: 9 streams" in result.stdout
    assert "since" not in result.stdout
    assert vestige("estimate", fine, "--strict", "--format", "json").exit_code == 0


def test_streams_without_an_answer_are_counted(made: Path, tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    shutil.copy(made, store)
    assert vestige("sweep", store, "--at", "2024-06-01").exit_code == 0
    result = vestige("estimate", store)
    assert "No answer by stream: 9 streams, 0 records" in result.stdout
    assert "No answer in 9 streams: no record is held after round 30 to 480" in " ".join(result.stdout.split())
    strict = vestige("estimate", store, "--format", "json", "--strict")
    assert strict.exit_code == 2, "an error wins"
    assert "no stream has an answer: no record is held after round" in strict.stderr


def test_streams_that_started_over_come_first(tmp_path: Path) -> None:
    """Behind the twenty that are shown they would look as if all were whole."""
    path, store = tmp_path / "many.csv", tmp_path / "many.db"
    with path.open("w") as file:
        file.write("at,shop,spent\n0,old,1\n")
        for at in (3 * DAY, 3 * DAY + 1):
            file.writelines(f"{at},k{key:02d},1\n" for key in range(30))
        file.write(f"{4 * DAY},old,1\n")
    assert vestige(*arguments(path, store), "--time-unit", "s").exit_code == 0
    shown = vestige("estimate", store).stdout
    rows = [line for line in shown.splitlines() if line.startswith("│")]
    assert [cell.strip() for cell in rows[0].split("│")[1:4]] == ["old", "1", "2"]
    assert "... and 11 more" in shown
    listed = next(line for line in vestige("list", store).stdout.splitlines() if "old" in line)
    assert [cell.strip() for cell in listed.split("│")[3:6]] == ["2", "2", "1"]


def test_what_cannot_be_asked_counts_no_record(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    with SqliteStore(store) as opened:
        fill(opened, "a")
        fill(opened, "mine", KeepsHalf())
    shown = vestige("estimate", store)
    assert shown.exit_code == 2
    assert "2 streams, 100 records" in shown.stdout
    (row,) = (line for line in shown.stdout.splitlines() if "mine" in line and "│" in line)
    assert [cell.strip() for cell in row.split("│")[1:4]] == ["mine", "-", "no answer"]


def test_one_is_not_many(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    with SqliteStore(store) as opened:
        Stream(Mean(), retention=128, store=opened.stream("a")).push(1.0)
    text = vestige("estimate", store).stdout
    assert "All-time answer of 1 record\n" in text
    assert "Held: 1 record; the oldest arrived 0 records ago" in text


def test_an_answer_that_missed_its_target_is_not_called_all_time(tmp_path: Path) -> None:
    """Values that only grow leave the mean of the past without records around it."""
    path = tmp_path / "a.csv"
    path.write_text("minute,key\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(1, 2001)))
    what = ("run", path, "--column", "minute", "--retention", 96, "--seed", 1)
    for options in ((), ("--by", "key")):
        shown = vestige(*what, *options, "--channel", "average")
        assert shown.exit_code == 0, shown.output
        assert "All-time" not in shown.stdout
        assert "has missed its target" in " ".join(shown.stdout.split())
        strict = vestige(*what, *options, "--channel", "average", "--strict")
        assert strict.exit_code == 1
        assert "0 started over, " + ("2" if options else "1") + " missed the target" in strict.stderr
        assert strict.stderr.endswith("the notes say why; --channel bits can hold any value\n")
        assert vestige(*what, *options, "--channel", "bits", "--strict").exit_code == 0
    assert json.loads(vestige(*what, "--channel", "average", "--json").stdout)["missed"]


def test_an_answer_that_is_marked_as_off_is_not_called_all_time(tmp_path: Path) -> None:
    """A fit that leaves nothing has no standard error: with few bits its coefficients are off by more than that."""
    path = tmp_path / "a.csv"
    rows = np.random.default_rng(0).normal(size=5_000)
    path.write_text("x,y\n" + "".join(f"{x},{3.0 * x + 7.0}\n" for x in rows))
    what = ("run", path, "--column", "x", "--target", "y", "--statistic", "regression", "--seed", 1)
    coarse = (*what, "--retention", 200)
    shown = vestige(*coarse).stdout
    assert "of 5,000 records, which may be far off" in shown
    assert "Note: The encoded answer has missed its target" in " ".join(shown.split())
    strict = vestige(*coarse, "--strict")
    assert strict.exit_code == 1
    assert "1 missed the target" in strict.stderr
    assert strict.stderr.endswith("; the notes say why; a larger --retention keeps more digits\n")
    assert json.loads(vestige(*coarse, "--json").stdout)["missed"]


def test_a_start_over_by_request_is_not_blamed_on_a_limit_in_time(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    with SqliteStore(store) as opened:
        stream = Stream(Mean(), retention=128, store=opened.stream("a"))
        stream.extend(np.arange(100.0))
        stream.forget(rounds=np.arange(1, 90), now=True)
        stream.extend(np.arange(10.0))
    strict = vestige("estimate", store, "--strict")
    assert strict.exit_code == 1
    assert "--max-age" not in strict.stderr
    assert "more records to continue with after a removal request" in strict.stderr


def test_one_is_not_counted_as_many(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("key,spent\na,1\na,\n")
    shown = vestige("run", path, "--column", "spent", "--retention", 96).stdout
    assert "All-time mean of 1 record\n" in shown
    assert "Held: 1 record; the oldest arrived 0 records ago" in shown
    assert "Skipped: 1 row with" in shown
    assert "1 stream, 1 record\n" in vestige("run", path, "--column", "spent", "--retention", 96, "--by", "key").stdout


def test_a_window_is_never_called_all_time(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with SqliteStore(path) as store:
        window = Stream(Window(Mean(half_life=50)), retention=40, store=store.stream("window"))
        window.extend(range(1_000))
        held = len(window.retained)
    shown = " ".join(vestige("estimate", path).stdout.split())
    assert f"Answer of the {held} records held, of which recent ones count more (half-life 50)" in shown
    (row,) = read_rows(vestige("estimate", path, "--format", "json"))
    assert row["counted"] == held
    with SqliteStore(path) as store:
        Stream(Mean(), retention=96, seed=0, store=store.stream("mean")).extend(range(1_000))
    shown = " ".join(vestige("estimate", path).stdout.split())
    assert f"Answer by stream: 2 streams, {1_000 + held:,} records" in shown
    assert "1 of 2 streams is a window, which counts only the records held." in shown
    assert "Recent records count more in 1 of 2 streams: half-life 50." in shown
    assert "All-time" not in shown


def test_with_a_half_life_it_is_said_that_recent_records_count_more(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("v\n" + "\n".join(map(str, range(1_000))) + "\n")
    shown = vestige("run", path, "--column", "v", "--retention", 96, "--half-life", 50, "--seed", 1).stdout
    assert "All-time mean of 1,000 records, of which recent ones count more (half-life 50)\n" in shown


def test_moments_made_in_python_are_labelled(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with SqliteStore(path) as store:
        Stream(Moments(order=2), retention=512, seed=0, store=store.stream("m")).extend(RNG.normal(size=2_000))
    shown = vestige("estimate", path).stdout
    assert "│ mean " in shown
    assert "│ variance " in shown
    assert "skewness" not in shown


def test_records_that_were_erased_while_they_waited_are_not_counted(tmp_path: Path) -> None:
    """30 of 95 rows go before an update has learned from them, 20 of them before the first one."""
    store, source = tmp_path / "a.db", tmp_path / "a.csv"
    who = ["eve"] * 20 + ["bob"] * 75
    source.write_text("x,who\n" + "".join(f"{float(name == 'bob')},{name}\n" for name in who[:25]))
    run = ("run", source, "--column", "x", "--subject", "who", "--retention", 128, "--seed", 1, "--store", store)
    assert vestige(*run).exit_code == 0
    assert vestige("forget", store, "--subject", "eve", "--now").exit_code == 0
    with source.open("a") as file:
        file.write("".join(f"1.0,{name}\n" for name in who[25:85]) + "9.0,ada\n" * 10)
    assert vestige(*run).exit_code == 0
    assert vestige("forget", store, "--subject", "ada", "--now").exit_code == 0
    ((_, state),) = read_streams(store).values()
    assert (state.clock.since, state.clock.t, state.clock.last, state.clock.gaps) == (1, 95, 64, 20)
    result = vestige("estimate", store, "--strict")
    assert result.exit_code == 0
    assert "All-time mean of 65 records" in result.stdout
    assert vestige(*run).stdout.count("of 65 records") == 1
    (row,) = read_rows(vestige("estimate", store, "--format", "json"))
    assert (row["t"], row["counted"], row["metric"], row["value"]) == (95, 65, "x", 1.0)


def test_notes_are_counted_by_stream_and_names_are_left_alone() -> None:
    notes = [(stream, f"s:p{p}: may be off by {off:,} of {n}") for stream, n in (("a", 9), ("b", 7)) for p, off in OFF]
    assert group_notes(notes) == [("s:p5: may be off by 1,200 of 7 to 9", 2), ("s:p99.9: may be off by 3 of 7 to 9", 2)]
    same = [("a", "x1: 2 of 8"), ("a", "x2: 2 of 8"), ("b", "x1: 1e+06 of 8"), ("a", "5xx: 0.5%"), ("a", "4xx: 0.7%")]
    assert group_notes(same) == [("x1: 2 to 1e+06 of 8", 2), ("x2: 2 of 8", 1), ("5xx: 0.5%", 1), ("4xx: 0.7%", 1)]
    assert group_notes([("a", "From 9."), ("a", "From 10.")]) == [("From 9 to 10.", 1)]
