"""Operations on a whole store, in which one stream's trouble is its own."""

from vestige.operations.inbox import ask, attend
from vestige.operations.outcome import Attended, Erasure, Forgotten, Removal, Removed, Swept
from vestige.operations.removal import forget, remove
from vestige.operations.retention import preview, sweep

__all__ = [
    "Attended",
    "Erasure",
    "Forgotten",
    "Removal",
    "Removed",
    "Swept",
    "ask",
    "attend",
    "forget",
    "preview",
    "remove",
    "sweep",
]
