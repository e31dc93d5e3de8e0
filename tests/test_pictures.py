"""The pictures for newcomers are true, and can be drawn."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from vestige import Mean

PICTURES = runpy.run_path(str(Path(__file__).parent.parent / "docs" / "pictures.py"))


@pytest.mark.parametrize(
    ("policy", "batch", "nearness"),
    [
        pytest.param(Mean(channel="average", tolerance=0), 20, 1e-3, marks=pytest.mark.slow),
        (Mean(channel="bits"), 32, 5 * 16.0 * 2.0**-30),
    ],
)
def test_what_is_drawn_says_the_mean_of_all(policy: Mean, batch: int, nearness: float) -> None:
    """An average to a thousandth, which no eye sees; a word to a step of its 30-bit residue for each batch."""
    run = PICTURES["choices"](policy, batch)
    assert len(run) == PICTURES["BATCHES"]
    for one in run:
        assert 0 < one.kept.sum() < batch
        assert abs(one.said - one.truth) < nearness
    if policy.channel == "average":
        np.testing.assert_allclose([one.values[one.kept].mean() for one in run], [one.said for one in run])


def test_all_can_be_drawn(tmp_path: Path) -> None:
    PICTURES["main"](tmp_path)
    for name in ("average.png", "word.png", "limit.png"):
        assert (tmp_path / name).stat().st_size > 10_000
