"""Categories that a run does not declare: those of the store, or else those of the file.

Guarantee: a stream keeps the categories that it began with; held by tests/test_cli_categories.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vestige.cli.output import warn
from vestige.cli.run_options import RunOptions
from vestige.errors import ParameterError
from vestige.ingest import StreamNames
from vestige.policies import NamedPolicy
from vestige.policies.metrics import join_options
from vestige.serialization import from_dict
from vestige.sources import FileSource
from vestige.sources.categories import find_categories
from vestige.sources.listing import order_by_time
from vestige.store import open_store
from vestige.store.terms import drop_defaults


def find_undeclared(options: RunOptions, paths: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Find the categories of the columns whose categories are not declared, and say which were found in the file.

    Args:
        options: options of the run.
        paths: its files.

    Returns:
        The categories by column; empty if all are declared.

    Raises:
        ParameterError: the rows come from a pipe, which can be read only once.
        SourceError: the file cannot be read, or no text has enough rows.
    """
    if not options.undeclared:
        return {}
    stored = _find_stored(options)
    found = {column: stored[column] for column in options.undeclared if column in stored}
    for column in options.undeclared:
        if column in found:
            continue
        source = _find_first(options, paths)
        if not source.resumable:
            raise ParameterError(
                f"{source.path}: the categories of {column!r} cannot be found in rows that can be read only once; "
                f"declare them, such as --metric {column}:shares[ok,failed] or --categories ok,failed"
            )
        found[column] = names = find_categories(source, column)
        listed = join_options(names)
        how = f"{column}:shares[{listed}]" if options.metrics else f"--categories {listed}"
        stay = "They stay in the store's terms after the records are erased; declare" if options.path else "Declare"
        warn(
            f"Categories of {column}: {', '.join(names)}, found in {source.path}; any other text counts as other. "
            f"{stay} them as {how} to choose."
        )
    return found


def _find_first(options: RunOptions, paths: Sequence[str]) -> FileSource:
    """The file that comes first in time, or by name."""
    sources = [options.make_source(path) for path in paths]
    return order_by_time(sources)[0] if options.time_column is not None and len(paths) > 1 else sources[0]


def _find_stored(options: RunOptions) -> dict[str, tuple[str, ...]]:
    """The categories that the streams of this run have in the store."""
    if options.path is None or not Path(options.path).exists():
        return {}
    names = None if options.by else (StreamNames(None, options.name).find_name(""),)
    with open_store(options.path, key=options.key) as store:
        for _, terms in store.iterate_terms(names):
            policy = from_dict(terms.policy).unwrap()
            if terms.fixed == drop_defaults(options.about) and isinstance(policy, NamedPolicy):
                return policy.name_categories(options.numbers)
    return {}
