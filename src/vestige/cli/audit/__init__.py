"""`vestige audit`: what retained records reveal about erased ones, in plain words."""

from vestige.cli.audit import compare, examples, source, store  # noqa: F401  # they add their commands
