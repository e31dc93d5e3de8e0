"""The store in a SQLite file: one file, one writer, any number of readers, and nothing left of what was erased."""

from vestige.store.sqlite.reader import SqliteReader
from vestige.store.sqlite.store import SqliteStore

__all__ = ["SqliteReader", "SqliteStore"]
