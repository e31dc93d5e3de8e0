"""Which of these numbers have an average nearest this target? Arrays in, mask out; nothing here knows of records.

The nearest *average* is not the nearest *sum*: the sum favours tiny subsets, and on whole numbers it is a disaster.
Guarantee: methods that say `exact` are checked against brute force in tests/subset.
"""

from vestige.subset.api import improve, nearest_average, nearest_averages
from vestige.subset.methods import EXHAUSTIVE_LIMIT
from vestige.subset.problem import Selection

__all__ = ["EXHAUSTIVE_LIMIT", "Selection", "improve", "nearest_average", "nearest_averages"]
