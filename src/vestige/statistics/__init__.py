"""What is tracked, and how one batch moves it."""

from vestige.statistics.averages import Clipped, Mean
from vestige.statistics.least_squares import Fit, LeastSquares
from vestige.statistics.moments import Moments, Products
from vestige.statistics.newton import Descent, Model
from vestige.statistics.statistic import Averages, Statistic, differentiate

__all__ = [
    "Averages",
    "Clipped",
    "Descent",
    "Fit",
    "LeastSquares",
    "Mean",
    "Model",
    "Moments",
    "Products",
    "Statistic",
    "differentiate",
]
