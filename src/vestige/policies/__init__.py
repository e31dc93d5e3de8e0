"""The policies that users reach for: statistics written through channels, and the window as the baseline."""

from vestige.policies.base import Encoded
from vestige.policies.bundle import Bundle, BundleEstimate
from vestige.policies.correlation import Correlation, CorrelationEstimate
from vestige.policies.count import Count, CountEstimate
from vestige.policies.covariance import Covariance, CovarianceEstimate
from vestige.policies.custom_loss import CustomLoss, ParametersEstimate
from vestige.policies.distinct import Distinct, DistinctEstimate
from vestige.policies.exact_histogram import ExactHistogram
from vestige.policies.extremes import Extremes, ExtremesEstimate
from vestige.policies.histogram import Histogram, HistogramEstimate, Shares
from vestige.policies.histogram_quantiles import HistogramQuantiles
from vestige.policies.linear import LinearEstimate, LinearRegression
from vestige.policies.logistic import LogisticEstimate, LogisticRegression
from vestige.policies.mean import Mean, MeanEstimate
from vestige.policies.memory import Memory, MemoryEstimate
from vestige.policies.moments import Moments, MomentsEstimate
from vestige.policies.named_policy import NamedPolicy
from vestige.policies.private import Private
from vestige.policies.quantiles import Quantiles, QuantilesEstimate
from vestige.policies.ratio import Ratio, RatioEstimate
from vestige.policies.registry import POLICIES, STATISTICS, register_policy
from vestige.policies.report import Remark, Report
from vestige.policies.stateful import Stateful
from vestige.policies.sum import Sum, SumEstimate
from vestige.policies.top_k import TopK, TopKEstimate
from vestige.policies.window import Window

__all__ = [
    "POLICIES",
    "STATISTICS",
    "Bundle",
    "BundleEstimate",
    "Correlation",
    "CorrelationEstimate",
    "Count",
    "CountEstimate",
    "Covariance",
    "CovarianceEstimate",
    "CustomLoss",
    "Distinct",
    "DistinctEstimate",
    "Encoded",
    "ExactHistogram",
    "Extremes",
    "ExtremesEstimate",
    "Histogram",
    "HistogramEstimate",
    "HistogramQuantiles",
    "LinearEstimate",
    "LinearRegression",
    "LogisticEstimate",
    "LogisticRegression",
    "Mean",
    "MeanEstimate",
    "Memory",
    "MemoryEstimate",
    "Moments",
    "MomentsEstimate",
    "NamedPolicy",
    "ParametersEstimate",
    "Private",
    "Quantiles",
    "QuantilesEstimate",
    "Ratio",
    "RatioEstimate",
    "Remark",
    "Report",
    "Shares",
    "Stateful",
    "Sum",
    "SumEstimate",
    "TopK",
    "TopKEstimate",
    "Window",
    "register_policy",
]
