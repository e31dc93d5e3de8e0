"""Runs into many streams: names that cannot collide, one stream's trouble, messages that are true, many keys."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from reading import read_streams
from troubled import damage
from vestige import KeyedStreams, Mean, MemoryStore, SqliteStore, Stream
from vestige.cli import command
from vestige.errors import StoreError, StreamsError
from vestige.ingest import Ingest, StreamNames
from vestige.sources import FileSource, chunks, delimited
from vestige.store import Store, open_reader

DAY = 86_400
START = 1_700_000_000


def vestige(*arguments: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], input=stdin, prog_name="vestige")


def stored(store: Path) -> dict[str, int]:
    return {name: state.clock.t for name, (_, state) in read_streams(store).items()}


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a small file comes in many blocks."""
    monkeypatch.setattr(chunks, "CHUNK", 256)
    monkeypatch.setattr(delimited, "BLOCK", 256)
    monkeypatch.setattr(delimited, "BLOCK_BY", 256)


texts = st.text(st.sampled_from("a/%25F"), min_size=1, max_size=5)


@given(st.none() | texts, texts, st.none() | texts, texts)
def test_different_prefixes_and_keys_have_different_names(
    one: str | None, key: str, two: str | None, other: str
) -> None:
    names = StreamNames("by", one), StreamNames("by", two)
    assert (names[0].find_name(key) == names[1].find_name(other)) == ((one, key) == (two, other))
    assert names[0].find_key(names[0].find_name(key)) == key


def test_a_slash_in_a_key_does_not_reach_into_another_stream(tmp_path: Path) -> None:
    path, store = tmp_path / "a.csv", tmp_path / "a.db"
    for prefix, key, value in (("a", "b/c", 1), ("a/b", "c", 2)):
        path.write_text(f"v,k\n{value},{key}\n")
        what = ("--column", "v", "--by", "k", "--retention", 96, "--store", store, "--stream", prefix)
        result = vestige("run", path, *what, "--if-replaced", "restart")
        assert result.exit_code == 0, result.output
    assert {name: state.retained.values[0, 0] for name, (_, state) in read_streams(store).items()} == {
        "a/b%2Fc": 1.0,
        "a%2Fb/c": 2.0,
    }
    assert {name: terms.about["stream"] for name, (terms, _) in read_streams(store).items()} == {
        "a/b%2Fc": "a",
        "a%2Fb/c": "a/b",
    }


def test_the_name_of_a_key_is_not_taken_for_all_rows(tmp_path: Path) -> None:
    path, store = tmp_path / "a.csv", tmp_path / "a.db"
    path.write_text("v,k\n1,b\n")
    what = ("--column", "v", "--retention", 96, "--store", store)
    assert vestige("run", path, *what, "--stream", "a", "--by", "k").exit_code == 0
    before = read_streams(store)
    result = vestige("run", path, *what, "--stream", "a/b")
    assert result.exit_code == 2
    assert 'other terms: by="k", stream="a", now by=none, stream=none;' in result.stderr
    assert read_streams(store) == before


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_every_key_is_taken_and_answered(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.csv"
    rows = [(i % 23, float(i)) for i in range(500)]
    path.write_text("k,v\n" + "".join(f"{key},{value}\n" for key, value in rows))
    store: Store
    with MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "a.db") as store:
        for taken in (500, 0):
            streams = KeyedStreams(Mean(), retention=96, seed=1, store=store.family())
            ingest = Ingest(FileSource(str(path), ("v",), by="k"), streams, StreamNames("k"), store=store)
            ingest.run()
            assert ingest.taken == taken
            assert len(streams) == 23
            for key in streams:
                mine = [v for k, v in rows if str(k) == key]
                assert streams.clock(key).t == len(mine)
                assert streams.estimate(key).value == pytest.approx(sum(mine) / len(mine))


def by_shop(path: Path, store: Path, *options: object) -> tuple[object, ...]:
    limits = ("--retention", 96, "--max-age", "30d", "--time", "at", "--seed", 1)
    return ("run", path, "--column", "v", "--by", "shop", *limits, "--store", store, *options)


@pytest.mark.usefixtures("small_blocks")
def test_rows_of_one_stream_that_cannot_be_taken_wait(tmp_path: Path) -> None:
    """Times run backwards in one shop: the others are taken, the run says so and fails, and a later one goes on."""
    path, store = tmp_path / "a.csv", tmp_path / "a.db"
    rows = [[START + 60 * i, "abc"[i % 3], i] for i in range(90)]
    late = 31  # a row of shop b
    rows[late][0], when = START, rows[late][0]

    def save() -> None:
        path.write_text("at,shop,v\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows))

    save()
    result = vestige(*by_shop(path, store))
    assert result.exit_code == 2
    assert "All-time mean by shop: 3 streams" in result.stdout, "the answers are printed all the same"
    assert "Trouble with 'b'" in result.stderr
    assert f"the time of row {late + 1} lies before" in result.stderr
    taken = stored(store)
    assert (taken["a"], taken["c"]) == (30, 30)
    assert 0 < taken["b"] <= 10
    assert f"{30 - taken['b']} rows of 1 stream were not taken; all others were" in result.stderr
    said = json.loads(vestige(*by_shop(path, store, "--json")).stdout)
    assert said["taken"] == 0
    assert said["troubles"]["b"]["rows"] == 30 - taken["b"]
    rows[late][0] = when
    save()
    result = vestige(*by_shop(path, store, "--json"))
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["taken"] == 30 - taken["b"]
    assert stored(store) == {"a": 30, "b": 30, "c": 30}


def test_a_stream_that_cannot_be_opened_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    path, store = tmp_path / "a.csv", tmp_path / "a.db"
    with SqliteStore(store) as opened:
        Stream(Mean(), retention=500, store=opened.stream("b")).push(1.0)
    path.write_text("at,shop,v\n" + "".join(f"{START + i},{'abc'[i % 3]},{i}\n" for i in range(90)))
    result = vestige(*by_shop(path, store))
    assert result.exit_code == 2
    assert "Trouble with 'b', 30 rows from row 2 on not taken: stream 'b' was created with other terms" in result.stderr
    assert stored(store) == {"a": 30, "b": 1, "c": 30}


def test_a_stream_that_another_process_creates_meanwhile_is_named_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, store, write = tmp_path / "a.csv", tmp_path / "a.db", KeyedStreams.flush
    path.write_text("at,shop,v\n" + "".join(f"{START + i},{'abc'[i % 3]},{i}\n" for i in range(90)))

    def flush(streams: KeyedStreams) -> None:
        write(streams)
        if len(streams) == 3:
            raise StreamsError("1 stream failed", {"b": StoreError("stream 'b' was created with other terms")})

    monkeypatch.setattr(KeyedStreams, "flush", flush)
    result = vestige(*by_shop(path, store))
    assert result.exit_code == 2
    assert "Trouble with 'b'" in result.stderr
    assert "created with other terms; rows of it that were read since the last commit are lost" in result.stderr
    assert stored(store)["a"] == 30


def test_a_damaged_stream_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    path, store = tmp_path / "a.csv", tmp_path / "a.db"
    lines = [f"{START + i},{'abc'[i % 3]},{i}\n" for i in range(90)]
    path.write_text("at,shop,v\n" + "".join(lines[:60]))
    assert vestige(*by_shop(path, store)).exit_code == 0
    damage(store, "b")
    path.write_text("at,shop,v\n" + "".join(lines))
    result = vestige(*by_shop(path, store))
    assert result.exit_code == 2, result.output
    assert "Trouble with 'b'" in result.stderr
    assert "restore a copy" in result.stderr
    copied = open_reader(store).snapshot()
    assert {name: state.clock.t for name, (_, state) in copied.streams.items()} == {"a": 30, "c": 30}


def test_a_date_in_the_future_is_the_trouble_of_its_stream(tmp_path: Path) -> None:
    path, store = tmp_path / "a.csv", tmp_path / "a.db"
    rows = [[START + 60 * i, "abc"[i % 3], i] for i in range(90)]
    rows[40][0] = 10 * START
    path.write_text("at,shop,v\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows))
    result = vestige(*by_shop(path, store, "--time-unit", "s"))
    assert result.exit_code == 2
    assert "Trouble with 'b', 30 rows from row 2 on not taken: the time of row 41 lies more than" in result.stderr
    assert stored(store) == {"a": 30, "c": 30}


MENDED: dict[str, Callable[[list[str]], list[str]]] = {
    "emptied": lambda rows: [*rows[:1], rows[1][:-2], *rows[2:]],
    "corrected": lambda rows: [*rows[:1], rows[1].replace("2062", "2026"), *rows[2:]],
}


@pytest.mark.parametrize("saved", [False, True], ids=["in place", "saved again"])
@pytest.mark.parametrize("how", MENDED)
def test_the_remedy_that_is_named_takes_each_row_once(tmp_path: Path, how: str, saved: bool) -> None:
    path, store = tmp_path / "a.csv", tmp_path / "a.db"
    what = by_shop(path, store, "--lateness", "2d")
    rows = [f"{'2062' if i == 1 else '2026'}-11-11T0{i + 1}:00:00Z,{'abab'[i]},{i}0" for i in range(4)]
    path.write_text("\n".join(["at,shop,v", *rows, ""]))
    result = vestige(*what)
    assert result.exit_code == 2
    assert stored(store) == {"a": 2}
    assert "correct it, or allow more with --max-ahead" in result.stderr
    assert "drop the row" not in result.stderr
    assert "correct the row in its place, or empty its value so that it is skipped" in result.stderr
    assert "--if-replaced restart would count the other rows again" in result.stderr
    mended = path.with_suffix(".saved") if saved else path
    mended.write_text("\n".join(["at,shop,v", *MENDED[how](rows), ""]))
    mended.replace(path)
    if saved:
        refused = vestige(*what).stderr
        assert "continues after row 4, and takes earlier rows that a stream has not taken" in refused
        assert "counts it from its first row, including rows that were taken before" in refused
    result = vestige(*what, "--if-replaced", "continue")
    assert result.exit_code == 0, result.output
    assert stored(store) == {"a": 2, "b": 2 if how == "corrected" else 1}
    assert vestige(*what).exit_code == 0, "it is settled"


def test_a_row_that_was_dropped_is_to_be_put_back(tmp_path: Path) -> None:
    path, store = tmp_path / "a.csv", tmp_path / "a.db"
    rows = [f"{START + 60 * i - 3600 * (i == 3)},{'ab'[i % 2]},{i}\n" for i in range(6)]
    path.write_text("at,shop,v\n" + "".join(rows))
    assert "correct it, or allow rows to be late with --lateness" in vestige(*by_shop(path, store)).stderr
    path.write_text("at,shop,v\n" + "".join(rows[:3] + rows[4:]))
    result = vestige(*by_shop(path, store, "--if-replaced", "continue"))
    assert result.exit_code == 2
    assert "if a row was dropped or moved, put it back; if one was edited, restore it" in result.stderr


def test_trouble_where_nothing_can_be_taken_again(tmp_path: Path) -> None:
    """Without a store there is no later run that could take the rows, so none is promised; strict or not."""
    rows = "at,shop,v\n" + "".join(f"{START + 60 * i - 3600 * (i == 41)},{'abc'[i % 3]},{i}\n" for i in range(90))
    what = ("run", "-", "--column", "v", "--by", "shop", "--retention", 96, "--max-age", "30d", "--time", "at")
    for extra in ((), ("--strict",), ("--store", tmp_path / "a.db")):
        result = vestige(*what, *extra, stdin=rows)
        assert result.exit_code == 2
        assert "30 rows of 1 stream were not taken; all others were\n" in result.stderr
        assert "All-time mean by shop: 2 streams, 60 records" in result.stdout


def test_a_lost_key_that_was_replaced_keeps_no_source_from_going_on(tmp_path: Path) -> None:
    path, store, key = tmp_path / "a.csv", tmp_path / "a.db", tmp_path / "apart.key"
    what = ("run", path, "--column", "v", "--retention", 96, "--subject", "who", "--store", store, "--key", key)
    path.write_text("who,v\n" + "".join(f"p{i},{i}\n" for i in range(30)))
    assert vestige(*what).exit_code == 0
    assert key.exists()
    assert not (tmp_path / "a.db.key").exists()
    with path.open("a") as file:
        file.write("p1,5\n")
    key.unlink()
    assert "is missing" in vestige(*what).stderr
    with SqliteStore(store, key=key) as opened:
        opened.rekey()
    result = vestige(*what)
    assert result.exit_code == 0, result.output
    assert "Subjects of the rows up to row 30 cannot be compared" in result.stderr
    assert stored(store) == {"main": 31}
    result = vestige(*what)
    assert (result.exit_code, result.stderr) == (0, ""), "it is said once"
    path.write_text(path.read_text().replace("p1,5", "p2,5"))
    assert "has changed in row 31" in vestige(*what).stderr, "what the new key has hashed is compared"


BAD = {
    "infinite": ("{at},a,inf", "row 41 has an infinite value"),
    "huge": ("{at},a,1e305", "row 41, column 0, is missing, infinite or beyond 1e+300"),
    "unreadable time": ("someday,a,1", "row 41"),
    "late": (f"{START - DAY},a,1", "the time of row 41 lies before"),
}


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kind", BAD)
def test_a_bad_row_says_what_was_taken_before_it(tmp_path: Path, kind: str) -> None:
    path, store = tmp_path / "a.csv", tmp_path / "a.db"
    line, text = BAD[kind]
    rows = [f"{START + i},a,{i}" for i in range(60)]
    good, rows[40] = rows[40], line.format(at=START + 40)
    what = ("run", path, "--column", "v", "--retention", 96, "--max-age", "30d", "--time", "at", "--store", store)
    path.write_text("\n".join(["at,shop,v", *rows, ""]))
    result = vestige(*what)
    assert result.exit_code == 2
    assert text in result.stderr
    taken = stored(store)["main"]
    assert 0 < taken <= 40
    assert f"{taken:,} records of the rows before were taken and stay" in result.stderr
    assert "nothing was taken" not in result.stderr
    assert "nothing of this call" not in result.stderr
    rows[40] = good
    path.write_text("\n".join(["at,shop,v", *rows, ""]))
    result = vestige(*what, "--if-replaced", "continue", "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert (said["taken"], said["t"]) == (60 - taken, 60)


@pytest.mark.parametrize("kind", BAD)
def test_where_it_says_that_nothing_was_taken_nothing_was(tmp_path: Path, kind: str) -> None:
    path, store = tmp_path / "a.csv", tmp_path / "a.db"
    line, _ = BAD[kind]
    path.write_text(
        "at,shop,v\n" + "".join(f"{START + i},a,{i}\n" for i in range(40)) + line.format(at=START + 40) + "\n"
    )
    what = ("run", path, "--column", "v", "--retention", 96, "--max-age", "30d", "--time", "at", "--store", store)
    result = vestige(*what)
    assert result.exit_code == 2
    assert not store.exists() or ("nothing was taken" in result.stderr and read_streams(store) == {})


def test_a_last_line_without_its_break_waits(tmp_path: Path) -> None:
    path, store = tmp_path / "a.csv", tmp_path / "a.db"
    what = ("run", path, "--column", "v", "--retention", 96, "--store", store)
    path.write_text("v\n1\n12")
    assert "has no line break yet; it is left for the next run" in " ".join(vestige(*what).stdout.split())
    path.write_text("v\n1\n1234\n")
    assert json.loads(vestige(*what, "--json").stdout)["value"] == {"v": 617.5}
    path.write_text("v\n1\n12")
    alone = vestige("run", path, "--column", "v", "--retention", 96, "--json")
    assert json.loads(alone.stdout)["value"] == {"v": 6.5}, "without a store there is no next run"


@pytest.mark.parametrize("option", ["--lateness", "--max-ahead"])
def test_a_limit_that_is_not_below_the_age_is_refused_in_the_words_of_the_command(tmp_path: Path, option: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text("v\n1\n")
    what = ("run", path, "--column", "v", "--retention", 96, option, "30d")
    refused = " ".join(vestige(*what, "--max-age", "30d").stderr.split())
    assert f"{option} 30 days is not below --max-age 30 days, so that " in refused
    assert f"{option} 30 days needs --max-age" in " ".join(vestige(*what).stderr.split())


def test_a_row_without_a_subject_is_taken_and_one_without_a_key_is_counted_as_such(tmp_path: Path) -> None:
    file, store = tmp_path / "v.csv", tmp_path / "v.db"
    file.write_text("who,country,v\nada,DE,1\n,DE,2\nbob,,3\n,,4\nada,DE,\n")
    run = ("run", file, "--column", "v", "--subject", "who", "--by", "country", "--retention", 96, "--store", store)
    result = vestige(*run, "--strict")
    assert result.exit_code == 0, result.output
    assert "Skipped: 1 row with a missing value." in result.stdout
    assert "Skipped: 2 rows without a key in country." in result.stdout
    held = open_reader(store).snapshot().streams["DE"][1].retained
    assert held.values[:, 0].tolist() == [1.0, 2.0]
    assert held.subjects.tolist() == [open_reader(store).pseudonym("ada"), None]
    file.write_text(file.read_text() + "eve,DE,5\n")
    facts = json.loads(vestige(*run, "--json").stdout)
    assert (facts["taken"], facts["compared"]) == (1, 2)
    assert "nothing found" in vestige("verify", store).output
    file.write_text(file.read_text().replace("ada,DE,1", ",DE,1") + "eve,DE,6\n")
    assert "has changed in row 1" in vestige("verify", store).output
    file.write_text("who,country,v\nada,,1\n")
    result = vestige("run", file, "--column", "v", "--by", "country", "--retention", 96)
    assert "(1 row, 1 row without a key in country); nothing to answer from" in result.stderr
