"""Where the state of streams lives when no process runs: durable, and gone without a trace when it has to be."""

from vestige.store.memory import MemoryStore
from vestige.store.snapshot import read_store
from vestige.store.sqlite import SqliteStore
from vestige.store.state import RECEIPTS_KEPT, Position, Receipt, State, Terms
from vestige.store.store import Place, Store
from vestige.store.verify import verify

__all__ = [
    "RECEIPTS_KEPT",
    "MemoryStore",
    "Place",
    "Position",
    "Receipt",
    "SqliteStore",
    "State",
    "Store",
    "Terms",
    "read_store",
    "verify",
]
