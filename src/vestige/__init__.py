"""All-time statistics from a short window of records, and a measure of what that window still reveals.

Guarantee: the import is light, and `__all__` is the whole public surface; held by tests/test_public.py.
"""

from vestige import audit, checks, operations, paper, store, subset, theory
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
from vestige.policies import (
    Covariance,
    CustomLoss,
    LinearRegression,
    LogisticRegression,
    Mean,
    Moments,
    Private,
    Window,
)
from vestige.policy import Answer, Policy
from vestige.records import Clock, Records
from vestige.store import MemoryStore, Receipt, SqliteStore, open_reader, open_store
from vestige.stream import Batched, Estimate, Stream

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Batched",
    "CheckError",
    "Clock",
    "Covariance",
    "CustomLoss",
    "DataError",
    "Estimate",
    "LinearRegression",
    "LogisticRegression",
    "Mean",
    "MemoryStore",
    "MissingExtraError",
    "Moments",
    "NoAnswerError",
    "NoRecordsError",
    "ParameterError",
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
    "checks",
    "open_reader",
    "open_store",
    "operations",
    "paper",
    "store",
    "subset",
    "theory",
]
