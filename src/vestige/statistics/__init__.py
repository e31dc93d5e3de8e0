"""What is tracked, and how one batch moves it."""

from vestige.statistics.averages import Mean
from vestige.statistics.descent import Descent, Model
from vestige.statistics.moments import Moments, Products
from vestige.statistics.squares import Fit, LeastSquares
from vestige.statistics.statistic import Statistic

__all__ = ["Descent", "Fit", "LeastSquares", "Mean", "Model", "Moments", "Products", "Statistic"]
