"""CSV as German spreadsheets write it, from the command line to the store and back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from vestige.cli import command

N = 900
RNG = np.random.default_rng(5)
TABLE = pd.DataFrame(
    {
        "betrag": np.round(RNG.gamma(2.0, 10.0, N), 2),
        "straße": RNG.choice(np.array(["Süd; links", "Nord"]), N),
        "bezahlt": RNG.random(N) < 0.5,
    }
)
TERMS = ("--column", "betrag", "--retention", 96, "--channel", "bits", "--by", "straße", "--store", "s.db", "--seed", 1)
DIALECT = ("--separator", ";", "--decimal", ",", "--encoding", "cp1252")


def vestige(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], prog_name="vestige")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_run_in_another_dialect_is_resumed_verified_and_remembered() -> None:
    options = {"sep": ";", "decimal": ",", "encoding": "cp1252", "index": False}
    TABLE[:600].to_csv("v.csv", **options)
    first = vestige("run", "v.csv", *TERMS, *DIALECT)
    assert first.exit_code == 0, first.output
    TABLE.to_csv("v.csv", **options)
    again = vestige("run", "v.csv", "--store", "s.db", "--seed", 1, "--json")
    assert again.exit_code == 0, again.output
    assert "separator ;; decimal ,; encoding cp1252" in again.stderr, "the dialect is that of the store"
    found = json.loads(again.stdout)
    assert found["taken"] == 300
    for key, rows in TABLE.groupby("straße"):
        error = 0.01 * rows.betrag.std() / np.sqrt(len(rows))
        assert abs(found["streams"][key]["value"]["betrag"] - rows.betrag.mean()) < error
    assert "nothing found" in vestige("verify", "s.db").output
    text = Path("v.csv").read_bytes()
    Path("v.csv").write_bytes(text.replace(b",", b"#").replace(b"1#", b"2#").replace(b"#", b","))
    assert "has changed in row" in vestige("verify", "s.db").output


def test_another_dialect_may_follow_in_the_same_store() -> None:
    TABLE[:600].to_csv("v.csv", sep=";", decimal=",", encoding="cp1252", index=False)
    TABLE[600:].to_csv("w.csv", index=False)
    for path, dialect in (("v.csv", DIALECT), ("w.csv", ())):
        result = vestige("run", path, *TERMS, *dialect, "--json")
        assert result.exit_code == 0, result.output
    assert sum(stream["t"] for stream in json.loads(result.stdout)["streams"].values()) == N
    assert "nothing found" in vestige("verify", "s.db").output, "each file is compared in a dialect that fits"


def test_a_file_in_a_dialect_that_came_later_is_verified() -> None:
    TABLE[:600].to_csv("v.csv", index=False)
    TABLE[600:].to_csv("w.csv", sep=";", decimal=",", encoding="cp1252", index=False)
    for path, dialect in (("v.csv", ()), ("w.csv", DIALECT)):
        result = vestige("run", path, *TERMS, *dialect, "--json")
        assert result.exit_code == 0, result.output
    assert "nothing found" in vestige("verify", "s.db").output, "the store remembers the dialect of its first run only"
    text = Path("w.csv").read_bytes()
    Path("w.csv").write_bytes(text.replace(b",", b"#").replace(b"1#", b"2#").replace(b"#", b","))
    assert "has changed in row" in vestige("verify", "s.db").output


def test_options_are_checked_and_suggested() -> None:
    TABLE.to_csv("v.csv", sep=";", decimal=",", index=False)
    assert "give --separator ';'" in vestige("run", "v.csv", *TERMS).stderr
    assert "give --decimal ," in vestige("run", "v.csv", *TERMS, "--separator", ";").stderr
    assert "separator='xy'" in vestige("run", "v.csv", *TERMS, "--separator", "xy").stderr
    for option, value in (("encoding", "x"), ("encoding", "zlib"), ("encoding", ""), ("separator", "")):
        assert f"{option}={value!r}" in vestige("run", "v.csv", *TERMS, f"--{option}", value).stderr
    TABLE.to_csv("t.csv", sep="\t", index=False)
    assert "t.csv" not in vestige("run", "t.csv", *TERMS, "--separator", "tab").stderr
    Path("vestige.toml").write_text("source = 'v.csv'\nseparator = ';'\ndecimal = ','\n")
    found = vestige("run", "--metric", "betrag:mean", "--metric", "bezahlt:shares", "--retention", 2_048, "--json")
    value = json.loads(found.stdout)["value"]
    assert abs(value["betrag:mean"]["value"]["betrag"] - TABLE.betrag.mean()) < 1e-6
    assert value["bezahlt:shares"]["counts"]["true"] == TABLE.bezahlt.sum()


@pytest.mark.parametrize("by", [(), ("--by", "straße")])
def test_a_file_of_another_dialect_is_read_in_it_ever_after(by: tuple[str, ...]) -> None:
    """A job that reads its folder in its own dialect goes on, and what the command line says wins."""
    Path("in").mkdir()
    Path("vestige.toml").write_text('source = "in"\ncolumn = "betrag"\nretention = 96\nstore = "s.db"\n')
    rows = [f"{i},k{i % 2}" for i in range(50)]
    Path("in/b.csv").write_text("\n".join(["betrag,straße", *rows, ""]))
    odd = Path("in/a.csv")
    odd.write_text("\n".join(["betrag;straße", *(f"{i},5;Süd" for i in range(40)), ""]), encoding="cp1252")
    read = vestige("run", odd, *by, *DIALECT)
    assert read.exit_code == 0, read.output
    for _ in range(2):
        result = vestige("run", *by, "--json")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["before"] >= 40
    with odd.open("a", encoding="cp1252") as file:
        file.write("1,5;Süd\n2,5;Nörd\n")
    result = vestige("run", *by, "--json")
    assert json.loads(result.stdout)["taken"] == 2, result.output
    assert "read as it was read before, with --separator ';' --decimal , --encoding cp1252" in result.stderr
    assert json.loads(vestige("verify", "s.db", "--json").stdout)["findings"] == []
    with odd.open("a", encoding="cp1252") as file:
        file.write("1,5;Süd\n")
    assert "not utf-8" in vestige("run", *by, "--encoding", "utf-8").stderr.lower()
    result = vestige("run", odd, *by, "--json")
    assert json.loads(result.stdout)["taken"] == 1, result.output
