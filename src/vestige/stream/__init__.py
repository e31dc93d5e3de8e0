"""Streams own the clock, show the policy exactly what the model allows, and enforce the rules.

`Stream` is the streaming model and `Batched` the batched model of Section 2 of Immorlica et al. (2024). Both are thin:
what they do is in functions over the rules, the clock and records.
Guarantee: whatever a policy returns, the limits hold; held by tests/stream/test_rules.py.
"""

from vestige.stream.batched import Batched
from vestige.stream.open import copy_stream, open_stream
from vestige.stream.stream import Stream

__all__ = ["Batched", "Stream", "copy_stream", "open_stream"]
