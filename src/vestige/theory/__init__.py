"""Bounds as functions: the retention that suffices for an error, and the retention that is necessary.

Immorlica, Lucier, Mobius, Siderius, "Online Algorithms with Limited Data Retention" (FORC 2024,
https://doi.org/10.48550/arXiv.2404.10997), and a sharper lower bound of our own, `information_floor`. Errors are
expected squared l2 errors if not stated otherwise. Where the paper does not name a constant, the default is a measured
one, and the docstring says how it was measured.
docs/theorems.md maps each claim to its function here and to the test that tries to break it.
Guarantee: the bounds hold in Monte Carlo trials; held by tests/theory/test_upper_bounds.py and its neighbours.
"""

from vestige.theory.conversion import batched_to_streaming, streaming_to_batched
from vestige.theory.descent import descent_bound, noise_limit
from vestige.theory.groups import group_density, group_size, normal_group_density, proven_group_size
from vestige.theory.information import (
    heuristic_batch,
    information_floor,
    least_batch,
    least_retention,
    streaming_floor,
)
from vestige.theory.lower_bounds import finite_lower_bound, lower_bound, mean_squared_error_floor, success_upper_bound
from vestige.theory.subsets import subset_sum_failure, subset_sum_size, vector_subset_size
from vestige.theory.upper_bounds import (
    mean_retention,
    mean_rounds,
    regression_retention,
    regression_rounds,
    simple_mean_retention,
    simple_mean_rounds,
    window_retention,
)

__all__ = [
    "batched_to_streaming",
    "descent_bound",
    "finite_lower_bound",
    "group_density",
    "group_size",
    "heuristic_batch",
    "information_floor",
    "least_batch",
    "least_retention",
    "lower_bound",
    "mean_retention",
    "mean_rounds",
    "mean_squared_error_floor",
    "noise_limit",
    "normal_group_density",
    "proven_group_size",
    "regression_retention",
    "regression_rounds",
    "simple_mean_retention",
    "simple_mean_rounds",
    "streaming_floor",
    "streaming_to_batched",
    "subset_sum_failure",
    "subset_sum_size",
    "success_upper_bound",
    "vector_subset_size",
    "window_retention",
]
