"""One stream for each combination of several keys, against pandas' groups."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from vestige import open_reader
from vestige.cli import command

N = 1_200
RNG = np.random.default_rng(2)
TABLE = pd.DataFrame(
    {
        "country": RNG.choice(np.array(["DE", "F/R", "50%"]), N),
        "channel": RNG.choice(np.array(["web", "in/shop"]), N),
        "spent": RNG.gamma(2.0, 10.0, N),
        "who": RNG.choice(np.array(["ada", "bob"]), N),
    }
)
TABLE.loc[RNG.random(N) < 0.05, "channel"] = np.nan
RUN = (
    "--column",
    "spent",
    "--retention",
    96,
    "--by",
    "country",
    "--by",
    "channel",
    "--channel",
    "bits",
    "--store",
    "s.db",
    "--seed",
    1,
)


def vestige(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], prog_name="vestige")


def said(*arguments: object) -> Any:
    result = vestige(*arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def _file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    TABLE.to_csv("v.csv", index=False)


def groups() -> dict[str, pd.DataFrame]:
    """The rows of each combination, by the name that its stream should have."""
    quoted = {"F/R": "F%2FR", "50%": "50%25", "in/shop": "in%2Fshop"}
    return {
        "/".join(quoted.get(part, part) for part in pair): rows for pair, rows in TABLE.groupby(["country", "channel"])
    }


@pytest.mark.usefixtures("_file")
@pytest.mark.parametrize("prefix", [(), ("--stream", "eu/west")])
def test_each_combination_has_a_stream(prefix: tuple[str, ...]) -> None:
    text = Path("v.csv").read_text().splitlines(keepends=True)
    Path("v.csv").write_text("".join(text[:701]))
    said("run", "v.csv", *RUN, *prefix, "--json")
    with Path("v.csv").open("a") as file:
        file.writelines(text[701:])
    found = said("run", "v.csv", *RUN, *prefix, "--json")
    assert found["by"] == ["country", "channel"]
    assert found["before"] == 700
    assert found["streams"].keys() == groups().keys()
    start = "eu%2Fwest/" if prefix else ""
    rows = {row["stream"]: row["value"] for row in said("estimate", "s.db", "--format", "json")}
    for key, part in groups().items():
        error = 0.01 * part.spent.std() / np.sqrt(len(part))
        assert found["streams"][key]["t"] == len(part)
        assert abs(found["streams"][key]["value"]["spent"] - part.spent.mean()) < error
        assert abs(rows[start + key] - part.spent.mean()) < error
    listed = said("list", "s.db", "--json")["streams"]
    assert {entry["about"]["by"] == ["country", "channel"] for entry in listed.values()} == {True}
    assert "nothing found" in vestige("verify", "s.db").output
    for table in (vestige("run", "v.csv", *RUN, *prefix).stdout, vestige("estimate", "s.db").stdout):
        assert "by country, channel: 6 streams" in table
        assert re.search(r"┃ country\s+┃ channel\s+┃ records ┃", table)
        assert re.search(r"│ F/R\s+│ in/shop\s+│", table)
    Path("v.csv").write_text(Path("v.csv").read_text().replace(",in/shop,", ",in/town,"))
    assert "has changed in row" in vestige("verify", "s.db").output


@pytest.mark.usefixtures("_file")
def test_requests_reach_one_combination() -> None:
    said("run", "v.csv", *RUN, "--subject", "who", "--json")
    result = vestige("forget", "s.db", "--stream", "DE/web", "--subject", "ada", "--now")
    assert result.exit_code == 0, result.output
    held = open_reader("s.db").snapshot().streams
    hashed = open_reader("s.db").pseudonym("ada")
    assert hashed not in held["DE/web"][1].retained.subjects
    assert hashed in held["DE/in%2Fshop"][1].retained.subjects
    assert "there is no stream 'DE'" in vestige("estimate", "s.db", "--stream", "DE").stderr


@pytest.mark.usefixtures("_file")
def test_combinations_are_hashed_as_one() -> None:
    found = said("run", "v.csv", *RUN, "--hash-keys", "--json")
    assert len(found["streams"]) == 6
    assert all(re.fullmatch("[0-9a-f]{32}", key) for key in found["streams"])
    assert "by country, channel: 6 streams" in vestige("run", "v.csv", *RUN, "--hash-keys").stdout
    assert "by stream: 6 streams" in vestige("estimate", "s.db").stdout
    for key, part in groups().items():
        (row,) = said("estimate", "s.db", "--stream", key, "--format", "json")
        assert row["t"] == len(part)
    assert "nothing found" in vestige("verify", "s.db").output
    assert "keeps the keys of 'country', 'channel' as hashes" in vestige("run", "v.csv", *RUN).stderr


@pytest.mark.usefixtures("_file")
def test_a_key_is_named_once() -> None:
    assert "--by channel is given twice" in vestige("run", "v.csv", *RUN, "--by", "channel").stderr
    assert vestige("run", "v.csv", *RUN).exit_code == 0
    again = vestige("run", "v.csv", "--store", "s.db")
    assert "by country, channel" in again.stderr, "the terms of the store are the default"
    assert "Taken: 0 rows" in again.stdout
    other = vestige("run", "v.csv", *RUN[:4], "--by", "channel", "--stream", "DE", "--store", "s.db")
    assert "'DE/web'" in other.stderr, "another run's stream of the same name is refused"
    assert "other terms" in other.stderr
