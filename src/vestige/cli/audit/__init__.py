"""`vestige audit`: what retained records reveal about erased ones, in plain words.

Guarantee: each verdict follows from the figures printed with it; held by tests/test_cli_audit.py.
"""

from vestige.cli.audit import compare, examples, policy, store, table  # noqa: F401  # they add their commands
