"""Which of these numbers have an average nearest a target? Arrays in, mask out; this package knows no records.

The nearest *average* is not the nearest *sum*: the nearest sum favours tiny subsets, and is useless on whole numbers.
Guarantee: selections that are marked `exact` agree with brute force; held by tests/subset/test_subset.py.
"""

from vestige.subset.api import improve, nearest_average, nearest_averages
from vestige.subset.methods import EXHAUSTIVE_LIMIT
from vestige.subset.problem import Selection

__all__ = ["EXHAUSTIVE_LIMIT", "Selection", "improve", "nearest_average", "nearest_averages"]
