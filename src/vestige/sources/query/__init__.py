"""A query of PostgreSQL as a source: its rows in the order of a cursor column, which is the position.

Guarantee: each row is counted once, wherever the reader is killed; held by tests/sources/test_query.py.
"""

from vestige.sources.query.source import QuerySource

__all__ = ["QuerySource"]
