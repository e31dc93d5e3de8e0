"""What is tracked, and how one batch moves it."""

from vestige.statistics.averages import Mean
from vestige.statistics.clipped import Bounded, Clipped, Limited
from vestige.statistics.descent import Descent
from vestige.statistics.least_squares import Fit, LeastSquares
from vestige.statistics.model import Model
from vestige.statistics.moments import Moments, Products
from vestige.statistics.present import Joint, Present, find_present
from vestige.statistics.ratio import Ratio
from vestige.statistics.shares import Shares
from vestige.statistics.statistic import Averages, Extent, Packing, Statistic, differentiate

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
    "Packing",
    "Present",
    "Products",
    "Ratio",
    "Shares",
    "Statistic",
    "differentiate",
    "find_present",
]
