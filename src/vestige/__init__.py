"""All-time answers from a window of records; and the truth about what that window still reveals."""

from vestige import audit, checks, operations, paper, store, subset, theory
from vestige.errors import VestigeError
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
from vestige.store import MemoryStore, Receipt, SqliteStore
from vestige.stream import Batched, Estimate, Stream

__all__ = [
    "Answer",
    "Batched",
    "Clock",
    "Covariance",
    "CustomLoss",
    "Estimate",
    "LinearRegression",
    "LogisticRegression",
    "Mean",
    "MemoryStore",
    "Moments",
    "Policy",
    "Private",
    "Receipt",
    "Records",
    "SqliteStore",
    "Stream",
    "VestigeError",
    "Window",
    "audit",
    "checks",
    "operations",
    "paper",
    "store",
    "subset",
    "theory",
]
