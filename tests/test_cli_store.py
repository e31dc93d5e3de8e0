"""The commands on a store, as an engineer and an auditor use them."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from limits import kill_late
from reading import read_rows, read_streams
from stopped import KILLED
from vestige import Mean, SqliteStore, Stream
from vestige.cli import command
from vestige.errors import StoreError
from vestige.store import open_reader, open_store
from vestige.store.position import decode_count

SHOPS, PEOPLE = ("north", "south", "west"), [f"person-{i}@example.org" for i in range(40)]
RNG = np.random.default_rng(0)
N = 1_500
SPENT, SHOP, WHO = RNG.exponential(20.0, N), RNG.integers(0, 3, N), RNG.integers(0, 40, N)
START = datetime(2024, 1, 1, tzinfo=UTC)
AT = [START + timedelta(minutes=20 * i) for i in range(N)]
END = AT[-1].isoformat()


def vestige(*arguments: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], input=stdin, prog_name="vestige")


def said(*arguments: object, stdin: str | None = None) -> Any:
    form = ("--format", "json") if arguments[0] == "receipts" else ("--json",)
    result = vestige(*arguments, *form, stdin=stdin)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def failed(*arguments: object) -> str:
    result = vestige(*arguments)
    assert result.exit_code != 0
    return result.output


def write(path: Path, start: int = 0, stop: int = N) -> Path:
    with path.open("w") as file:
        table = csv.writer(file)
        table.writerow(["at", "who", "shop", "spent"])
        for i in range(start, stop):
            table.writerow([AT[i].isoformat(), PEOPLE[WHO[i]], SHOPS[SHOP[i]], repr(float(SPENT[i]))])
    return path


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    return write(tmp_path / "visits.csv")


@pytest.fixture
def store(tmp_path: Path, visits: Path) -> Path:
    said(*run(visits, tmp_path / "v.db"), "--by", "shop", "--subject", "who", "--time", "at", "--max-age", "10d")
    return tmp_path / "v.db"


def run(source: Path | str, store: Path) -> tuple[object, ...]:
    return ("run", source, "--column", "spent", "--retention", 128, "--seed", 3, "--store", store)


def test_the_same_file_goes_on_and_a_second_adds(tmp_path: Path) -> None:
    path, store, plain = tmp_path / "a.csv", tmp_path / "a.db", Stream(Mean(), retention=128, seed=3)
    for stop in (100, 700, 700, 1_000):
        write(path, 0, stop)
        facts = said(*run(path, store))
        assert facts["t"] == stop
    facts = said(*run(write(tmp_path / "b.csv", 1_000, N), store))
    plain.extend(SPENT)
    assert facts["t"] == N
    assert facts["value"]["spent"] == plain.estimate().value
    assert read_streams(store)["main"][1].retained.without_numbers() == plain.retained
    positions = read_streams(store)["main"][1].positions
    rows = {source: decode_count(position.value) for source, position in positions.items()}
    assert rows == {str(path): 1_000, str(tmp_path / "b.csv"): N - 1_000}


def test_standard_input_never_skips(tmp_path: Path) -> None:
    store, rows = tmp_path / "a.db", "spent\n" + "\n".join(map(str, range(60))) + "\n"
    assert said(*run("-", store), stdin=rows)["t"] == 60
    assert said(*run("-", store), stdin=rows)["t"] == 120
    assert read_streams(store)["main"][1].positions == {}


def test_one_stream_per_key(store: Path) -> None:
    facts = {row["stream"]: row for row in read_rows(vestige("estimate", store, "--format", "json"))}
    assert set(facts) == set(SHOPS)
    for i, shop in enumerate(SHOPS):
        plain = Stream(Mean(), retention=128, max_age=timedelta(days=10), seed=3)
        plain.extend(SPENT[i == SHOP], times=[at for at, key in zip(AT, SHOP, strict=True) if key == i])
        assert (facts[shop]["metric"], facts[shop]["value"]) == ("spent", plain.estimate().value)
        assert facts[shop]["t"] == np.sum(i == SHOP)
    shown = vestige("estimate", store).stdout
    assert "All-time mean by stream: 3 streams, 1,500 records" in shown
    assert "All-time mean of" in vestige("estimate", store, "--stream", "north").stdout


def test_keys_without_a_store(visits: Path) -> None:
    facts = said("run", visits, "--column", "spent", "--retention", 128, "--by", "shop")
    assert {key: value["t"] for key, value in facts["streams"].items()} == {
        shop: int(np.sum(i == SHOP)) for i, shop in enumerate(SHOPS)
    }
    assert "All-time mean by who: 40 streams" in (
        text := vestige("run", visits, "--column", "spent", "--retention", 128, "--by", "who").stdout
    )
    assert "... and 20 more; --json prints them all." in text


def test_a_name_before_the_keys(visits: Path, tmp_path: Path) -> None:
    said(*run(visits, tmp_path / "a.db"), "--by", "shop", "--stream", "spent by shop")
    assert set(said("list", tmp_path / "a.db")["streams"]) == {f"spent by shop/{shop}" for shop in SHOPS}


def test_list_shows_limits_and_clock(store: Path) -> None:
    facts = said("list", store)["streams"]
    assert facts["south"]["t"] == (SHOP == 1).sum()
    assert facts["south"]["retention"] == 128
    assert facts["south"]["max_age"] == 864_000
    assert facts["south"]["about"]["columns"] == ["spent"]
    shown = vestige("list", store).stdout
    assert "10 days" in shown
    assert "Mean" in shown


def test_list_counts_the_rows_of_files_alone(store: Path) -> None:
    with SqliteStore(store) as opened:
        stream = Stream(Mean(), retention=128, store=opened.stream("queue"))
        stream.extend([1.0, 2.0], source="queue:", positions=[b"offset-1", b"offset-2"])
    facts = said("list", store)["streams"]
    assert facts["queue"]["sources"] == {"queue:": None}
    (rows,) = facts["south"]["sources"].values()
    assert rows == len(SHOP), "so far the file was read for all shops"


def test_retained_exports_the_whole_state(store: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(vestige("retained", store, "--stream", "west").stdout)))
    held = read_streams(store)["west"][1].retained
    assert [int(row["round"]) for row in rows] == held.rounds.tolist()
    assert [float(row["spent"]) for row in rows] == held.values[:, 0].tolist()
    assert [np.datetime64(row["time"].removesuffix("Z")) for row in rows] == held.times.tolist()
    lines = vestige("retained", store, "--json").stdout.splitlines()
    assert len(lines) == sum(len(state.retained) for _, state in read_streams(store).values())
    assert set(json.loads(lines[0])) == {"stream", "round", "time", "subject", "leaving", "spent"}


def test_forgetting_from_the_dry_run_to_the_receipt(store: Path) -> None:
    subject = PEOPLE[WHO[-1]]
    going = said("forget", store, "--subject", subject, "--dry-run")["records"]
    assert sum(map(len, going.values())) >= 1
    assert said("receipts", store) == []
    made = said("forget", store, "--subject", subject)["receipts"]
    assert {receipt.pop("subject") for receipt in made} == {"--subject number 1"}
    assert [receipt["stream"] for receipt in made] == [None], "one for the whole store"
    assert all(receipt["erased"] is None for receipt in made)
    assert subject not in json.dumps(made)
    assert made == said("receipts", store)
    held = read_streams(store)
    assert {
        name: state.retained.rounds[state.retained.leaving].tolist()
        for name, (_, state) in held.items()
        if state.retained.leaving.any()
    } == {name: [record["round"] for record in records] for name, records in going.items()}
    now = said("forget", store, "--subject", "-", "--now", stdin=f"{subject}\n")
    assert all(receipt["erased"] is not None for receipt in now["receipts"])
    assert said("forget", store, "--subject", subject, "--dry-run")["records"] == {}
    assert "No record of this subject is held" in vestige("forget", store, "--subject", subject).stdout
    assert said("receipts", store)[-2]["erased"] is not None
    assert open_reader(store).verify(at=AT[-1]) == ()


def test_forgetting_by_round(store: Path) -> None:
    name, (_, state) = next(iter(read_streams(store).items()))
    asked = int(state.retained.rounds[-1])
    asking = ("forget", store, "--stream", name, "--round", asked, "--now", "--reference", "T-123")
    (receipt,) = said(*asking)["receipts"]
    assert receipt["reference"] == "T-123"
    assert asked not in read_streams(store)[name][1].retained.rounds


def test_a_sweep_erases_what_is_due_and_tidies(store: Path) -> None:
    held = sum(len(state.retained) for _, state in read_streams(store).values())
    assert sum(said("sweep", store, "--at", END)["erased"].values()) < held
    assert vestige("verify", store, "--at", END).exit_code == 0
    later = (AT[-1] + timedelta(days=11)).isoformat()
    result = vestige("verify", store, "--at", later)
    assert result.exit_code == 1
    assert result.stdout.count("records are overdue") == 3
    assert "records erased from 3 of 3 streams; the file is tidy." in vestige("sweep", store, "--at", later).stdout
    assert said("verify", store, "--at", later)["findings"] == []
    result = vestige("estimate", store, "--format", "json")
    assert result.exit_code == 2
    assert "no stream has an answer: no record is held after round" in result.stderr
    assert [row["value"] for row in json.loads(result.stdout)] == [None] * 3


def test_verify_scans_for_canaries(store: Path) -> None:
    for value in read_streams(store)["west"][1].retained.values[:, 0]:
        result = vestige("verify", store, "--at", END, "--canary", PEOPLE[0], "--canary-hex", value.tobytes().hex())
        assert result.exit_code == 1
        assert "canary 2 of 2 is in v.db" in result.stdout
    assert vestige("verify", store, "--at", END, "--canary", PEOPLE[0]).exit_code == 0


def test_streams_made_in_python_are_shown_plainly(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "a.db") as store:
        stream = Stream(Mean(dim=2), retention=200, seed=0, store=store.stream("mine"))
        stream.extend(np.arange(20.0).reshape(10, 2))
    rows = read_rows(vestige("estimate", tmp_path / "a.db", "--format", "json"))
    assert [(row["metric"], row["value"]) for row in rows] == [("1", 9.0), ("2", 10.0)]
    assert "All-time answer of 10 records" in vestige("estimate", tmp_path / "a.db").stdout
    assert "value_2" in vestige("retained", tmp_path / "a.db").stdout


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--time", "at"), "--time at needs --max-age; give one, such as --max-age 30d"),
        (("--max-age", "30 days"), "'30 days' is not a duration; write a number and a unit, such as 30d"),
        (("--max-age", "30d", "--time", "when"), "has no column 'when'"),
        (("--by", "town"), "has no column 'town'"),
        (("--subject", "who"), "--subject who needs --store"),
        (("--stream", "x"), "--stream x needs --store"),
        (("--store", "."), "is a folder; give the path of a file"),
        (("--store", "no/a.db"), "there is no folder"),
        (("--store", "visits.csv"), "is not a store, or its first page is damaged"),
    ],
)
def test_bad_runs_are_refused(
    visits: Path, arguments: tuple[str, ...], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(visits.parent)
    content = visits.read_bytes()
    assert text in failed("run", visits, "--column", "spent", "--retention", 128, *arguments)
    assert visits.read_bytes() == content


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("estimate", "STORE", "--stream", "east"), "there is no stream 'east'; there is north, south, west"),
        (("forget", "STORE"), "give either --subject or --subjects-from"),
        (("forget", "STORE", "--round", 5), "--round 5 needs one --stream, since rounds are counted in each stream"),
        (("forget", "STORE", "--stream", "west", "--round", 9_999), "rounds must be whole numbers from 1 to t="),
        (("forget", "no.db", "--subject", "x"), "no.db: there is no such store"),
        (("sweep", "no.db"), "no.db: there is no such store"),
        (("list", "no.db"), "no.db: there is no such store"),
        (("verify", "no.db"), "no.db: there is no such store"),
        (("verify", "STORE", "--canary-hex", "xyz"), "--canary-hex is not hexadecimal; write bytes such as 0f1e2d"),
        (("sweep", "STORE", "--at", "noon"), "'noon' is not a time; write it as 2024-05-31T12:00"),
        (
            ("sweep", "STORE", "--at", "2024-01-02"),
            "records are dated more than 1 day, 0:00:00 after the present time",
        ),
    ],
)
def test_bad_commands_are_refused(store: Path, arguments: tuple[object, ...], text: str) -> None:
    before = read_streams(store)
    assert text in failed(*[store if argument == "STORE" else argument for argument in arguments])
    assert read_streams(store) == before


def test_other_terms_show_both(store: Path, visits: Path) -> None:
    options = ("--by", "shop", "--subject", "who", "--time", "at")
    output = failed(*run(visits, store), *options, "--max-age", "20d")
    assert "was created with other terms: max_age=10 days, now max_age=20 days" in output


def test_times_that_run_backwards_are_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    path, store = tmp_path / "a.csv", tmp_path / "a.db"
    path.write_text("at,spent\n" + "\n".join(f"2024-01-{day:02d},1.0" for day in (1, 2, 3, 2)) + "\n")
    output = failed(*run(path, store), "--time", "at", "--max-age", "30d")
    assert "a.csv: the time of row 4 lies before" in output
    assert "; nothing was taken" in output
    assert read_streams(store) == {}
    assert "allow rows to be late with --lateness" in output


SHORTLY: Any = {"patience": 0.5}


def test_somebody_who_holds_the_file_is_reported_and_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "vestige.cli.store_options.open_store", lambda address, **options: open_store(address, **options | SHORTLY)
    )
    path, store = write(tmp_path / "a.csv", 0, 200), tmp_path / "a.db"
    said(*run(path, store))
    hold = (
        "import sqlite3, sys, time; c = sqlite3.connect(sys.argv[1]); c.execute('BEGIN');"
        "c.execute('SELECT * FROM buckets').fetchone(); print('held', flush=True); time.sleep(1.5)"
    )
    with subprocess.Popen([sys.executable, "-c", hold, store], stdout=subprocess.PIPE) as foreign, kill_late(foreign):
        assert foreign.stdout is not None
        foreign.stdout.readline()
        write(path, 0, 600)
        result = vestige(*run(path, store), "--json")
    assert result.exit_code == 0
    assert "Overdue:" in result.stderr
    assert "does not let go, so what is due cannot be erased" in result.stderr
    assert json.loads(result.stdout)["t"] == 600


def test_a_run_that_is_killed_goes_on(tmp_path: Path) -> None:
    path, store, rows = tmp_path / "long.csv", tmp_path / "a.db", 9_000
    path.write_text("spent,key\n" + "".join(f"{i % 1000 / 8},{i % 3}\n" for i in range(rows)))
    arguments = ["run", path, "--column", "spent", "--retention", "64", "--seed", "3", "--by", "key", "--store", store]
    for commits in (1, 14):  # those of the rehearsal of kernels count too
        subprocess.run([sys.executable, "-c", KILLED, str(commits), *map(str, arguments)], check=False)
    assert 1_000 <= taken(store) < rows, "it was killed on the way"
    facts = said(*arguments)
    assert facts["taken"] < rows
    for key in "012":
        plain = Stream(Mean(), retention=64, seed=3)
        plain.extend([i % 1000 / 8 for i in range(rows) if i % 3 == int(key)])
        assert facts["streams"][key]["value"]["spent"] == plain.estimate().value
        assert facts["streams"][key]["t"] == rows // 3


def taken(store: Path) -> int:
    try:
        return sum(state.clock.t for _, state in read_streams(store).values())
    except StoreError:
        return 0


def test_a_reader_that_has_seen_enough_is_no_error(store: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m vestige retained {store} | head -1"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith("stream,round")
    assert "Broken pipe" not in done.stderr
