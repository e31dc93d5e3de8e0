"""Stores in a PostgreSQL server, which many processes write."""

from vestige.store.postgres.reader import PostgresReader
from vestige.store.postgres.store import PostgresStore

__all__ = ["PostgresReader", "PostgresStore"]
