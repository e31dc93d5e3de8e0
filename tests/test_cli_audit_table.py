"""`vestige audit table` as an auditor calls it: files and databases, a verdict, an exit status, a report to file."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

from audited_tables import Table, make_curated, make_honest, toss
from postgres import Database
from vestige import Mean
from vestige.cli import command
from vestige.cli.audit.snapshots import TableColumns, read_snapshots

USUAL = ("--id", "customer_no", "--column", "amount", "--trials", 999)


def vestige(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments], catch_exceptions=False)


def audit(*arguments: object) -> Result:
    return vestige("audit", "table", *arguments)


def list_rows(table: Table) -> list[list[tuple[str, float]]]:
    return [
        [(str(id_), float(value)) for id_, value in zip(each.ids, np.asarray(each.values)[:, 0], strict=True)]
        for each in table.snapshots
    ]


def write_files(table: Table, folder: Path) -> list[Path]:
    paths = []
    for i, rows in enumerate(list_rows(table)):
        paths.append(folder / f"day{i:02}.csv")
        paths[-1].write_text("customer_no,amount\n" + "".join(f"{a},{b}\n" for a, b in rows))
    return paths


@pytest.fixture(scope="module")
def curated(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_files(make_curated(Mean(channel="bits"), 1, batch=60), tmp_path_factory.mktemp("curated"))


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_files(make_honest(1), tmp_path_factory.mktemp("window"))


def flatten(result: Result) -> str:
    return " ".join(result.stdout.split())


def test_a_curated_table_has_status_1_and_a_report(curated: list[Path], tmp_path: Path) -> None:
    report, key = tmp_path / "audit.html", tmp_path / "key.pem"
    assert vestige("keygen", key).exit_code == 0
    result = audit(*curated, *USUAL, "--report", report, "--sign", key, "--figure", tmp_path / "f.png")
    text = flatten(result)
    assert result.exit_code == 1
    assert text.startswith("Curated: the pattern of kept and missing records spells numbers in a published code")
    assert "The schedule that fits best has batches of 60; 20 of them are shown." in text
    assert "What it says: Mean" in text
    assert "This audit cannot see: - A number that is written under a secret key" in text
    assert (tmp_path / "f.png").stat().st_size > 5_000
    page = report.read_text()
    for part in ("Question", "Verdict", "Method", "What this audit cannot see", "How to repeat it", "SHA-256", "<svg"):
        assert part in page
    assert re.search(r"@page \{ size: A4", page)
    assert not re.search(r"(src|href)=.?(https?:)?//", page), "nothing outside the page"
    rows = "".join(path.read_text() for path in curated).splitlines()
    assert not any(row.split(",")[1] in page for row in rows if "." in row), "no record is in it"
    assert "unchanged since it was signed" in flatten(vestige("verify-report", report, "--public-key", f"{key}.pub"))
    report.write_text(page.replace("curated", "not shown", 1))
    changed = vestige("verify-report", report, "--public-key", f"{key}.pub")
    assert changed.exit_code == 1
    assert "was changed after it was signed" in changed.stderr
    Path(f"{report}.sig").unlink()
    unsigned = vestige("verify-report", report, "--public-key", f"{key}.pub")
    assert unsigned.exit_code == 2
    assert "has no signature" in unsigned.stderr


def test_machines_get_all_of_it(curated: list[Path]) -> None:
    result = audit(*curated, *USUAL, "--json")
    facts = json.loads(result.stdout)
    assert (result.exit_code, facts["verdict"], facts["rejected"]) == (1, "curated", ["words"])
    assert len(facts["inputs"]) == len(facts["snapshots"]) == 20
    assert {len(one["sha256"]) for one in facts["inputs"]} == {64}


def test_a_window_has_status_0(window: list[Path]) -> None:
    result = audit(*window, *USUAL)
    assert result.exit_code == 0
    assert flatten(result).startswith(
        "Not shown: no record is missing, so no choice of records says anything. The order"
    )


def test_documented_removals_come_from_a_file(tmp_path: Path) -> None:
    table = make_honest(3, later=0.05, documented=True, apart=200)
    paths, asked = write_files(table, tmp_path), tmp_path / "asked.txt"
    asked.write_text("\n".join(table.removed) + "\n")
    facts = json.loads(audit(*paths, *USUAL, "--removed", asked, "--json", "--report", tmp_path / "r.html").stdout)
    assert (facts["missing"], facts["outlived"], facts["verdict"]) == (0, 0, "inconclusive")
    digest = hashlib.sha256(asked.read_bytes()).hexdigest()
    assert (facts["inputs"][-1]["name"], facts["inputs"][-1]["sha256"]) == (str(asked), digest), "it decides too"
    assert f"{digest[:16]} {digest[16:32]}" in (tmp_path / "r.html").read_text()


@pytest.fixture(scope="module")
def trades(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Half of each batch leaves at random; of the cancelled trades, which are large, all leave."""
    rng, folder = np.random.default_rng(1), tmp_path_factory.mktemp("trades")
    cancelled, stays = rng.random(2_500) < 0.15, rng.random(2_500) < 0.5
    amounts = np.where(cancelled, rng.lognormal(5.0, 1.0, 2_500), rng.lognormal(3.0, 0.6, 2_500)).round(2)
    for day, t in enumerate(np.cumsum(rng.integers(120, 180, 14))):
        rounds, border = np.arange(1, t + 1), t // 120 * 120
        held = rounds[(rounds > border - 120) & ((rounds > border) | (stays & ~cancelled)[:t])]
        rows = [f"{n},{amounts[n - 1]},{'Cancelled' if cancelled[n - 1] else 'done'},{cancelled[n - 1]}" for n in held]
        (folder / f"day{day:02}.csv").write_text("customer_no,amount,state,gone\n" + "\n".join(rows) + "\n")
    with sqlite3.connect(folder / "all.db") as database:
        for path in sorted(folder.glob("*.csv")):
            database.execute(f"CREATE TABLE {path.stem} (customer_no INTEGER, amount REAL, state TEXT, gone TEXT)")
            cells = [line.split(",") for line in path.read_text().splitlines()[1:]]
            database.executemany(f"INSERT INTO {path.stem} VALUES (?, ?, ?, ?)", cells)  # noqa: S608
    unseen = np.flatnonzero(cancelled) + 1
    listed = "".join(f"{n};{'cancelled by telephone' if n % 2 else 'cancelled'}\n" for n in unseen)
    (folder / "cancelled.txt").write_text("customer_no;reason\n" + listed, encoding="utf-8-sig")
    return sorted(folder.glob("*.csv"))


def test_declared_rules_are_counted_and_checked(trades: list[Path], tmp_path: Path) -> None:
    undeclared = audit(*trades, *USUAL)
    assert undeclared.exit_code == 1
    assert flatten(undeclared).startswith("Chosen by value: values decided which records stayed")
    listed, report = trades[0].parent / "cancelled.txt", tmp_path / "r.html"
    rules = ("--rule", "state != Cancelled", "--rule", listed, "--corrected", tmp_path / "none.csv")
    (tmp_path / "none.csv").write_text("")
    result = audit(*trades, *USUAL, *rules, "--report", report)
    text, page = flatten(result), report.read_text()
    assert result.exit_code == 0
    assert text.startswith("Chosen by a declared rule: ")
    for part in ("state != Cancelled", "cancelled.txt: cancelled by telephone", "none.csv", "correction"):
        assert part in text
        assert part in page
    for part in ("Declared exceptions", "declared rule", hashlib.sha256(listed.read_bytes()).hexdigest()[:16]):
        assert part in page
    facts = json.loads(audit(*trades, *USUAL, *rules, "--json").stdout)
    assert facts["verdict"] == "chosen by a declared rule"
    assert [each["is_checked"] for each in facts["declared"]] == [True, False, False, False]
    assert sum(each["excused"] for each in facts["declared"]) == facts["excused"] > facts["declared"][0]["excused"] > 0


def test_lists_are_read_as_sheets_are_saved(window: list[Path], tmp_path: Path) -> None:
    listed = tmp_path / "asked.csv"
    listed.write_text('why,Customer_No\n"by mail,\nat night",7\nby mail,8\n')
    facts = json.loads(audit(*window, *USUAL, "--removed", listed, "--json").stdout)
    assert facts["declared"][0]["records"] == 2
    listed.write_text("no\nids\n")
    assert "asked.csv names no record that is seen or missing here" in flatten(
        audit(*window, *USUAL, "--removed", listed)
    )


@pytest.mark.parametrize(
    "rule", ['"state" != Cancelled', "gone = FALSE", "state in (done, open)", "state not in ('Cancelled')"]
)
def test_conditions_are_read_alike_from_files_and_databases(trades: list[Path], rule: str) -> None:
    base = trades[0].parent / "all.db"
    tables = [part for path in trades[:2] for part in ("--table", path.stem)]
    of_files, of_tables = (
        json.loads(audit(*sources, *USUAL, "--rule", rule, "--json").stdout)
        for sources in (trades[:2], (base, *tables))
    )
    rows = [line.split(",") for path in trades[:2] for line in path.read_text().splitlines()[1:]]
    assert of_files["declared"] == of_tables["declared"]
    assert of_files["declared"][0]["records"] == len({row[0] for row in rows if row[3] == "True"})


def test_numbers_are_compared_and_rows_without_one_are_barred(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("customer_no,amount,left\n1,1,5\n2,2,7.5\n3,3,\n4,4,-1\n")
    for rule, barred in (("left <= 5", 2), ("left > 5", 3), ("left >= 7.5", 3), ("left < 7.5", 2), ("left = 5.0", 3)):
        facts = json.loads(audit(path, *USUAL, "--rule", rule, "--json").stdout)
        assert facts["declared"][0]["records"] == barred, rule


def test_a_record_in_two_snapshots_counts_once(tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}.csv" for i in range(3)]
    for path, ids in zip(paths, ((1, 2, 4), (1, 2, 4), (2, 4, 5)), strict=True):
        path.write_text("customer_no,amount\n" + "".join(f"{i},{i}\n" for i in ids))
    text = flatten(audit(*paths, *USUAL))
    assert "3 snapshots, 9 rows of 4 records, numbered by id." in text
    assert f"1.csv: the same content as {paths[0]}." in text
    assert "check that the snapshots are named in order" not in text
    assert "Name the snapshots in the order in which they were taken" in flatten(audit(*reversed(paths), *USUAL))


@pytest.mark.parametrize("kind", ["INTEGER", "REAL"])
def test_sqlite_and_parquet_say_the_same_as_csv(curated: list[Path], tmp_path: Path, kind: str) -> None:
    base, columnar = tmp_path / "firm.db", []
    names = []
    with sqlite3.connect(base) as database:
        for path in curated:
            rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
            names.append(path.stem)
            database.execute(f"CREATE TABLE {path.stem} (customer_no {kind}, amount REAL)")
            pairs = [(int(a), float(b)) for a, b in rows]
            database.executemany(f"INSERT INTO {path.stem} VALUES (?, ?)", pairs)  # noqa: S608
            columnar.append(tmp_path / f"{path.stem}.parquet")
            ids, values = zip(*pairs, strict=True)
            parquet.write_table(pa.table({"customer_no": ids, "amount": values}), columnar[-1])
    before = base.read_bytes()
    tables = [part for name in names for part in ("--table", name)]
    found = [json.loads(audit(*sources, *USUAL, "--json").stdout) for sources in (curated, columnar, (base, *tables))]
    assert found[0]["tests"] == found[1]["tests"] == found[2]["tests"]
    assert base.read_bytes() == before


def test_postgresql_tables_are_read(curated: list[Path], database: Database) -> None:
    names = []
    database.ask("CREATE SCHEMA OURS")
    for path in curated[:3]:
        names += ["--table", f"{database.schema}.{path.stem}"]
        database.ask(f"CREATE TABLE OURS.{path.stem} (customer_no bigint, amount float8)")
        rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
        values = ", ".join(f"({a}, {b})" for a, b in rows)
        database.ask(f"INSERT INTO OURS.{path.stem} VALUES {values}")  # noqa: S608
    facts = json.loads(audit(database.address, *names, *USUAL, "--json").stdout)
    assert facts["tests"] == json.loads(audit(*curated[:3], *USUAL, "--json").stdout)["tests"]
    wrong = audit(database.address, "--table", "nobody", *USUAL)
    assert wrong.exit_code == 2
    assert "PostgreSQL refuses (42P01); check the names of the table" in " ".join(wrong.stderr.split())


def test_a_plan_before_there_are_snapshots() -> None:
    facts = json.loads(audit("--plan", "--size", 60, "--repetitions", 1, "--json").stdout)
    assert [row[:2] for row in facts["plan"]] == [
        ["words", "8"],
        ["words", "20"],
        ["averages", "8"],
        ["averages", "20"],
    ]


def test_errors_say_what_to_do(window: list[Path], tmp_path: Path) -> None:
    base = tmp_path / "a.db"
    sqlite3.connect(base).execute("CREATE TABLE t (x)").connection.close()
    twice, text = tmp_path / "twice.csv", tmp_path / "text.csv"
    twice.write_text("customer_no,amount\n7,1\n7,2\n")
    text.write_text("customer_no,amount,when\n7,1,soon\n8,1,later\n")
    book, pointed = tmp_path / "book.xlsx", tmp_path / "pointed.csv"
    book.write_bytes(b"PK\x03\x04....")
    pointed.write_text('customer_no,amount\n7,"1.234,56"\n8,"2.000,00"\n')
    quoted = tmp_path / "quoted.txt"
    quoted.write_text('"7\n8\n9\n')
    for arguments, said in (
        ((), "no SNAPSHOT is given"),
        ((window[0], *USUAL, "--removed", quoted), "quoted.txt: has a quote that is not closed"),
        ((window[0], *USUAL, "--rule", "amount > 5 and amount < 9"), "is more than one condition; repeat --rule"),
        ((window[0], *USUAL, "--rule", "amount > 5 || id = 9"), "is more than one condition"),
        ((window[0], "--id", "customer_no"), "SNAPSHOT needs --id"),
        ((window[0], "--id", "customer_no"), "a numeric column; add --column"),
        ((tmp_path, *USUAL), "is a folder; give its files in order of time, such as"),
        ((window[0], *USUAL, "--report", tmp_path / "none" / "r.html"), "there is no folder"),
        ((tmp_path / "unread", "--report", tmp_path / "r.html", "--sign", tmp_path / "k"), "the key cannot be read"),
        ((base, *USUAL), "is a database; name the table with --table"),
        ((base, "--table", "t", *USUAL), "no such column"),
        ((window[0], "--table", "t", *USUAL), "no source is a database"),
        ((window[0], "--size", 5, *USUAL), "--size 5 is for --plan without SNAPSHOT"),
        ((window[0], *USUAL, "--sign", "k.pem"), "--sign needs --report"),
        ((window[0], *USUAL, "--report", window[0]), "reports are not overwritten"),
        ((twice, *USUAL), "twice.csv: ids occur more than once"),
        ((text, *USUAL, "--arrived", "when"), "column when is neither a number nor a time"),
        ((window[0], "--id", "nobody", "--column", "amount"), "nobody"),
        ((tmp_path / "none.csv", *USUAL), "none.csv"),
        ((book, *USUAL), "is a workbook or an archive; save the sheet as CSV"),
        ((pointed, *USUAL), "write numbers without separators of thousands"),
        (("-", *USUAL), "standard input, which cannot be hashed"),
        ((window[0], *USUAL, "--removed", tmp_path / "none.txt"), "give a file with one id in each line"),
        (
            (window[0], *USUAL, "--rule", tmp_path / "none.csv"),
            "none.csv: is neither a file nor a condition; write such",
        ),
        ((window[0], *USUAL, "--rule", "amount < many"), "--rule amount < many: compares with no number"),
        ((window[0], *USUAL, "--rule", "nobody = 1"), "nobody"),
    ):
        result = audit(*arguments)
        assert result.exit_code == 2, arguments
        assert said in " ".join(result.stderr.split()), (said, result.stderr)


def test_times_of_arrival_may_be_of_several_zones(tmp_path: Path) -> None:
    """One o'clock in Berlin comes before one o'clock in London."""
    path = tmp_path / "zones.csv"
    path.write_text("customer_no,amount,when\nb,2,2024-01-01T01:00Z\na,1,2024-01-01T01:00+01:00\n")
    found = read_snapshots([str(path)], [], TableColumns("customer_no", ("amount",), "when"))[0].snapshot
    assert found.arrived is not None
    assert np.argsort(np.asarray(found.arrived)).tolist() == [1, 0]


def test_what_was_assumed_is_said_once(tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}.csv" for i in range(2)]
    for path in paths:
        path.write_text("customer_no;amount\n1;2,5\n2;3,5\n")
    assert flatten(audit(*paths, *USUAL)).count("2 snapshots: read with separator ';', decimal point ','.") == 1


def test_a_policy_has_a_report_too(window: list[Path], tmp_path: Path) -> None:
    options = ("--column", "amount", "--retention", 96, "--trials", 100, "--batches", 3)
    result = vestige("audit", "policy", window[0], *options, "--report", tmp_path / "p.html")
    assert result.exit_code == 0
    page = (tmp_path / "p.html").read_text()
    assert "Audit of a policy" in page
    assert "It says nothing about how that file was kept" in page


def test_random_deletions_are_not_called_curated(tmp_path: Path) -> None:
    paths = write_files(make_honest(5, survives=toss(0.5)), tmp_path)
    result = audit(*paths, *USUAL)
    assert result.exit_code == 0
    assert flatten(result).startswith("Not shown: records are missing, but no test finds")
