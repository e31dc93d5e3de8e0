"""vestige init: what is written is TOML that vestige run takes as it is, and shows no value of a record."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import example, given
from hypothesis import strategies as st

from vestige.cli import command
from vestige.cli.init import quote_toml

N = 600
RNG = np.random.default_rng(17)


def vestige(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], prog_name="vestige")


def write(path: Path, *, late: int = 0) -> Path:
    spent, status = RNG.gamma(2.0, 10.0, N), RNG.choice(["ok", "on hold, paid"], N)
    rows = [
        {
            "at": 1_700_000_000 + 60 * (i - (late if i % 50 == 49 else 0)),
            "email": f"secret{i % 200}@example.org",
            "spent": None if i % 7 == 0 else round(float(spent[i]), 2),
            'odd "name" #:': i % 5,
            "un,named": i % 5,
            "status": str(status[i]),
            "country": "DE" if i % 3 else "FR",
            "is_new": bool(i % 2),
            "note": f"rarity {i}" if i % 2 else "",
        }
        for i in range(N)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text())


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_run_takes_what_was_written() -> None:
    write(Path("visits.ndjson"), late=20)
    result = vestige("init", "visits.ndjson")
    assert result.exit_code == 0, result.output
    assert read(Path("vestige.toml")) == {
        "source": "visits.ndjson",
        "store": "visits.db",
        "metric": [
            "spent:mean",
            'odd "name" #::mean',
            '"un,named":mean',
            'status:shares[ok,"on hold, paid"]',
            "country:shares[DE,FR]",
            "is_new:shares[false,true]",
        ],
        "max-age": "30d",
        "time": "at",
        "lateness": "1h",
    }
    run = vestige("run", "--json")
    assert run.exit_code == 0, run.output
    facts = json.loads(run.stdout)
    assert (facts["taken"], facts["late"], facts["skipped"]) == (N, 0, 0)
    text = Path("vestige.toml").read_text()
    assert [line for line in text.splitlines() if line.startswith("# by = ")] == ['# by = "country"']
    assert '# Others that it may be: "status".' in text
    chosen = text.replace('# subject = "email"', 'subject = "email"')
    Path("chosen.toml").write_text(chosen.replace('# by = "country"', 'by = "country"').replace("visits.db", "by.db"))
    assert read(Path("chosen.toml"))["by"] == "country"
    assert vestige("run", "--config", "chosen.toml").exit_code == 0


def test_no_value_of_a_record_is_shown() -> None:
    write(Path("visits.ndjson"))
    result = vestige("init", "visits.ndjson")
    shown = result.output + Path("vestige.toml").read_text()
    for text in ("secret", "rarity", "1700000", "17000"):
        assert text not in shown
    for text in ("600 rows, 9 columns", "14.3%", "subject?", "by?"):
        assert text in result.stdout


def test_paths_are_relative_to_the_file_that_is_written() -> None:
    Path("data").mkdir()
    Path("conf").mkdir()
    write(Path("data/visits.ndjson"))
    result = vestige("init", "data/visits.ndjson", "-o", "conf/night.toml")
    assert "Then call vestige run --config conf/night.toml." in " ".join(result.stdout.split())
    assert read(Path("conf/night.toml"))["source"] == "../data/visits.ndjson"
    assert vestige("run", "--config", "conf/night.toml").exit_code == 0
    assert Path("conf/visits.db").exists()


def test_the_dialect_is_written_too() -> None:
    rows = "".join(f"{i % 40},25;{'schön' if i % 2 else 'trüb'}\n" for i in range(400))
    Path("v.csv").write_text(f"temperatur;himmel\n{rows}", encoding="cp1252")
    result = vestige("init", "v.csv")
    assert 'Dialect: separator ";", decimal ",", encoding "cp1252".' in result.stdout
    written = read(Path("vestige.toml"))
    assert [written[key] for key in ("separator", "decimal", "encoding")] == [";", ",", "cp1252"]
    found = json.loads(vestige("run", "--json").stdout)
    assert found["value"]["temperatur:mean"]["value"]["temperatur"] == pytest.approx(19.75)
    assert found["value"]["himmel:shares"]["value"] == {"schön": 0.5, "trüb": 0.5, "other": 0.0}


@pytest.mark.parametrize("name", ["data/visits-*.ndjson", "data"])
def test_of_several_files_the_first_is_looked_at(name: str) -> None:
    Path("data").mkdir()
    for day in (9, 10):
        write(Path(f"data/visits-{day}.ndjson"))
    result = vestige("init", name)
    assert result.stdout.startswith("data/visits-9.ndjson: 600 rows")
    written = read(Path("vestige.toml"))
    assert (written["source"], written["store"]) == (name, "data.db" if name == "data" else "visits.db")
    Path("vestige.toml").write_text(Path("vestige.toml").read_text() + 'lateness = "1d"\n')
    run = vestige("run", "--json")
    assert json.loads(run.stdout)["taken"] == 2 * N, run.output


def test_nothing_is_overwritten() -> None:
    write(Path("visits.ndjson"))
    Path("vestige.toml").write_text("mine")
    result = vestige("init", "visits.ndjson")
    assert result.exit_code == 2
    assert "--out vestige.toml exists and is not overwritten" in result.stderr
    assert Path("vestige.toml").read_text() == "mine"


def test_a_name_that_toml_cannot_hold_is_refused() -> None:
    write(Path("v\udcff.ndjson"))
    result = vestige("init", "v\udcff.ndjson")
    assert "its name is not UTF-8, as TOML must be; rename it" in result.stderr
    assert not Path("vestige.toml").exists()


def test_times_that_are_too_late_are_not_used() -> None:
    write(Path("visits.ndjson"), late=8 * 24 * 60)
    vestige("init", "visits.ndjson")
    assert {"time", "lateness"}.isdisjoint(read(Path("vestige.toml")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("note\n" + "\n".join(map(str, "abcdefgh")), "v.csv: no column of its first 8 rows holds numbers"),
        ("a\n", "no rows"),
    ],
)
def test_a_file_that_says_nothing_is_refused(text: str, message: str) -> None:
    Path("v.csv").write_text(text)
    result = vestige("init", "v.csv")
    assert (result.exit_code, message in result.stderr) == (2, True), result.output
    assert not Path("vestige.toml").exists()
    assert "can be read only once" in vestige("init", "-").stderr


@example("\x7f\0\"\\'#\r\n\u2028")
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_text_comes_back_from_toml(text: str) -> None:
    line = f"# {quote_toml(text)}\nx = {quote_toml(text)}\n"
    assert tomllib.loads(line) == {"x": text}
