"""The paper's bounds as functions: how long records must be held for an error, and how long at least.

Immorlica, Lucier, Mobius, Siderius, "Online Algorithms with Limited Data Retention" (FORC 2024). Errors are expected
squared l2 errors unless said. Where the paper names no constant, a measured one is the default, and the docstring says
how it was measured.
Guarantee: held by tests/theory.
"""

from vestige.theory.batching import batched_to_streaming, streaming_to_batched
from vestige.theory.descent import descent_bound, noise_limit
from vestige.theory.lower import finite_lower_bound, lower_bound, mean_squared_error_floor, success_upper_bound

__all__ = [
    "batched_to_streaming",
    "descent_bound",
    "finite_lower_bound",
    "lower_bound",
    "mean_squared_error_floor",
    "noise_limit",
    "streaming_to_batched",
    "success_upper_bound",
]
