"""The flights are complete and in time order."""

from __future__ import annotations

import numpy as np

from vestige.flights import flights


def test_flights_are_complete_and_in_time_order() -> None:
    rows = flights("month", "day", "sched_dep_time", "dep_delay")
    assert np.isfinite(rows).all()
    order = np.lexsort(rows[:, 2::-1].T)
    assert np.array_equal(order, np.arange(len(rows)))
