"""A run over many keys prints what a run over few does, and says what it did not compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from vestige.cli import command, keyed_answers


def vestige(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], prog_name="vestige")


@pytest.fixture(params=["mean", "moments"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> list[object]:
    """A run over some keys, of which some have few rows."""
    rng = np.random.default_rng(0)
    rows = zip(rng.geometric(0.05, 4_000), rng.normal(size=4_000), strict=True)
    (tmp_path / "v.csv").write_text("shop,spent\n" + "".join(f"s{shop},{spent}\n" for shop, spent in rows))
    options = ["--column", "spent", "--statistic", request.param, "--retention", "512", "--seed", "1"]
    return ["run", tmp_path / "v.csv", *options, "--by", "shop"]


def test_few_and_many_print_the_same(run: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    few = vestige(*run)
    monkeypatch.setattr(keyed_answers, "FEW", 0)
    many = vestige(*run)
    assert few.exit_code == many.exit_code == 0
    if "mean" in run:
        assert many.stdout == few.stdout
        return
    said = "The answers of the other "
    assert said in many.stdout
    assert many.stdout.split(said)[0] == few.stdout.split("Note on")[0].split(said)[0] or "Note on" in few.stdout
    assert "--json and --strict compute all of them." in " ".join(many.stdout.split())
