"""Policies side by side: an honest window meets all definitions, presence bits fail all but retention."""

from __future__ import annotations

import dataclasses
import json
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
    return compare(policies, batches=12, trials=60, values=(-3.0, 3.0), workers=1)


def test_each_definition_has_its_column(compared: Comparison) -> None:
    window, bits, private = (compared[name] for name in ("Window", "Mean, bits", "Private"))
    assert window.meets_retention
    assert not window.refutes_unlearning
    assert window.knows_all.epsilon == window.knows_distribution.epsilon == 0.0
    assert window.cells[3:8] == ("met", "not refuted", ">= 0.00", ">= 0.00", "-")
    assert bits.meets_retention
    assert bits.refutes_unlearning
    assert bits.knows_all.epsilon > 0.9 * bits.knows_all.epsilon_ceiling
    assert bits.knows_all.reconstruction < 0.01
    assert private.knows_all.epsilon <= 1.0
    assert compared.batches == 12
    assert [row.is_proved for row in compared.rows] == [True, False, True, False]


def test_accuracy_is_measured(compared: Comparison) -> None:
    assert compared["Mean, bits"].error < 0.01
    # a window of 64 of 449 records: the deviation of its mean from that of all is sqrt(449 / 64 - 1) standard errors
    assert compared["Window"].error == pytest.approx(np.sqrt(449 / 64 - 1), rel=5 / np.sqrt(2 * 30))
    price = Private(bound=3.0, epsilon=1.0, delta=1e-6).price(32, 0.973)
    assert compared["Private"].error == pytest.approx(np.sqrt(price - 1), rel=5 / np.sqrt(2 * 30))


def test_it_prints_as_a_table_and_converts_to_a_dict(compared: Comparison) -> None:
    lines = str(compared).splitlines()
    assert len(lines) == 5
    assert lines[0].split("  ")[0] == "policy"
    facts = compared["my own"].to_dict()
    assert facts["policy"] == "my own"
    assert facts["knows_all"]["adversary"] == "knows-all"
    frame = compared.to_pandas().set_index("policy")
    assert frame.loc["Mean, bits", "epsilon"] == compared["Mean, bits"].knows_all.epsilon
    assert frame.loc["Window", "distribution_auc"] == compared["Window"].knows_distribution.auc
    assert frame["retention"].tolist() == [64] * 4


def test_several_retentions_are_compared_where_a_policy_can_work_with_them() -> None:
    policies = {"Window": Window(), "bits": Mean(channel="bits")}
    found = compare(policies, retention=(16, 96), batches=2, trials=20, workers=1)
    assert [(row.name, row.retention) for row in found.rows] == [("Window", 16), ("Window", 96), ("bits", 96)]
    assert found.notes == ("bits is left out at 16: its batches would be too short or too long.",)
    assert found.notes[0] in str(found)
    assert found.notes[0] in found._repr_html_()
    assert found["bits"].retention == found["bits", 96].retention == 96
    assert found["Window", 16].error == pytest.approx(np.sqrt(33 / 16 - 1), rel=0.5)
    for missing in ("Window", ("Window", 32), "nobody"):
        with pytest.raises(KeyError, match="is the key of"):
            found[missing]
    with pytest.raises(ParameterError, match="no policy can work with retention=8; use a longer one"):
        compare({"bits": Mean(channel="bits")}, retention=8)
    with pytest.raises(ParameterError, match="batches=0 is out of range"):
        compare(policies, batches=0)
    for bad, said in ((8.0, r"retention=8\.0 is out"), (None, "retention=None is out"), ([], "retention is empty")):
        with pytest.raises(ParameterError, match=said):
            compare(policies, retention=bad)  # type: ignore[arg-type]
    counted = compare({"Window": Window()}, retention=np.array([8]), batches=2, trials=20, workers=1)  # type: ignore[arg-type]
    assert json.loads(json.dumps(counted.to_dict()))["policies"][0]["retention"] == 8


def test_figures(compared: Comparison, tmp_path: Path) -> None:
    draw_comparison(compared, tmp_path / "a" / "compared.png")
    draw_leakage({row.name: row.knows_all for row in compared.rows}, tmp_path / "leakage.svg")
    draw_outlier(run_outlier(trials=1), tmp_path / "outlier.png")
    assert all((tmp_path / name).stat().st_size > 5_000 for name in ("a/compared.png", "leakage.svg", "outlier.png"))


def test_a_policy_is_drawn_at_its_error_and_the_price_of_forgetting_between_the_best_two(compared: Comparison) -> None:
    errors = {("Window", 64): 4.0, ("Window", 256): 4.0, ("Mean, bits", 64): 0.0, ("Mean, bits", 256): 0.0}
    errors |= {("Private", 64): 5.0, ("Private", 256): 2.0}
    rows = tuple(dataclasses.replace(compared[name], retention=m, error=off) for (name, m), off in errors.items())
    top, bottom = draw_comparison(dataclasses.replace(compared, rows=rows)).axes
    (drawn,) = (line for line in top.lines if line.get_label() == "Private")
    assert np.asarray(drawn.get_ydata()) == pytest.approx([np.hypot(1, 5), np.hypot(1, 2)])
    (band,) = top.collections
    assert band.get_label() == "the price of forgetting"
    heights = {(x, round(y, 6)) for x, y in np.asarray(band.get_paths()[0].vertices).tolist()}
    assert heights == {(m, round(float(np.hypot(1, off)), 6)) for m, off in ((64, 0), (256, 0), (64, 4), (256, 2))}
    epsilons = [float(line.get_ydata()[0]) for line in bottom.lines if len(line.get_xdata()) == 2]  # type: ignore[index,arg-type]
    assert max(epsilons) == pytest.approx(compared["Mean, bits"].knows_all.epsilon_ceiling)


def test_bad_comparisons_are_refused() -> None:
    with pytest.raises(ParameterError, match="policies is empty"):
        compare({})
    with pytest.raises(ParameterError, match="Moments answers with 2 numbers for 1 columns; compare needs"):
        compare({"moments": Moments(2)}, retention=128, batches=2, trials=20, workers=1)
