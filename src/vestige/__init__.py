"""All-time answers from a window of records; and the truth about what that window still reveals."""

from vestige import checks, paper, subset
from vestige.errors import VestigeError
from vestige.policies import Mean, Window
from vestige.policy import Policy
from vestige.records import Clock, Records
from vestige.stream import Batched, Estimate, Stream

__all__ = [
    "Batched",
    "Clock",
    "Estimate",
    "Mean",
    "Policy",
    "Records",
    "Stream",
    "VestigeError",
    "Window",
    "checks",
    "paper",
    "subset",
]
