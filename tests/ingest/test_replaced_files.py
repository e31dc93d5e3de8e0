"""A source that was replaced is noticed: each way of replacing it, compared with a plain count in Python."""

from __future__ import annotations

import csv
import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

from reading import read_streams
from stopped import KILLED
from vestige import Mean, SqliteStore, Stream
from vestige.cli import command
from vestige.sources import chunks, delimited
from vestige.sources.identity import FileIdentity, find_name
from vestige.sources.positions import FilePositions

RNG = np.random.default_rng(7)
FIRST = [(float(v), f"k{k}") for v, k in zip(RNG.integers(100, 999, 400), RNG.integers(0, 3, 400), strict=True)]
OTHER = [(float(v), f"k{k}") for v, k in zip(RNG.integers(100, 999, 600), RNG.integers(0, 3, 600), strict=True)]
Rows = list[tuple[float, str]]


def vestige(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], prog_name="vestige")


def write(path: Path, rows: Rows, header: str = "spent,key") -> Path:
    """In place: the file keeps its inode."""
    with path.open("w") as file:
        file.write(header + "\n" + "".join(f"{value:.0f},{key}\n" for value, key in rows))
    return path


def verify_sources(store: Path) -> Any:
    return json.loads(vestige("verify", store, "--json").stdout)


class Shop:
    """A store, the file that is read into it, and what a plain count in Python says of the rows that were taken."""

    def __init__(self, folder: Path, by: bool) -> None:
        self.file, self.store, self.by = folder / "a.csv", folder / "a.db", ("--by", "key") if by else ()

    def run(self, *options: object, path: object = None) -> Result:
        what = ("--column", "spent", "--retention", 96, "--seed", 1, *self.by, "--store", self.store, "--json")
        return vestige("run", path or self.file, *what, *options)

    def check(self, *parts: Rows) -> None:
        """Whether the store has just these rows, each once, as streams that were fed by hand have them."""
        rows = [row for part in parts for row in part]
        keys = sorted({key for _, key in rows}) if self.by else ["main"]
        copied = read_streams(self.store)
        assert sorted(copied) == keys
        for name in keys:
            plain = Stream(Mean(), retention=96, seed=1)
            plain.extend([value for value, key in rows if name in ("main", key)])
            state = copied[name][1]
            assert state.clock == plain.clock
            assert state.retained.rounds.tolist() == plain.retained.rounds.tolist()
            assert state.retained.values.tolist() == plain.retained.values.tolist()

    def refused(self, text: str, *options: object, path: object = None) -> None:
        before = read_streams(self.store)
        result = self.run(*options, path=path)
        assert result.exit_code == 2, result.output
        assert text in result.stderr
        assert "nothing was taken" in result.stderr
        assert read_streams(self.store) == before

    def goes_on(self, *options: object, path: object = None, taken: int) -> None:
        result = self.run(*options, path=path)
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["taken"] == taken


@pytest.fixture(params=[False, True], ids=["one", "by"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    made = Shop(tmp_path, request.param)
    write(made.file, FIRST)
    made.goes_on(taken=400)
    return made


def rotated(shop: Shop) -> None:
    shop.file.rename(shop.file.with_suffix(".old"))
    write(shop.file, OTHER)


def shorter(shop: Shop) -> None:
    write(shop.file, OTHER[:300])


def as_long(shop: Shop) -> None:
    size = shop.file.stat().st_size
    write(shop.file, OTHER[:400])
    assert shop.file.stat().st_size == size


def longer(shop: Shop) -> None:
    write(shop.file, OTHER)


@pytest.mark.parametrize(
    ("replace", "text"),
    [
        (rotated, "is not the file that was read under this name before"),
        (shorter, "bytes, but had"),
        (as_long, "has changed in row"),
        (longer, "has changed in row"),
    ],
)
def test_a_replaced_file_is_refused_or_counted_from_its_first_row(
    shop: Shop, replace: Callable[[Shop], None], text: str
) -> None:
    replace(shop)
    now = OTHER[: len(shop.file.read_text().splitlines()) - 1]
    shop.refused(text)
    if replace in (as_long, longer):
        shop.refused("has changed in row", "--if-replaced", "continue")
    findings = json.loads(vestige("verify", shop.store, "--json").stdout)["findings"]
    assert any("a.csv" in found and text in found for found in findings)
    shop.goes_on("--if-replaced", "restart", taken=len(now))
    shop.check(FIRST, now)
    shop.goes_on(taken=0)
    shop.goes_on("--if-replaced", "restart", taken=0)
    shop.check(FIRST, now)
    write(shop.file, [*now, *FIRST[:5]])
    shop.goes_on(taken=5)
    shop.check(FIRST, now, FIRST[:5])


def test_other_columns_are_another_file(shop: Shop) -> None:
    shop.file.write_text(shop.file.read_text().replace("\n", ",\n").replace("spent,key,", "spent,key,note", 1))
    shop.refused("has another header")


@pytest.mark.parametrize("column", ["spent", "key", "who", "at"])
def test_one_row_that_is_held_and_differs_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    """In each of the columns that are read; what is not read is not looked at."""
    for module, name in ((chunks, "CHUNK"), (delimited, "BLOCK_BY")):
        monkeypatch.setattr(module, name, 256)  # so that there are many blocks
    path, store = tmp_path / "a.csv", tmp_path / "a.db"
    rows = [
        {"at": 1_700_000_000 + i, "key": f"k{i % 2}", "who": f"w{i % 3}", "spent": i % 7, "free": i} for i in range(60)
    ]

    def save() -> None:
        with path.open("w", newline="") as file:
            table = csv.DictWriter(file, rows[0])
            table.writeheader()
            table.writerows(rows)

    options = ("--column", "spent", "--by", "key", "--time", "at", "--max-age", "30d", "--subject", "who")
    what = ("run", path, *options, "--retention", 96, "--store", store)
    save()
    assert vestige(*what).exit_code == 0
    rows[17]["free"] = 99
    save()
    assert vestige(*what).exit_code == 0
    rows[17][column] = {"spent": 9, "key": "k0", "who": "w0", "at": rows[18]["at"]}[column]
    save()
    result = vestige(*what)
    assert result.exit_code == 2
    assert "has changed in row 18 since it was read" in result.stderr
    found = [text for text in verify_sources(store)["findings"] if text.startswith("source")]
    assert bool(found) == (column != "at"), "the unit of times is not stored"
    assert not found or "has changed in row 18 since it was read" in found[0]
    store.with_name("a.db.key").unlink()
    said = verify_sources(store)
    assert any(text.startswith("source") for text in said["findings"]) == (column in ("spent", "key"))
    assert any("its subjects were not compared, since the key is missing" in text for text in said["notes"])


def test_a_source_that_is_gone_is_worth_a_note_and_no_finding(shop: Shop) -> None:
    shop.file.unlink()
    result = vestige("verify", shop.store, "--json")
    assert result.exit_code == 0
    said = json.loads(result.stdout)
    assert said["findings"] == []
    assert said["notes"] == [f"source {shop.file}: does not exist any more, so it could not be checked"]


def make_gzip(path: Path) -> None:
    with gzip.open(path, "wt") as file:
        file.write("spent,key\n" + "".join(f"{value:.0f},{key}\n" for value, key in FIRST))


def make_parquet(path: Path) -> None:
    parquet.write_table(pa.table({"spent": [v for v, _ in FIRST], "key": [k for _, k in FIRST]}), path)


def put_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def put_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def put_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def overwrite(start: int, whence: int) -> Callable[[Path], None]:
    def act(path: Path) -> None:
        with path.open("r+b") as file:
            file.seek(start, whence)
            file.write(b"\xff" * 20)

    return act


@pytest.mark.parametrize(
    ("name", "make", "harm", "text"),
    [
        ("a.csv.gz", make_gzip, overwrite(30, os.SEEK_SET), "cannot be read; it is truncated or damaged"),
        ("a.parquet", make_parquet, overwrite(-20, os.SEEK_END), "cannot be read; it is truncated or damaged"),
        ("a.csv", lambda path: write(path, FIRST), put_folder, "is not a file any more"),
        ("a.csv", lambda path: write(path, FIRST), put_pipe, "is not a file any more"),
        ("a.csv", lambda path: write(path, FIRST), put_loop, "cannot be checked: Too many levels of symbolic links"),
    ],
)
def test_a_source_that_cannot_be_read_is_a_finding(
    tmp_path: Path, name: str, make: Callable[[Path], object], harm: Callable[[Path], None], text: str
) -> None:
    """It is there, so it is not gone; and a pipe in its place keeps nobody waiting."""
    shop = Shop(tmp_path, False)
    shop.file = tmp_path / name
    make(shop.file)
    shop.goes_on(taken=400)
    harm(shop.file)
    result = vestige("verify", shop.store, "--json")
    assert result.exit_code == 1, result.output
    said = json.loads(result.stdout)
    assert [found.startswith(f"source {shop.file}: {text}") for found in said["findings"]] == [True]
    assert "notes" not in said
    if not shop.file.is_fifo():
        result = shop.run()
        assert (result.exit_code, type(result.exception)) == (2, SystemExit), result.output


def test_appending_goes_on(shop: Shop) -> None:
    with shop.file.open("a") as file:
        file.writelines(f"{value:.0f},{key}\n" for value, key in OTHER)
    shop.goes_on(taken=600)
    shop.check(FIRST, OTHER)


def test_touching_is_nothing(shop: Shop) -> None:
    os.utime(shop.file, (1, 1))
    shop.goes_on(taken=0)
    shop.check(FIRST)


def test_a_copy_back_from_a_backup_goes_on_if_the_user_says_so(shop: Shop) -> None:
    backup = shop.file.with_suffix(".backup")
    shutil.copy(shop.file, backup)
    keep = shop.file.rename(shop.file.with_suffix(".gone"))  # so that its inode is not given to the copy
    shutil.copy(backup, shop.file)
    with shop.file.open("a") as file:
        file.writelines(f"{value:.0f},{key}\n" for value, key in OTHER)
    keep.unlink()
    shop.refused("--if-replaced continue continues after row 400")
    shop.goes_on("--if-replaced", "continue", taken=600)
    shop.check(FIRST, OTHER)
    shop.goes_on(taken=0)


def save_again(path: Path, text: str) -> None:
    """As an editor does: a new file takes the place of the old one."""
    other = path.with_suffix(".saved")
    other.write_text(text)
    other.replace(path)


def test_a_source_that_goes_on_is_settled_also_without_new_rows(shop: Shop) -> None:
    """In every stream, whether the file has become shorter or not."""
    text = shop.file.read_text()
    for saved in (text.replace(",k", ".0,k").replace(".0,key", ",key"), text):
        save_again(shop.file, saved)
        shop.refused("is not the file that was read")
        shop.goes_on("--if-replaced", "continue", taken=0)
        shop.goes_on(taken=0)
        assert json.loads(vestige("verify", shop.store, "--json").stdout)["findings"] == []
    shop.check(FIRST)


@pytest.mark.parametrize("by", [(), ("--by", "key")], ids=["one", "by"])
def test_rows_of_a_person_who_has_asked_to_be_erased_may_be_emptied_while_they_are_held(
    tmp_path: Path, by: tuple[str, ...]
) -> None:
    path, store = tmp_path / "a.csv", tmp_path / "a.db"
    what = ("run", path, "--column", "spent", *by, "--subject", "who", "--retention", 512, "--store", store, "--json")
    rows = [(f"w{i % 5}", f"k{i % 2}", str(i)) for i in range(100)]

    def save(asked: str, more: int) -> None:
        emptied = [("", key, "") if who == asked else (who, key, spent) for who, key, spent in rows]
        lines = [",".join(row) for row in [*emptied, *rows[:more]]]
        path.write_text("\n".join(["who,key,spent", *lines, ""]))

    save("nobody", 0)
    assert vestige(*what).exit_code == 0
    save("w2", 0)
    assert "has changed in row 3 since it was read; " in vestige(*what, "--if-replaced", "continue").stderr
    assert vestige("forget", store, "--subject", "w2").exit_code == 0
    taken = [json.loads(vestige(*what, "--if-replaced", "continue").stdout)["taken"]]
    assert vestige("verify", store).exit_code == 0
    save("w2", 7)
    taken += [json.loads(vestige(*what).stdout)["taken"]]
    assert taken == [0, 7]
    states = [state for _, state in read_streams(store).values()]
    assert sum(int(state.retained.leaving.sum()) for state in states) == 20, "they are held"
    save("w3", 7)
    assert "has changed in row 3 since it was read; " not in vestige(*what, "--if-replaced", "continue").stderr
    assert "has changed in row 4 since it was read; " in vestige(*what, "--if-replaced", "continue").stderr


@pytest.mark.parametrize("saved", [False, True])
def test_another_subject_in_a_row_is_refused_also_where_the_user_says_that_it_goes_on(
    tmp_path: Path, saved: bool
) -> None:
    path, store = tmp_path / "a.csv", tmp_path / "a.db"
    what = ("run", path, "--column", "v", "--retention", 96, "--subject", "who", "--store", store)
    path.write_text("who,v\nada,1\nbob,2\n")
    assert vestige(*what).exit_code == 0
    text = "who,v\neve,1\nbob,2\nbob,3\n"
    if saved:
        save_again(path, text)
    else:
        path.write_text(text)
    for options in ((), ("--if-replaced", "continue"))[saved:]:
        result = vestige(*what, *options)
        assert result.exit_code == 2
        assert "has changed in row 1 since it was read" in result.stderr
        assert "nothing was taken" in result.stderr


def test_other_spellings_and_links_are_the_same_source(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = shop.file.parent
    (folder / "link.csv").symlink_to(shop.file)
    (folder / "elsewhere").symlink_to(folder)
    os.link(shop.file, folder / "hard.csv")
    monkeypatch.chdir(folder)
    for path in ("a.csv", "./a.csv", folder / ".." / folder.name / "a.csv", "link.csv", "elsewhere/a.csv", "hard.csv"):
        shop.goes_on(path=path, taken=0)
    shop.check(FIRST)
    shop.file.unlink()
    assert find_name("hard.csv", [str(shop.file)]) == str(folder / "hard.csv")


@pytest.mark.parametrize("by", [False, True])
def test_packed_files_and_parquet(tmp_path: Path, by: bool) -> None:
    def pack(path: Path, rows: Rows) -> None:
        if path.name.endswith(".parquet.gz"):
            pack(path.with_suffix(""), rows)
            path.write_bytes(gzip.compress(path.with_suffix("").read_bytes()))
        elif path.suffix == ".gz":
            with gzip.open(path, "wt") as file:
                file.write("spent,key\n" + "".join(f"{value:.0f},{key}\n" for value, key in rows))
        elif path.suffix == ".parquet":
            parquet.write_table(pa.table({"spent": [v for v, _ in rows], "key": [k for _, k in rows]}), path)
        else:
            path.write_text("".join(json.dumps({"spent": v, "key": k}) + "\n" for v, k in rows))

    for name in ("a.csv.gz", "a.parquet", "a.parquet.gz", "a.ndjson"):
        (folder := tmp_path / name.replace(".", "")).mkdir()
        shop = Shop(folder, by)
        shop.file = folder / name
        pack(shop.file, FIRST)
        shop.goes_on(taken=400)
        pack(shop.file, [*FIRST, *OTHER])
        shop.goes_on(taken=600)
        shop.check(FIRST, OTHER)
        pack(shop.file, [*OTHER, *FIRST, *FIRST])
        shop.refused("has changed in row")
        if name != "a.ndjson":
            whole = shop.file.read_bytes()
            shop.file.write_bytes(whole[:4] + bytes(len(whole)))
            assert "truncated or damaged" in vestige("verify", shop.store).output


def test_a_key_that_comes_late_in_the_new_file(tmp_path: Path) -> None:
    """Its records of the old file are no witnesses of the new one, though its rows have higher numbers there."""
    shop = Shop(tmp_path, True)
    write(shop.file, FIRST)
    shop.goes_on(taken=400)
    now = [(value, "k0") for value, _ in OTHER[:450]] + OTHER[450:]
    write(shop.file, now)
    shop.goes_on("--if-replaced", "restart", taken=600)
    shop.check(FIRST, now)
    shop.goes_on(taken=0)


@pytest.mark.parametrize("again", [(), pytest.param(("--if-replaced", "restart"), marks=pytest.mark.slow)])
def test_a_restart_that_is_killed_counts_nothing_twice(shop: Shop, again: tuple[str, ...]) -> None:
    """In the middle of the new file: the streams go on where they stand."""
    longer(shop)
    options = ["--column", "spent", "--retention", "96", "--seed", "1", *shop.by, "--store", shop.store]
    line = [sys.executable, "-c", KILLED, 1, "run", shop.file, *options, "--if-replaced", "restart"]
    assert subprocess.run([str(a) for a in line], check=False, capture_output=True).returncode == -9
    assert shop.run(*again).exit_code == 0
    shop.check(FIRST, OTHER)


def test_a_restart_counts_nothing_twice_of_a_file_that_was_not_replaced(shop: Shop) -> None:
    """As a scheduler repeats it; a copy that takes its place is counted, once."""
    for _ in range(2):
        result = shop.run("--if-replaced", "restart")
        assert json.loads(result.stdout)["taken"] == 0
        assert "seems to be the file that was read before, so --if-replaced restart continues after row 400" in (
            result.stderr
        )
    with shop.file.open("a") as file:
        file.writelines(f"{value:.0f},{key}\n" for value, key in OTHER[:50])
    shop.goes_on("--if-replaced", "restart", taken=50)
    save_again(shop.file, shop.file.read_text())
    for taken in (450, 0):
        shop.goes_on("--if-replaced", "restart", taken=taken)
    shop.check(FIRST, OTHER[:50], FIRST, OTHER[:50])


class Sources(Shop):
    """Three files that go into the same streams in turn; no two rows that were ever in one of them are the same."""

    def __init__(self, folder: Path, by: bool, seed: int) -> None:
        super().__init__(folder, by)
        self.rng, self.values = np.random.default_rng(seed), iter(range(1_000, 10_000))
        self.rows: dict[str, Rows] = {name: [] for name in ("a.csv", "b.csv", "c.csv")}
        self.taken: Rows = []

    def fresh(self, least: int, most: int) -> Rows:
        n = int(self.rng.integers(least, most))
        return [(float(next(self.values)), f"k{self.rng.integers(2)}") for _ in range(n)]

    def append(self, name: str) -> None:
        new = self.fresh(1, 60)
        self.rows[name] += new
        self.read(name, new)

    def read(self, name: str, new: Rows, *options: str) -> None:
        write(self.store.with_name(name), self.rows[name])
        self.goes_on(*options, path=self.store.with_name(name), taken=len(new))
        self.taken += new
        self.check(self.taken)

    def rewrite(self, name: str) -> bool:
        """Rewrite a file in place; it is refused at the first row that is held, if any is, and begins again or not."""
        old, now = self.rows[name], self.fresh(len(self.rows[name]), len(self.rows[name]) + 20)
        held = {v for _, state in read_streams(self.store).values() for v in state.retained.values[:, 0].tolist()}
        there = [row for row, (value, _) in enumerate(old, 1) if value in held]
        if there:
            path = write(self.store.with_name(name), now)
            self.refused(f"has changed in row {there[0]:,} since it was read", path=path)
        if self.rng.random() < 0.5:
            self.rows[name] = now
            if not there:  # else nothing shows that it was replaced
                save_again(self.store.with_name(name), "")
            self.read(name, now, "--if-replaced", "restart")
        else:
            self.read(name, [])  # the old rows are put back
        return bool(there)


@pytest.mark.parametrize("by", [False, True], ids=["one", "by"])
def test_sources_that_take_turns_are_each_known_by_their_records(tmp_path: Path, by: bool) -> None:
    noticed = 0
    for seed in range(2):
        (folder := tmp_path / str(seed)).mkdir()
        sources = Sources(folder, by, seed)
        for name in sources.rows:
            sources.append(name)
        for _ in range(12):
            name = str(sources.rng.choice(list(sources.rows)))
            if sources.rng.random() < 0.5:
                sources.append(name)
            else:
                noticed += sources.rewrite(name)
    assert noticed > 2, "else nothing was tried"


def test_a_source_is_known_beside_one_whose_run_was_killed(shop: Shop) -> None:
    """Between the two, and after the other was read to its end."""
    other = write(shop.file.with_name("b.csv"), OTHER)
    options = ["--column", "spent", "--retention", "96", "--seed", "1", *shop.by, "--store", shop.store]
    line = [sys.executable, "-c", KILLED, 1, "run", other, *options]
    assert subprocess.run([str(a) for a in line], check=False, capture_output=True).returncode == -9
    write(other, [(999.0, key) for _, key in OTHER])
    shop.refused("has changed in row", path=other)
    write(other, OTHER)
    assert shop.run(path=other).exit_code == 0
    shop.goes_on(taken=0)
    shop.check(FIRST, OTHER)


def test_a_file_that_is_held_as_a_whole_is_known_after_another_was_read(tmp_path: Path) -> None:
    shop, rows = Shop(tmp_path, False), [[(100.0 + i + 100 * part, "k") for i in range(20)] for part in range(3)]
    other = write(tmp_path / "b.csv", rows[1])
    write(shop.file, rows[0])
    shop.goes_on(taken=20)
    shop.goes_on(path=other, taken=20)
    write(shop.file, rows[2])
    shop.refused("has changed in row 1 since it was read")
    write(other, rows[2])
    shop.refused("has changed in row 1 since it was read", path=other)
    shop.goes_on("--if-replaced", "restart", taken=20)
    shop.check(*rows)
    shop.refused("has changed in row", path=other)


def test_a_mark_says_nothing_of_records(tmp_path: Path) -> None:
    one, two = (write(tmp_path / name, rows) for name, rows in (("1.csv", FIRST), ("2.csv", OTHER[:400])))
    assert FileIdentity.read(str(one)).header == FileIdentity.read(str(two)).header
    lines = [tmp_path / name for name in ("1.ndjson", "2.ndjson")]
    for path, value in zip(lines, (1, 2), strict=True):
        path.write_text(json.dumps({"spent": value}) + "\n")
    assert FileIdentity.read(str(lines[0])).header == FileIdentity.read(str(lines[1])).header
    mark = FileIdentity.read(str(one), 3)
    assert FileIdentity.decode(mark.encode()) == mark
    assert len(mark.encode()) <= 64


def test_streams_that_one_file_went_into_in_other_ways_are_each_compared(tmp_path: Path) -> None:
    """Some with keys, two without, and one from Python, which has no columns to look at."""
    path, store = write(tmp_path / "a.csv", FIRST), tmp_path / "a.db"
    what = ("run", path, "--retention", 96, "--store", store)
    for options in (
        ("--column", "spent", "--by", "key"),
        ("--column", "spent", "--stream", "x"),
        ("--column", "spent", "--stream", "y"),
    ):
        assert vestige(*what, *options).exit_code == 0
    with SqliteStore(store) as opened:
        mark = FileIdentity.read(str(path)).encode()
        mine = Stream(Mean(), retention=96, store=opened.stream("mine"))
        numbers = np.arange(1, 10)
        mine.extend(range(9), source=str(path), positions=FilePositions(numbers, mark), numbers=numbers)
    assert verify_sources(store) == {"findings": []}
    with path.open("a") as file:
        file.write("5,k9\n")
    assert verify_sources(store) == {"findings": []}
    write(path, [(1.0, key) for _, key in FIRST[:-1]] + FIRST[-1:] + OTHER)
    found = verify_sources(store)["findings"]
    assert found
    assert all("has changed in row" in text for text in found)
    with path.open("r+") as file:
        file.truncate(path.stat().st_size - 1)
        file.seek(30)
        file.write("x" * 20)
    found = verify_sources(store)["findings"]
    assert found
    assert all(text.startswith(f"source {path}: ") and "xx" not in text for text in found)


def test_a_run_says_how_many_rows_it_took_and_which_were_read_before(shop: Shop) -> None:
    write(shop.file, FIRST + OTHER[:100])
    options = ("--column", "spent", "--retention", 96, "--seed", 1, *shop.by, "--store", shop.store)
    said = vestige("run", shop.file, *options).stdout
    assert "Taken: 100 rows; rows 1 to 400 were read before.\n" in said
    facts = json.loads(shop.run().stdout)
    assert (facts["before"], facts["taken"]) == (500, 0)
    assert facts["compared"] > 0
    assert "notes" not in verify_sources(shop.store)


def test_where_no_row_is_held_a_run_and_verify_say_that_nothing_could_be_compared(shop: Shop) -> None:
    shop.goes_on(path=write(shop.file.with_name("b.csv"), OTHER * 2), taken=1200)
    write(shop.file, OTHER[:500])
    unchecked = "none is held, so whether the file was replaced could not be checked"
    (note,) = verify_sources(shop.store)["notes"]
    assert note == f"source {shop.file}: rows 1 to 400 were read before, but {unchecked}"
    options = ("--column", "spent", "--retention", 96, "--seed", 1, *shop.by, "--store", shop.store)
    said = " ".join(vestige("run", shop.file, *options).stdout.split())
    assert f"; rows 1 to 400 were read before, but {unchecked}." in said


def test_a_run_that_ends_without_an_answer_says_it_too(tmp_path: Path) -> None:
    file, store = write(tmp_path / "a.csv", FIRST), tmp_path / "a.db"
    options = ("--column", "spent", "--retention", 600, "--max-age", "1d", "--store", store)
    assert "Taken: 400 rows.\n" in vestige("run", file, *options).stdout
    assert vestige("sweep", store, "--at", "2999-01-01T00:00:00Z").exit_code == 0
    unchecked = "rows 1 to 400 were read before, but none is held, so whether the file was replaced could not"
    for result, text in (
        (vestige("run", file, *options), "stdout"),
        (vestige("run", file, *options, "--json"), "stderr"),
    ):
        assert result.exit_code == 2
        assert "no record is held" in result.stderr
        assert unchecked in " ".join(getattr(result, text).split())


@pytest.mark.parametrize("before", [0, 1])
def test_where_a_row_that_cannot_be_read_lets_nothing_be_taken_the_message_says_so(shop: Shop, before: int) -> None:
    """With --by, rows that were read before are looked at once more; without a first run, the first block is."""
    if not before:
        shop.store.unlink()
    write(shop.file, [*FIRST[:200], (0.0, "k0\n?,k0"), *FIRST[200:]])
    result = shop.run()
    assert result.exit_code == 2
    assert result.stderr.rstrip().endswith("nothing was taken"), result.stderr
