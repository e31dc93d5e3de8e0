"""No error shows a record: canaries in every kind of broken file, and all output read."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

from vestige.cli import command

CANARY, NUMBER = "zqcanaryqz", "471147.25"
ROLES = ["a", "at", "who", "shop"]
GOOD = {"a": "1.5", "at": "2024-05-31", "who": "p", "shop": "s"}
SECRET = {"a": NUMBER, "at": f"2024-05-31{CANARY}", "who": CANARY, "shop": CANARY}
ARGUMENTS = ["run", "--column", "a", "--time", "at", "--max-age", "9999d", "--subject", "who", "--retention", "96"]
Row = dict[str, str]


def as_csv(rows: list[Row]) -> bytes:
    return "".join(",".join(row.values()) + "\n" for row in [dict(zip(ROLES, ROLES, strict=True)), *rows]).encode()


def as_ndjson(rows: list[Row]) -> bytes:
    spelled = ({**row, "a": float(row["a"]) if row["a"].replace(".", "").isdigit() else row["a"]} for row in rows)
    return "".join(json.dumps(row) + "\n" for row in spelled).encode()


def as_parquet(rows: list[Row], compression: str = "none") -> bytes:
    file = io.BytesIO()
    try:
        numbers = pa.array([float(row["a"]) for row in rows])
    except ValueError:
        numbers = pa.array([row["a"] for row in rows])
    table = pa.table({"a": numbers} | {role: [row[role] for row in rows] for role in ROLES[1:]})
    parquet.write_table(table, file, compression=compression)
    return file.getvalue()


def as_nested(role: str) -> bytes:
    """Parquet whose column is a list of texts in place of what it should be."""
    table = parquet.read_table(io.BytesIO(as_parquet(FINE)))
    file = io.BytesIO()
    place = table.schema.names.index(role)
    parquet.write_table(table.set_column(place, role, pa.array([[CANARY, NUMBER]] * len(table))), file)
    return file.getvalue()


def marked(data: bytes) -> bytes:
    return b"\xef\xbb\xbf" + data


def flipped(data: bytes) -> bytes:
    """Every seventh byte of the second half, turned."""
    half = len(data) // 2
    return data[:half] + bytes(byte ^ 0x15 if i % 7 == 0 else byte for i, byte in enumerate(data[half:]))


SECRETS = [GOOD, SECRET, GOOD]
FINE = [GOOD, {**SECRET, "at": "2024-05-31"}, GOOD]
WRONG = {role: [GOOD, {**FINE[1], role: f"{CANARY}\0"}, GOOD] for role in ("a", "at")}
LINE = f"{NUMBER},2024-05-31,{CANARY},{CANARY}\n".encode()
OBJECT = as_ndjson([FINE[1]])
CASES: dict[str, tuple[str, bytes]] = {
    "csv without a header": ("rows.csv", LINE * 3),
    "csv of one line": ("rows.csv", LINE),
    "csv of one line without its end": ("rows.csv", LINE.rstrip()),
    "csv of words without a header": ("rows.csv", f"hortense,{CANARY},berlin\n".encode() * 3),
    "csv with mark without a header": ("rows.csv", marked(LINE * 3)),
    "csv with one name that fits": ("rows.csv", f"a,{CANARY}@example.org,1,2\n".encode() + LINE),
    "csv with too many fields": ("rows.csv", as_csv([GOOD]) + LINE.replace(b"\n", b",x\n")),
    "csv with too few fields": ("rows.csv", as_csv([GOOD]) + f"{CANARY}\n".encode()),
    "csv with open quotes": ("rows.csv", as_csv([GOOD]) + f'1,2024-05-31,"{CANARY}\n'.encode() + LINE),
    "csv with stray quotes": ("rows.csv", as_csv([GOOD]) + f'"1"{CANARY},2024-05-31,p,s\n'.encode()),
    "csv in latin-1": ("rows.csv", as_csv([GOOD]) + f"1,2024-05-31,{CANARY}é,s\n".encode("latin-1")),
    "csv in utf-16": ("rows.csv", as_csv(SECRETS).decode().encode("utf-16")),
    "csv in utf-16 without a mark": ("rows.csv", as_csv(SECRETS).decode().encode("utf-16-le")),
    "csv header in latin-1": ("rows.csv", f"é{CANARY}".encode("latin-1") + as_csv(SECRETS)),
    "csv with a huge line": ("rows.csv", as_csv([GOOD]) + f"1,2024-05-31,{CANARY * 2_000_000},s\n".encode()),
    "csv with a huge header": ("rows.csv", CANARY.encode() * 20_000 + b'"\n' + LINE),
    "csv with NUL": ("rows.csv", as_csv([GOOD]) + b"\0" + LINE),
    "csv with an infinite number": ("rows.csv", as_csv([GOOD, {**FINE[1], "a": "inf"}])),
    "csv with an enormous number": ("rows.csv", as_csv([GOOD, {**FINE[1], "a": "4711474711e301"}])),
    "csv named .ndjson": ("rows.ndjson", as_csv(FINE)),
    "csv named .parquet": ("rows.parquet", as_csv(FINE)),
    "csv semicolons": ("rows.csv", as_csv(FINE).replace(b",", b";")),
    "ndjson named .csv": ("rows.csv", as_ndjson(FINE)),
    "ndjson with mark named .csv": ("rows.csv", marked(as_ndjson(FINE))),
    "ndjson with text before": ("rows.ndjson", f"{CANARY}\n".encode() + as_ndjson(FINE)),
    "ndjson of an array": ("rows.json", json.dumps(FINE).encode()),
    "ndjson cut off": ("rows.ndjson", as_ndjson(FINE)[:-70] + b"\n"),
    "ndjson of two in a line": ("rows.ndjson", OBJECT.rstrip() + OBJECT),
    "ndjson with nested numbers": ("rows.ndjson", OBJECT.replace(NUMBER.encode(), f'{{"x": "{CANARY}"}}'.encode())),
    "ndjson with a key twice": ("rows.ndjson", OBJECT.replace(b"{", b'{"a": 4711471, ')),
    "ndjson with half a pair": ("rows.ndjson", OBJECT.replace(b'"who": "', b'"who": "\\ud800')),
    "ndjson with half a pair as a key": ("rows.ndjson", OBJECT.replace(b'"shop": "', b'"shop": "\\ud800')),
    "ndjson in latin-1": ("rows.ndjson", OBJECT.replace(b'"who": "', b'"who": "\xe9')),
    "ndjson deeply nested": ("rows.ndjson", b'{"a": ' + b"[" * 5_000 + NUMBER.encode() + b"]" * 5_000 + b"}\n"),
    "ndjson with a huge line": ("rows.ndjson", OBJECT.replace(CANARY.encode(), CANARY.encode() * 2_000_000, 1)),
    "parquet named .csv": ("rows.csv", as_parquet(FINE)),
    "parquet named .ndjson": ("rows.ndjson", as_parquet(FINE)),
    "parquet packed and cut off": ("rows.parquet.gz", gzip.compress(as_parquet(FINE))[:-300]),
    "parquet packed and flipped": ("rows.parquet.gz", flipped(gzip.compress(as_parquet(FINE)))),
    "gzip of nothing known": ("rows", gzip.compress(f"{CANARY}{NUMBER}".encode())),
}
CASES |= {f"parquet with a nested {role}": ("rows.parquet", as_nested(role)) for role in ("a", "at", "who")}
for kind, write in {"csv": as_csv, "ndjson": as_ndjson, "parquet": as_parquet}.items():
    make: Callable[[list[Row]], bytes] = write
    for role, rows in WRONG.items():
        CASES[f"{kind} with a wrong {role}"] = (f"rows.{kind}", make(rows))
        CASES[f"{kind} with a wrong {role}, told by its bytes"] = ("rows", make(rows))
    CASES[f"{kind} packed, cut off"] = (f"rows.{kind}.gz", gzip.compress(make(FINE))[:-12])
    CASES[f"{kind} packed, half"] = (f"rows.{kind}.gz", gzip.compress(make(FINE * 50))[:-150])
    CASES[f"{kind} packed, flipped"] = (f"rows.{kind}.gz", flipped(gzip.compress(make(FINE))))
    if kind == "parquet":
        CASES["parquet cut off"] = ("rows.parquet", make(FINE)[:-20])
        CASES["parquet half"] = ("rows.parquet", make(FINE)[:300])
        CASES["parquet flipped"] = ("rows.parquet", flipped(make(FINE)))
    else:
        CASES[f"{kind} with mark, wrong number"] = (f"rows.{kind}", marked(make(WRONG["a"])))
        CASES[f"{kind} with mark, told by its bytes"] = ("rows.txt", marked(make(WRONG["at"])))
        CASES[f"{kind} without times"] = (f"rows.{kind}", make(FINE).replace(b"2024-05-31", CANARY.encode()))
        CASES[f"{kind} with years as times"] = (f"rows.{kind}", make(FINE).replace(b"2024-05-31", b"4711"))


def check_output(said: str) -> None:
    folded = said.replace(",", "").lower()
    for secret in (CANARY, "47114", "hortense", "Traceback", "Aborted", "None", "zlib", "Arrow", "utf-8' codec"):
        assert secret.lower() not in folded, said[:2_000]
    assert said.startswith("Error: ")
    assert said.count("\n") == 1, "one sentence"
    assert "; " in said, "with a remedy"


@pytest.mark.parametrize("by", [False, True], ids=["one", "by"])
@pytest.mark.parametrize("case", CASES)
def test_no_error_shows_a_record(tmp_path: Path, case: str, by: bool) -> None:
    name, data = CASES[case]
    path = tmp_path / name
    path.write_bytes(data)
    arguments = [*ARGUMENTS, "--store", str(tmp_path / "s.db"), *(["--by", "shop"] if by else [])]
    sources: list[tuple[str, bytes | None]] = [(str(path), None)]
    if not by and len(data) < 1_000_000 and "named" not in case:
        sources.append(("-", data))
    for source, stdin in sources:
        result = CliRunner().invoke(command, [*arguments, source], input=stdin, prog_name="vestige")
        assert (result.exit_code, type(result.exception)) == (2, SystemExit), (result.exception, result.output)
        assert result.stdout == ""
        check_output(result.stderr.replace(str(tmp_path), ""))


@pytest.mark.parametrize("case", ["csv packed, half", "parquet flipped", "ndjson with a wrong at", "csv in latin-1"])
def test_no_error_shows_a_record_in_a_process(tmp_path: Path, case: str) -> None:
    name, data = CASES[case]
    (tmp_path / name).write_bytes(data)
    arguments = [sys.executable, "-m", "vestige", *ARGUMENTS, "--store", "s.db", name]
    done = subprocess.run(arguments, cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    check_output(done.stderr)
