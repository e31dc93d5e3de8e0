"""Several files in one run: each row once, in the order of time, against pandas and against a run for each file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from vestige import open_reader
from vestige.cli import command
from vestige.sources import Block, FileSource

FILES, EACH = 12, 200
RNG = np.random.default_rng(3)
TABLE = pd.DataFrame(
    {
        "at": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(FILES * EACH) * 5, "min"),
        "country": RNG.choice(np.array(["DE", "FR"]), FILES * EACH),
        "spent": RNG.gamma(2.0, 10.0, FILES * EACH),
    }
)
RUN = ("--column", "spent", "--channel", "bits", "--retention", 96, "--by", "country", "--seed", 1)
STORE = ("--store", "s.db")


def vestige(*arguments: object) -> Result:
    return CliRunner().invoke(command, ["run", *map(str, arguments)], prog_name="vestige")


def said(*arguments: object) -> Any:
    result = vestige(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def write(first: int, last: int, name: str = "day-{}.csv") -> None:
    for i in range(first, last):
        TABLE[i * EACH : (i + 1) * EACH].to_csv(name.format(i), index=False)


def check(found: Any, table: pd.DataFrame) -> None:
    """Compare with pandas over all rows."""
    for country, rows in table.groupby("country"):
        stream = found["streams"][country]
        assert stream["t"] == len(rows)
        assert abs(stream["value"]["spent"] - rows.spent.mean()) < 0.01 * rows.spent.std() / np.sqrt(len(rows))


def read_state(store: str) -> dict[str, Any]:
    """What a store holds: the rounds, values and rows of each stream's records."""
    return {
        name: (
            state.clock,
            state.retained.rounds.tolist(),
            state.retained.values.tolist(),
            state.retained.numbers.tolist(),
        )
        for name, (_, state) in open_reader(store).snapshot().streams.items()
    }


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files whose rows were read."""
    names: list[str] = []
    original = FileSource.blocks

    def blocks(self: FileSource, position: bytes = b"") -> Iterator[Block]:
        names.append(Path(self.path).name)
        return original(self, position)

    monkeypatch.setattr(FileSource, "blocks", blocks)
    return names


def test_files_are_read_once_in_natural_order(opened: list[str]) -> None:
    write(0, 11)
    first = vestige(*(f"day-{i}.csv" for i in np.random.default_rng(0).permutation(11)), *RUN, *STORE)
    assert first.exit_code == 0, first.output
    assert "Reading 11 files in the order of their names: day-0.csv to day-10.csv." in first.stderr
    assert "Taken: 2,200 rows of 11 files." in first.stdout
    write(11, 12)
    opened.clear()
    shutil.copy("s.db", "copy.db")
    added = vestige("day-*.csv", *RUN, "--store", "copy.db").stdout
    assert f"Taken: {EACH} rows of 1 file; 2,200 rows of 11 files were read before." in added
    opened.clear()
    found = said("day-*.csv", *RUN, *STORE)
    assert (found["taken"], found["before"], found["files"]) == (EACH, 11 * EACH, 12)
    check(found, TABLE)
    held = len(opened)
    opened.clear()
    again = vestige(".", *RUN, *STORE)
    assert "12 files were read whole before, and have no new rows. Reading 0 files." in again.stderr
    assert "Taken: 0 rows; 2,400 rows of 12 files were read before." in again.stdout
    assert set(opened) <= {"day-0.csv", "day-10.csv", "day-11.csv"}, "only the first, and those with rows that are held"
    assert held < 12
    one = Path("one.db")
    for i in range(12):
        assert vestige(f"day-{i}.csv", *RUN, "--store", one).exit_code == 0
    assert read_state("one.db") == read_state("s.db"), "the same state as a run for each file"


def test_files_that_cannot_be_compared_any_more_are_counted_in_one_line() -> None:
    write(0, 11)
    assert vestige("day-*.csv", *RUN, *STORE).exit_code == 0
    lines = CliRunner().invoke(command, ["verify", "s.db"]).stdout.splitlines()
    told = [line for line in lines if "could not be checked" in line]
    notes = json.loads(CliRunner().invoke(command, ["verify", "s.db", "--json"]).stdout)["notes"]
    assert len(notes) > 1
    assert len(told) == 1
    assert told[0].startswith(f"{len(notes)} sources were read before, but no record of them is held")


def test_the_order_is_that_of_time() -> None:
    order = np.random.default_rng(1).permutation(FILES).tolist()
    for i, name in enumerate(order):
        TABLE[i * EACH : (i + 1) * EACH].to_csv(f"f{name}.csv", index=False)
    timed = (*RUN, "--time", "at", "--max-age", "3650d")
    result = vestige("f*.csv", *timed, *STORE)
    assert f"in the order of their first times in at: f{order[0]}.csv to f{order[-1]}.csv." in result.stderr
    check(said("f*.csv", *timed, *STORE), TABLE)
    check(said("f*.csv", *timed), TABLE)
    header = Path(f"f{order[0]}.csv").read_text().splitlines()[0]
    Path("f-empty.csv").write_text(f"{header}\n")
    result = vestige("f*.csv", *timed)
    assert f"f{order[0]}.csv to f{order[-1]}.csv; 1 file without a time comes last." in result.stderr
    assert vestige("f0.csv", *timed, "--store", "other.db").exit_code == 0
    result = vestige("f0.csv", "f1.csv", *timed, "--store", "other.db")
    assert "1 file was read whole before, and has no new rows. Reading 1 file." in result.stderr


def test_a_refused_file_names_itself_and_those_before_it_stay() -> None:
    write(0, 4)
    good = Path("day-2.csv").read_text()
    for bad, why in (("country,at\n", "has no column 'spent'"), (f"{good}2024-01-01,DE,canary\n", "not a number")):
        Path("day-2.csv").write_text(bad)
        result = vestige("day-*.csv", *RUN, *STORE)
        assert result.exit_code == 2
        assert result.stderr.splitlines()[-1].startswith("Error: day-2.csv: ")
        assert why in result.stderr
        assert "what the files before it had is taken and stays" in result.stderr
        assert "canary" not in result.output
    assert sum(state.clock.t for _, state in open_reader("s.db").snapshot().streams.values()) == 2 * EACH
    Path("day-2.csv").write_text(good)
    found = said("day-*.csv", *RUN, *STORE)
    assert found["taken"] == 2 * EACH
    check(found, TABLE[: 4 * EACH])


def test_a_file_that_grew_is_read_on_and_a_stream_that_was_removed_begins_with_new_rows() -> None:
    """What was removed does not come back: the position of all streams says that its rows were read."""
    write(0, 3)
    said("day-*.csv", *RUN, *STORE)
    with Path("day-1.csv").open("a") as file:
        file.write("2024-01-09,DE,5.0\n")
    assert said("day-*.csv", *RUN, *STORE)["taken"] == 1
    CliRunner().invoke(command, ["remove", "s.db", "--stream", "FR"], prog_name="vestige")
    assert set(said("day-*.csv", *RUN, *STORE)["streams"]) == {"DE"}
    with Path("day-1.csv").open("a") as file:
        file.write("2024-01-09,FR,7.0\n")
    found = said("day-*.csv", *RUN, *STORE)
    assert (found["taken"], found["streams"]["FR"]["t"]) == (1, 1)


def test_rows_of_a_stream_in_trouble_wait_for_a_later_run() -> None:
    write(0, 3)
    good = Path("day-1.csv").read_text()
    lines = good.splitlines()
    row = next(i for i, line in enumerate(lines) if ",DE," in line)
    lines[row] = f"2023-01-01,{lines[row].partition(',')[2]}"
    Path("day-1.csv").write_text("\n".join([*lines, ""]))
    timed = ("day-*.csv", *RUN, "--time", "at", "--max-age", "3650d", *STORE)
    result = vestige(*timed)
    assert result.exit_code == 2
    assert f"from row {row} of day-1.csv on not taken" in result.stderr
    assert "Error: 3 files: " in result.stderr
    Path("day-1.csv").write_text(good)
    found = said(*timed, "--if-replaced", "continue")
    check(found, TABLE[: 3 * EACH])


def test_a_file_that_is_still_written_is_not_whole() -> None:
    write(0, 2)
    text = Path("day-1.csv").read_text()
    Path("day-1.csv").write_text(text.removesuffix("\n"))
    for _ in range(2):
        result = vestige("day-*.csv", *RUN, *STORE)
        assert "The last line of day-1.csv has no line break yet; it is left for the next run." in result.stdout
    Path("day-1.csv").write_text(text)
    assert said("day-*.csv", *RUN, *STORE)["taken"] == 1


def test_rows_that_are_too_old_by_the_clock_are_counted_after_a_run() -> None:
    now = pd.Timestamp.now("UTC").floor("s")
    timed = ("--column", "spent", "--time", "at", "--max-age", "30d")
    for name, days in (("new", 1), ("old", 400)):
        at = now - pd.Timedelta(days=days) + pd.to_timedelta(np.arange(300), unit="s")
        pd.DataFrame({"at": at.strftime("%FT%TZ"), "spent": np.arange(300)}).to_csv(f"{name}.csv", index=False)
        result = vestige(f"{name}.csv", *timed, "--store", f"{name}.db")
        assert result.exit_code == 0, result.output
        held = len(open_reader(f"{name}.db").snapshot().streams["main"][1].retained)
        told = f"{held} records are overdue: by this machine's clock, they are older than --max-age 30 days."
        assert (told in result.stderr) == (name == "old")
    assert "overdue" not in vestige("old.csv", *timed).stderr
    result = CliRunner().invoke(command, ["sweep", "old.db"])
    assert f"{held} records erased from 1 of 1 stream" in result.stdout
    assert "Statistics that restart: 1 (main)" in result.stdout
