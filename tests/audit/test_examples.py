"""Appendix D's states exactly, and the outlier's long life."""

from __future__ import annotations

import numpy as np
import pytest

from vestige.audit import run_appendix_d, run_outlier
from vestige.errors import ParameterError


def test_the_states_of_appendix_d() -> None:
    found = run_appendix_d(trials=300)
    first, second = found.states
    assert set(first) == {(10.0,), (0.0, 10.0)}
    assert set(second) == {(0.0,)}
    assert found.is_disjoint
    assert found.epsilon == found.epsilon_ceiling
    # the halves are (10 | 0, 10), (10 | 0, 10) and (0 | 10, 10): a third of the coins; five deviations of 600 trials
    assert first[10.0,] == pytest.approx(1 / 3, abs=5 * np.sqrt(2 / 9 / 600))


def test_the_outlier_fades_as_one_over_t_and_not_sooner() -> None:
    found = run_outlier(trials=4)
    t = found.retention + np.array(found.batches) * found.retention // 2 + 1
    assert found.excess["Window()"].tolist() == [0.0] * len(t)
    # the mean of all records is higher by a million over t, and Mean() says so to within a standard error
    assert found.excess["Mean()"] == pytest.approx(found.extreme / t, rel=1e-4)
    simple = found.excess["paper.SimpleMean()"]
    assert (simple > 0.01).all()
    assert simple[0] > simple[-1]


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ParameterError, match="trials=3 is out of range"):
        run_appendix_d(trials=3)
    with pytest.raises(ParameterError, match="trials=0 is out of range"):
        run_outlier(trials=0)
