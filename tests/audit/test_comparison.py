"""Policies side by side: an honest window meets all definitions, presence bits fail all but retention."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vestige import Mean, Moments, Private, Window
from vestige.audit import Comparison, compare, draw_comparison, draw_leakage, draw_outlier, outlier
from vestige.errors import ParameterError


@pytest.fixture(scope="module")
def compared() -> Comparison:
    policies = {
        "Window": Window(),
        "Mean, bits": Mean(channel="bits"),
        "Private": Private(bound=3.0, epsilon=1.0, delta=1e-6),
        "my own": Mean(channel="average", tolerance=0.1),
    }
    return compare(policies, t=64 + 32 * 12, trials=200, values=(-3.0, 3.0), workers=1)


def test_each_definition_has_its_column(compared: Comparison) -> None:
    window, bits, private = (compared[name] for name in ("Window", "Mean, bits", "Private"))
    assert window.held
    assert window.same
    assert window.known.epsilon == window.drawn.epsilon == 0.0
    assert window.cells[2:6] == ("held", "not refuted", ">= 0.00", "-")
    assert bits.held
    assert not bits.same
    assert bits.known.epsilon > 0.9 * bits.known.ceiling
    assert bits.known.reconstruction < 0.01
    assert private.known.epsilon <= 1.0
    assert compared.batches == pytest.approx(12, abs=0.1)


def test_accuracy_is_measured(compared: Comparison) -> None:
    assert compared["Mean, bits"].off < 0.01
    # a window of 64 of 448 records: the deviation of its mean from that of all is sqrt(448 / 64 - 1) standard errors
    assert compared["Window"].off == pytest.approx(np.sqrt(448 / 64 - 1), rel=5 / np.sqrt(2 * 100))
    price = Private(bound=3.0, epsilon=1.0, delta=1e-6).price(32, 0.973)
    assert compared["Private"].off == pytest.approx(np.sqrt(price - 1), rel=5 / np.sqrt(2 * 100))


def test_it_prints_as_a_table_and_as_facts(compared: Comparison) -> None:
    lines = str(compared).splitlines()
    assert len(lines) == 5
    assert lines[0].split("  ")[0] == "policy"
    facts = compared["my own"].facts
    assert facts["policy"] == "my own"
    assert facts["known"]["adversary"] == "knows-all"


def test_pictures(compared: Comparison, tmp_path: Path) -> None:
    draw_comparison(compared, tmp_path / "a" / "compared.png")
    draw_leakage({row.name: row.known for row in compared.rows}, tmp_path / "leakage.svg")
    draw_outlier(outlier(runs=1), tmp_path / "outlier.png")
    assert all((tmp_path / name).stat().st_size > 5_000 for name in ("a/compared.png", "leakage.svg", "outlier.png"))


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ParameterError, match="policies is empty"):
        compare({})
    with pytest.raises(ParameterError, match="Moments answers with 2 numbers for 1 columns; compare takes"):
        compare({"moments": Moments(2)}, retention=128, t=300, trials=20, workers=1)
