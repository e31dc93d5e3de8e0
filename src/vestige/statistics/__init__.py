"""What is tracked, and how one batch moves it."""

from vestige.statistics.averages import Clipped, Mean
from vestige.statistics.least_squares import Fit, LeastSquares
from vestige.statistics.moments import Moments, Products
from vestige.statistics.newton import Descent, Model
from vestige.statistics.present import Joint, Present, find_present
from vestige.statistics.ratio import Ratio
from vestige.statistics.shares import Shares
from vestige.statistics.statistic import Averages, Statistic, differentiate

__all__ = [
    "Averages",
    "Clipped",
    "Descent",
    "Fit",
    "Joint",
    "LeastSquares",
    "Mean",
    "Model",
    "Moments",
    "Present",
    "Products",
    "Ratio",
    "Shares",
    "Statistic",
    "differentiate",
    "find_present",
]
