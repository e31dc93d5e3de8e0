"""The command: what it reads, what it prints, how it fails."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from pyarrow import csv, parquet

from vestige import Mean, Stream
from vestige.cli import command
from vestige.cli.group import COMMANDS, load_commands
from vestige.store.tokens import SERVICE, create_token

PATH = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
ROWS = np.random.default_rng(0).normal(10.0, 2.0, (2_000, 2))


def vestige(*arguments: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], input=stdin, prog_name="vestige")


def last_line(result: Result) -> dict[str, object]:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.splitlines()[-1])  # type: ignore[no-any-return]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    table = pa.table({"name": ["x"] * len(ROWS), "a": ROWS[:, 0], "b": ROWS[:, 1]})
    paths = {kind: tmp_path / f"rows.{kind}" for kind in ("csv", "parquet", "ndjson", "data")}
    csv.write_csv(table, paths["csv"])
    csv.write_csv(table, paths["data"])
    parquet.write_table(table, paths["parquet"])
    lines = (json.dumps({"name": "x", "a": a, "b": b}) for a, b in ROWS.tolist())
    paths["ndjson"].write_text("\n".join(lines) + "\n")
    return paths


@pytest.mark.parametrize("kind", ["csv", "parquet", "ndjson", "data"])
def test_every_format_gives_the_answer_of_the_library(files: dict[str, Path], kind: str) -> None:
    said = last_line(vestige("run", files[kind], "--column", "a", "--retention", 96, "--seed", 5, "--json"))
    stream = Stream(Mean(), retention=96, seed=5)
    stream.extend(ROWS[:, 0])
    estimate = stream.estimate()
    assert said["value"] == {"a": pytest.approx(estimate.value, rel=1e-12)}
    assert (said["t"], said["skipped"], said["retention"]) == (2_000, 0, 96)
    assert isinstance(said["held"], int)
    assert isinstance(said["oldest_age"], int)
    assert said["oldest_age"] < 96


def test_several_columns_make_one_record(files: dict[str, Path]) -> None:
    said = last_line(
        vestige(
            "run", files["csv"], "--column", "a", "--column", "b", "--retention", 192, "--channel", "bits", "--json"
        )
    )
    assert said["value"] == {"a": pytest.approx(ROWS[:, 0].mean()), "b": pytest.approx(ROWS[:, 1].mean())}


@pytest.mark.parametrize(
    "text", ["a\n1\n\nNA\n3\n", "a,b\r\n1,2\r\n,5\r\nNA,6\r\n3,4\r\n", '{"a": 1}\n{"a": null}\n{"b": 3}\n{"a": 3}\n']
)
def test_standard_input_and_missing_values(text: str) -> None:
    said = last_line(vestige("run", "-", "--column", "a", "--retention", 96, "--json", stdin=text))
    assert (said["value"], said["t"], said["skipped"]) == ({"a": 2.0}, 2, 2)


def test_the_plain_output_says_what_is_held(files: dict[str, Path]) -> None:
    result = vestige("run", files["csv"], "--column", "a", "--retention", 96, "--seed", 0)
    assert "All-time mean of 2,000 records" in result.stdout
    assert "a " in result.stdout
    assert "records ago (limit 96)" in result.stdout
    assert "Skipped" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "stdin", "text"),
    [
        (["nowhere.csv", "--column", "a"], None, "nowhere.csv: does not exist; give a path, or - for standard input"),
        ([".", "--column", "a"], None, ".: is a folder"),
        (
            ["-", "--column", "c"],
            "a,b\n1,2\n",
            "-: has no column 'c'; its first line must be a header with that name",
        ),
        (["-", "--column", "a", "--by", "c"], "a,b\n1,2\n", "-: has no column 'c'; it has a, b"),
        (["-", "--column", "delya"], "delay,b\n1,2\n", "-: has no column 'delya'; did you mean 'delay'?"),
        (["-", "--column", "c"], '{"a": 1}\n', "-: no row has a value in each of c (1 row)"),
        (["-", "--column", "a"], "", "-: is empty"),
        (["-", "--column", "a"], "a\n", "no row has a value in each of a (0 rows)"),
        (["-", "--column", "a"], "a\nNA\n", "no row has a value in each of a (1 row)"),
        (["-", "--column", "a"], "\ufeff", "-: is empty"),
        (["-", "--column", "a"], "4711.25,3\n1,2\n", "-: has no column 'a'; its first line must be a header"),
        (["-", "--column", "a"], "a,a\n1,2\n", "-: has column 'a' more than once"),
        (["-", "--column", "a", "--column", "a"], "a\n1\n", "column 'a' is given twice"),
        (["-", "--column", "a"], "a\n1\n4711x\n", "-: row 2 has a value that is not a number"),
        (["-", "--column", "a"], '{"a": "4711x"}\n', "rows that cannot be parsed"),
        (["-", "--column", "a"], '{"a": [4711}\n', "rows that cannot be parsed"),
        (["-", "--column", "a"], "a,b\n1,2\n4711\n", "-: row 2 does not match the header: it has 1 fields"),
        (["-", "--column", "a"], "a\n1\ninf\n", "row 2 has an infinite value"),
        (["-", "--column", "a"], "a\n1\n1e305\n", "beyond 1e+300 in magnitude"),
        (["-", "--column", "a", "--retention", "20"], "a\n1\n", "use retention >= 44"),
        (["-", "--column", "a"], "PAR1 and so on", "Parquet cannot be read from a pipe"),
    ],
)
def test_bad_input_is_named_and_nothing_of_it_shown(arguments: list[str], stdin: str | None, text: str) -> None:
    arguments = arguments if "--retention" in arguments else [*arguments, "--retention", "96"]
    result = vestige("run", *arguments, stdin=stdin)
    assert result.exit_code != 0
    assert text in result.stderr
    assert "4711" not in result.output
    assert "Traceback" not in result.output


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(4_000, 2))
    y = x @ [1.0, 2.0] + 3.0 + rng.normal(size=4_000)
    path = tmp_path / "table.csv"
    csv.write_csv(pa.table({"a": x[:, 0], "b": x[:, 1], "y": y, "late": (y > 3.0).astype(float)}), path)
    return path


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--statistic", "moments", "--column", "y"], ["All-time moments of 4,000", "standard error", "kurtosis"]),
        (["--statistic", "covariance", "--column", "a", "--column", "b"], ["covariances of 4,000", "divided by n"]),
        (
            ["--statistic", "regression", "--column", "a", "--column", "b", "--target", "y"],
            ["least squares of 4,000", "(intercept)", "t value", "Residual standard error", "Condition number"],
        ),
        (
            ["--statistic", "logistic", "--column", "a", "--target", "late", "--half-life", "500"],
            ["logistic regression of late = 1", "odds ratio", "(intercept)"],
        ),
        (["--statistic", "mean", "--column", "y", "--half-life", "100"], ["All-time mean of 4,000"]),
    ],
)
def test_every_statistic_as_a_table_and_for_machines(table: Path, arguments: list[str], shown: list[str]) -> None:
    result = vestige("run", str(table), *arguments, "--retention", "1024", "--seed", "1")
    assert result.exit_code == 0, result.output
    for text in shown:
        assert text in result.stdout
    said = json.loads(vestige("run", str(table), *arguments, "--retention", "1024", "--seed", "1", "--json").stdout)
    assert said["statistic"] == arguments[1]
    assert said["t"] == 4_000


def test_a_regression_is_that_of_the_library(table: Path) -> None:
    arguments = ("--statistic", "regression", "--column", "a", "--column", "b", "--target", "y", "--retention", "1024")
    said = json.loads(vestige("run", str(table), *arguments, "--json").stdout)["value"]["y"]
    rows = np.loadtxt(table, delimiter=",", skiprows=1)
    fit = np.linalg.lstsq(np.column_stack([np.ones(4_000), rows[:, :2]]), rows[:, 2], rcond=None)[0]
    assert list(said["coefficients"].values()) == pytest.approx(fit.tolist(), abs=1e-6)
    assert list(said["coefficients"]) == ["(intercept)", "a", "b"]
    assert said["noise"] == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--column", "a", "--target", "y"], "--target y cannot be used with --statistic mean; leave it out"),
        (["--statistic", "regression", "--column", "a"], "--statistic regression has 0 targets; give at least one"),
        (["--statistic", "logistic", "--column", "a", "--target", "y"], "has no class"),
        (["--statistic", "moments", "--column", "a", "--column", "b"], "takes one --column, not 2; run it for each"),
        (["--statistic", "moments", "--column", "a", "--channel", "average"], "cannot hold --statistic moments"),
        (["--column", "a", "--half-life", "0"], "half_life=0.0 is out of range"),
        (["--column", "a", "--column", "a"], "column 'a' is given twice"),
    ],
)
def test_what_does_not_fit_the_statistic_is_refused(table: Path, arguments: list[str], text: str) -> None:
    result = vestige("run", str(table), *arguments, "--retention", "1024")
    assert result.exit_code != 0
    assert text in result.stderr


def test_module_and_script_are_the_same_command() -> None:
    shown = subprocess.run([sys.executable, "-m", "vestige", "--help"], check=True, capture_output=True, text=True)
    assert "Usage: vestige" in shown.stdout
    script = subprocess.run(["vestige", "--help"], env=os.environ | PATH, check=True, capture_output=True, text=True)
    assert script.stdout == shown.stdout


def test_without_the_extra_it_says_what_to_install() -> None:
    program = "import sys; sys.modules['click'] = None; from vestige.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert done.returncode != 0
    assert "pip install 'vestige[cli]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_pipe_that_is_read_in_blocks(tmp_path: Path) -> None:
    """More than one block, as a real pipe, with plain progress lines kept off standard output."""
    path = tmp_path / "long.csv"
    path.write_text("v\n" + "\n".join(map(str, range(300_000))) + "\n")
    with path.open("rb") as stream:
        done = subprocess.run(
            [sys.executable, "-m", "vestige", "run", "-", "--column", "v", "--retention", "96", "--json"],
            check=True,
            stdin=stream,
            capture_output=True,
            text=True,
        )
    said = json.loads(done.stdout)
    assert said["t"] == 300_000
    assert said["value"]["v"] == pytest.approx(149_999.5, abs=0.05 * 300_000 / np.sqrt(12 * 300_000))


def examples() -> list[str]:
    """The command lines that the help pages show."""
    pages = [page.help or "" for page in load_commands().commands.values()]
    lines = [line.strip() for page in pages for line in page.splitlines() if re.match(r" +(vestige|zcat) ", line)]
    return [line for line in lines if not re.search("redis://|postgresql://", line)]  # the guides run those


def test_help_pages_teach() -> None:
    """Each command in a line that is not cut off, and examples that stay as they are."""
    page = vestige("--help").output
    entries = re.findall(r"^  ([\w-]+)  +(.+)", page.split("Commands:")[1], flags=re.M)
    assert entries == [(name, entry.get_short_help_str(72)) for name, entry in load_commands().commands.items()]
    assert entries == [(name, help_line) for name, (_, help_line) in COMMANDS.items()]
    assert "..." not in page.split("Commands:")[1]
    for name in COMMANDS:
        shown = vestige(name, "--help").output
        assert "\\b" not in shown
        assert all(
            f"\n    {line}" in shown for line in examples() if line.startswith(f"vestige {name} ") and len(line) < 70
        )


def started(line: str) -> str:
    """What a service prints until it is asked to end, which it does as the signal says."""
    command = [*shlex.split(line), "--port", "0"]
    with subprocess.Popen(command, env=os.environ | PATH, stdout=subprocess.PIPE, text=True) as process:
        limit = threading.Timer(300, process.kill)  # a first start compiles kernels
        limit.start()
        assert process.stdout is not None
        printed = process.stdout.readline()
        process.terminate()
        assert process.wait() == -signal.SIGTERM
        limit.cancel()
    return printed


def entered(line: str) -> str:
    """What a line prints in the working directory; only a pipe needs a shell and a process, which take a second."""
    if line.startswith("vestige serve "):
        return started(line)
    if "|" in line:
        return subprocess.run(
            ["bash", "-c", line], env=os.environ | PATH, check=True, capture_output=True, text=True
        ).stdout
    result = vestige(*shlex.split(line)[1:])
    assert result.exit_code == 0, result.output
    return result.stdout


def seal(line: str, folder: Path) -> tuple[str, str]:
    """The same line with folders that exist, at a time when nothing is overdue; and what names its keyring."""
    for name in ("keys", "backups", "shop"):
        (folder / name).mkdir()
        line = line.replace(f" /{name}", f" {folder / name}")
    night = (
        f"source = '{folder}/visits.csv'\ncolumn = 'spent'\nsubject = 'email'\nretention = 512\nstore = 'night.db'\n"
    )
    for place in (folder, folder / "shop"):
        (place / "vestige.toml").write_text(night) if "vestige nightly" in line else None
    if "vestige verify" in line:
        line += " --at 2023-11-16T08:00"
    keyring = re.search(r" --keyring (\S+)", line)
    if keyring is not None:
        entered(f"vestige keyring init {keyring[1]}")
    return line, "" if keyring is None else keyring[0]


SAID = {
    "^vestige (list|receipts|retained|verify)": ("arrived", "receipt", "stream,round,time", "visits.db: nothing found"),
    "nightly": ("All went well.",),
    "keygen": ("keep receipts.pem secret, and publish receipts.pem.pub.",),
    "^vestige token.* --add": ("",),  # a token, which nobody can foresee
    "^vestige token": ("collector-1", "is revoked"),
    "serve": ("at http://127.0.0.1:", "at http://0.0.0.0:"),
    "warm": ("Ready: the kernels of",),
    "init": ("is a new keyring", "vestige.toml: written; read it, and change what you need.", "night.toml: written"),
    "plan": ("requires a retention of", "each held for at most 30 days"),
    "export": ("THIS COPY HOLDS RECORDS",),
    "remove": ("1 stream removed from visits.db, name included (main).",),
    "audit table": ("Not shown: no record is missing",),
    "audit": (
        "Verdict: ",
        "the other definitions can be refuted but not proved",
        "have no state in common",
        "records kept.",
    ),
    "forget": ("records would be erased", "receipt"),
}
"""Texts of which an example prints at least one, by the first pattern that it matches."""


def find_texts(line: str) -> tuple[str, ...]:
    """Texts of which an example prints at least one."""
    for pattern, texts in SAID.items():
        if re.search(pattern, line):
            return texts
    return "2,000 records", '"t": 2000'


@pytest.mark.parametrize("line", examples())
def test_the_examples_of_the_help_pages_run(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = pa.table(
        {
            name: ROWS[:, 0] + i * ROWS[::-1, 0]
            for i, name in enumerate(("dep_delay", "distance", "air_time", "latency", "spent"))
        }
        | {
            "carrier": ["AA", "UA"] * 1_000,
            "at": 1_700_000_000 + np.arange(2_000) * 60,
            "email": ["ada@example.org"] * 2_000,
            "country": ["DE", "FR"] * 1_000,
            "channel": ["web"] * 2_000,
            "status": ["ok", "failed"] * 1_000,
        }
    )
    csv.write_csv(table, tmp_path / "visits.csv")
    for number, day in enumerate(("monday", "tuesday", "wednesday")):
        seen = {"customer_no": np.arange(500) + 100 * number, "amount": ROWS[100 * number : 100 * number + 500, 0]}
        csv.write_csv(pa.table(seen), tmp_path / f"{day}.csv")
    (tmp_path / "leavers.txt").write_text("ada@example.org\n")
    csv.write_csv(table, tmp_path / "flights.csv")
    parquet.write_table(table, tmp_path / "flights.parquet")
    with gzip.open(tmp_path / "log.csv.gz", "wb") as packed:
        csv.write_csv(table, packed)
    needed = (
        "--store delays.db" if "audit store" in line else "email --store visits.db" if "visits.db" in line else None
    )
    if "visits.tokens" in line and "--add" not in line:
        create_token("visits.tokens", "collector-1", "ingest", kind=SERVICE)
    line, sealed = seal(line, tmp_path)
    if needed is not None and "vestige run" not in line:
        entered(next(example for example in examples() if needed in example and "vestige run" in example) + sealed)
        for copy in ("monday.db", "dump.sql.gz", "backups/monday.db") if "--against" in line else ():
            shutil.copy("visits.db", copy)
    if "audit" in line and "appendix" not in line and "store" not in line and "table" not in line:
        line += " --trials 20 --batches 1"
    printed = " ".join(entered(line).split())
    assert any(text in printed for text in find_texts(line))
    for figure in re.findall(r"--figure (\S+)", line):
        assert Path(figure).read_bytes().startswith(b"\x89PNG")


def test_columns_of_many_kinds(tmp_path: Path) -> None:
    columns = {
        "whole": pa.array([2**60, 2**60, None], pa.int64()),
        "exact": pa.array([1, 3, None], pa.decimal128(10, 2)),
        "text": pa.array(["a", "b", "c"]),
    }
    parquet.write_table(pa.table(columns), tmp_path / "kinds.parquet")
    said = last_line(
        vestige(
            "run", tmp_path / "kinds.parquet", "--column", "whole", "--column", "exact", "--retention", 192, "--json"
        )
    )
    assert (said["value"], said["skipped"]) == ({"whole": 2.0**60, "exact": 2.0}, 1)
    result = vestige("run", tmp_path / "kinds.parquet", "--column", "text", "--retention", 96)
    assert "column 'text' is not numeric in rows 1 to 3" in result.stderr


def test_ndjson_whose_columns_change_kind(tmp_path: Path) -> None:
    rows = [{"a": 1, "other": 1}, {"a": None}, {"other": "x"}, {"a": 2.5, "other": [1]}]
    path = tmp_path / "rows.ndjson"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    said = last_line(vestige("run", path, "--column", "a", "--retention", 96, "--json"))
    assert (said["value"], said["t"], said["skipped"]) == ({"a": 1.75}, 2, 2)


def test_gzip_and_a_pipe_by_name(files: dict[str, Path]) -> None:
    packed = files["csv"].with_suffix(".csv.gz")
    packed.write_bytes(gzip.compress(files["csv"].read_bytes()))
    said = last_line(vestige("run", packed, "--column", "a", "--retention", 96, "--json"))
    assert said["t"] == 2_000
    line = f"vestige run <(cat {files['csv']}) --column a --retention 96 --json"
    done = subprocess.run(["bash", "-c", line], env=os.environ | PATH, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["t"] == 2_000


def test_a_column_name_is_shown_as_it_is() -> None:
    result = vestige("run", "-", "--column", "speed [m/s]", "--retention", 96, stdin="speed [m/s],x[/y]\n1,2\n")
    assert "speed [m/s]" in result.stdout
