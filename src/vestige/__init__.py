"""All-time statistics from a short window of records, and a measure of what that window still reveals.

Guarantee: the import is light, and `__all__` is the whole public surface; held by tests/test_public.py.
"""

from vestige import audit, channels, checks, operations, paper, policies, statistics, store, subset, theory
from vestige.clock import Clock
from vestige.errors import (
    CheckError,
    DataError,
    MissingExtraError,
    NoAnswerError,
    NoRecordsError,
    ParameterError,
    RuleError,
    SourceError,
    StoreBusyError,
    StoreError,
    VestigeError,
)
from vestige.estimate import Estimate
from vestige.policies import (
    Bundle,
    BundleEstimate,
    Count,
    Covariance,
    CovarianceEstimate,
    CustomLoss,
    Extremes,
    ExtremesEstimate,
    LinearEstimate,
    LinearRegression,
    LogisticEstimate,
    LogisticRegression,
    Mean,
    MeanEstimate,
    Memory,
    MemoryEstimate,
    Moments,
    MomentsEstimate,
    ParametersEstimate,
    Private,
    Window,
    register_policy,
)
from vestige.policy import Policy
from vestige.records import Records
from vestige.store import MemoryStore, Receipt, SqliteStore, open_reader, open_store
from vestige.stream import Batched, Stream

__version__ = "0.1.0"

__all__ = [
    "Batched",
    "Bundle",
    "BundleEstimate",
    "CheckError",
    "Clock",
    "Count",
    "Covariance",
    "CovarianceEstimate",
    "CustomLoss",
    "DataError",
    "Estimate",
    "Extremes",
    "ExtremesEstimate",
    "LinearEstimate",
    "LinearRegression",
    "LogisticEstimate",
    "LogisticRegression",
    "Mean",
    "MeanEstimate",
    "Memory",
    "MemoryEstimate",
    "MemoryStore",
    "MissingExtraError",
    "Moments",
    "MomentsEstimate",
    "NoAnswerError",
    "NoRecordsError",
    "ParameterError",
    "ParametersEstimate",
    "Policy",
    "Private",
    "Receipt",
    "Records",
    "RuleError",
    "SourceError",
    "SqliteStore",
    "StoreBusyError",
    "StoreError",
    "Stream",
    "VestigeError",
    "Window",
    "audit",
    "channels",
    "checks",
    "open_reader",
    "open_store",
    "operations",
    "paper",
    "policies",
    "register_policy",
    "statistics",
    "store",
    "subset",
    "theory",
]
