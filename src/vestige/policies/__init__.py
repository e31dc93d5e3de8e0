"""The policies that users reach for: statistics written through channels, and the window as the baseline."""

from vestige.policies.descent import CustomLoss, LogisticAnswer, LogisticRegression
from vestige.policies.encoded import Encoded
from vestige.policies.linear import LinearAnswer, LinearRegression
from vestige.policies.mean import Mean, MeanAnswer
from vestige.policies.moments import Covariance, CovarianceAnswer, Moments, MomentsAnswer
from vestige.policies.private import Private
from vestige.policies.window import Window

__all__ = [
    "Covariance",
    "CovarianceAnswer",
    "CustomLoss",
    "Encoded",
    "LinearAnswer",
    "LinearRegression",
    "LogisticAnswer",
    "LogisticRegression",
    "Mean",
    "MeanAnswer",
    "Moments",
    "MomentsAnswer",
    "Private",
    "Window",
]
