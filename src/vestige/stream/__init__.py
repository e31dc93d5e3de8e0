"""The runtime: it owns the clock, hands the policy exactly what the model allows, and enforces the rules."""

from vestige.stream.batched import Batched
from vestige.stream.open import open_stream, revived
from vestige.stream.runtime import Estimate, Runtime
from vestige.stream.stream import Stream

__all__ = ["Batched", "Estimate", "Runtime", "Stream", "open_stream", "revived"]
