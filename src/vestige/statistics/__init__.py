"""What is tracked, and how one batch moves it."""

from vestige.statistics.averages import Mean
from vestige.statistics.clipped import Bounded, Clipped, Limited
from vestige.statistics.least_squares import Fit, LeastSquares
from vestige.statistics.moments import Moments, Products
from vestige.statistics.newton import Descent, Model
from vestige.statistics.present import Joint, Present, find_present
from vestige.statistics.ratio import Ratio
from vestige.statistics.shares import Shares
from vestige.statistics.statistic import Averages, Extent, Statistic, differentiate

__all__ = [
    "Averages",
    "Bounded",
    "Clipped",
    "Descent",
    "Extent",
    "Fit",
    "Joint",
    "LeastSquares",
    "Limited",
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
