"""Policies side by side: an honest window meets all definitions, presence bits fail all but retention."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from vestige import Mean, Moments, Private, Window
from vestige.audit import Comparison, compare, draw_comparison, draw_leakage, draw_outlier, run_outlier
from vestige.errors import ParameterError


@pytest.fixture(scope="module")
def compared() -> Comparison:
    policies = {
        "Window": Window(),
        "Mean, bits": Mean(channel="bits"),
        "Private": Private(bound=3.0, epsilon=1.0, delta=1e-6),
        "my own": Mean(channel="average", tolerance=0.1),
    }
    return compare(policies, t=64 + 32 * 12, trials=60, values=(-3.0, 3.0), workers=1)


def test_each_definition_has_its_column(compared: Comparison) -> None:
    window, bits, private = (compared[name] for name in ("Window", "Mean, bits", "Private"))
    assert window.meets_retention
    assert not window.refutes_unlearning
    assert window.knows_all.epsilon == window.knows_distribution.epsilon == 0.0
    assert window.cells[2:6] == ("met", "not refuted", ">= 0.00", "-")
    assert bits.meets_retention
    assert bits.refutes_unlearning
    assert bits.knows_all.epsilon > 0.9 * bits.knows_all.epsilon_ceiling
    assert bits.knows_all.reconstruction < 0.01
    assert private.knows_all.epsilon <= 1.0
    assert compared.batches == pytest.approx(12, abs=0.1)


def test_accuracy_is_measured(compared: Comparison) -> None:
    assert compared["Mean, bits"].error < 0.01
    # a window of 64 of 448 records: the deviation of its mean from that of all is sqrt(448 / 64 - 1) standard errors
    assert compared["Window"].error == pytest.approx(np.sqrt(448 / 64 - 1), rel=5 / np.sqrt(2 * 30))
    price = Private(bound=3.0, epsilon=1.0, delta=1e-6).price(32, 0.973)
    assert compared["Private"].error == pytest.approx(np.sqrt(price - 1), rel=5 / np.sqrt(2 * 30))


def test_it_prints_as_a_table_and_converts_to_a_dict(compared: Comparison) -> None:
    lines = str(compared).splitlines()
    assert len(lines) == 5
    assert lines[0].split("  ")[0] == "policy"
    facts = compared["my own"].to_dict()
    assert facts["policy"] == "my own"
    assert facts["knows_all"]["adversary"] == "knows-all"


def test_figures(compared: Comparison, tmp_path: Path) -> None:
    draw_comparison(compared, tmp_path / "a" / "compared.png")
    draw_leakage({row.name: row.knows_all for row in compared.rows}, tmp_path / "leakage.svg")
    draw_outlier(run_outlier(trials=1), tmp_path / "outlier.png")
    assert all((tmp_path / name).stat().st_size > 5_000 for name in ("a/compared.png", "leakage.svg", "outlier.png"))


@pytest.mark.parametrize("error", [3.97e-8, 0.5])
def test_a_policy_is_drawn_at_its_error(compared: Comparison, error: float) -> None:
    row = dataclasses.replace(compared["Mean, bits"], error=error)
    (panel,) = draw_comparison(dataclasses.replace(compared, rows=(row,))).axes
    (drawn,) = (line for line in panel.lines if line.get_label() == "Mean, bits")
    assert np.asarray(drawn.get_xdata()).tolist() == [error]


def test_bad_comparisons_are_refused() -> None:
    with pytest.raises(ParameterError, match="policies is empty"):
        compare({})
    with pytest.raises(ParameterError, match="Moments answers with 2 numbers for 1 columns; compare needs"):
        compare({"moments": Moments(2)}, retention=128, t=300, trials=20, workers=1)
