"""`vestige export`: a copy of a store as tables, for people who live in SQL.

Guarantee: the tables hold the answers and the records of the store, and nothing else; held by tests/test_cli_export.py.
"""

from vestige.cli.export import command  # noqa: F401  # it adds the command
