"""Where the state of streams lives while no process runs: durable, and gone without a trace when it has to be."""

from vestige.store.address import BACKENDS, open_reader, open_store
from vestige.store.keyring import Key, Keyring, KeyringFile, KeyTable, open_keyring
from vestige.store.ledger import Ledger, LedgerEntry
from vestige.store.memory import MemoryStore
from vestige.store.place import FamilyPlace, Place
from vestige.store.position import Position
from vestige.store.postgres import PostgresStore
from vestige.store.reader import Reader
from vestige.store.receipt import RECEIPTS_KEPT, Receipt
from vestige.store.snapshot import StoreSnapshot
from vestige.store.sqlite import SqliteStore
from vestige.store.state import State
from vestige.store.store import Store
from vestige.store.terms import Terms

__all__ = [
    "BACKENDS",
    "RECEIPTS_KEPT",
    "FamilyPlace",
    "Key",
    "KeyTable",
    "Keyring",
    "KeyringFile",
    "Ledger",
    "LedgerEntry",
    "MemoryStore",
    "Place",
    "Position",
    "PostgresStore",
    "Reader",
    "Receipt",
    "SqliteStore",
    "State",
    "Store",
    "StoreSnapshot",
    "Terms",
    "open_keyring",
    "open_reader",
    "open_store",
]
