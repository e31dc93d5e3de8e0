"""Categories that a run does not declare: those of the store, or else those of the file.

Guarantee: a stream keeps the categories that it began with; held by tests/test_cli_categories.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from vestige.cli.output import warn
from vestige.cli.run_options import AnySource, RunOptions
from vestige.errors import NoStoreError, ParameterError, SourceError
from vestige.ingest import StreamNames
from vestige.policies import Bundle, Count, Distinct, NamedPolicy
from vestige.policies.metrics import join_options
from vestige.serialization import from_dict
from vestige.sources import FileSource
from vestige.sources.categories import find_categories
from vestige.sources.listing import order_by_time
from vestige.store.terms import drop_defaults

_NUMBER = re.compile(r"\s*[+-]?[.,]?\d[\d.,]*(?:[eE][+-]?\d+)?\s*$")
_TEXTUAL = (Count.name, Distinct.name)


def find_undeclared(options: RunOptions, paths: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Find the categories of the columns whose categories are not declared, and say which were found in the file.

    A column whose distinct values are counted holds texts, without categories, if those of its first file are not all
    numbers.

    Args:
        options: options of the run.
        paths: its files.

    Returns:
        The categories by column, none for a column of any texts; empty if all are declared.

    Raises:
        ParameterError: the rows come from a pipe, which can be read only once.
        SourceError: the file cannot be read, or no text has enough rows.
    """
    if not options.undeclared and not options.uncertain:
        return {}
    stored = _find_stored(options)
    wanted = (*options.undeclared, *options.uncertain)
    found = {} if stored is None else {column: stored[column] for column in wanted if column in stored}
    if stored is None:
        found |= {column: () for column in options.uncertain if _holds_text(_find_first(options, paths), column)}
    for column in options.undeclared:
        if column in found:
            continue
        source = _find_first(options, paths)
        if not isinstance(source, FileSource) or not source.resumable:
            raise ParameterError(
                f"{source.name}: the categories of {column!r} cannot be found in rows that can be read only once; "
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


def _find_first(options: RunOptions, paths: Sequence[str]) -> AnySource:
    """The file that comes first in time, or by name."""
    sources = [options.make_source(path) for path in paths]
    files = [source for source in sources if isinstance(source, FileSource)]
    return order_by_time(files)[0] if options.time_column is not None and len(files) > 1 else sources[0]


def _holds_text(source: AnySource, column: str) -> bool:
    """Whether a column can be read as text and not as numbers; a file that cannot be read at all is reported later."""
    if not isinstance(source, FileSource) or not source.resumable:
        return False
    alone = replace(source, columns=(column,), time=None, subject=None, by=None, hash_key=None, keep_missing=True)
    try:
        for _ in alone.blocks():
            pass
    except SourceError:
        with suppress(SourceError):
            next(replace(alone, categories={column: ()}).blocks(), None)
            return True
    return False


def explain_text(source: FileSource, policy: NamedPolicy) -> str:
    """Say which column holds text although its statistics need numbers.

    Args:
        source: file whose first rows cannot be read.
        policy: the statistics.

    Returns:
        A clause for an error; empty if there is no such column.
    """
    needed: dict[str, list[str]] = {}
    groups = policy.groups if isinstance(policy, Bundle) else ((tuple(source.columns), (policy,)),)
    for names, policies in groups:
        for column in names:
            needed.setdefault(column, []).extend(each.metric_name for each in policies if each.name not in _TEXTUAL)
    for column, statistics in needed.items():
        if statistics and column not in source.categories and _has_no_numbers(source, column):
            need = "needs" if len(statistics) == 1 else "need"
            return (
                f"; {column!r} holds text, and {' and '.join(statistics)} {need} numbers: distinct and shares take "
                "text, in a column of their own"
            )
    return ""


def _has_no_numbers(source: FileSource, column: str) -> bool:
    """Whether the first rows of a column have texts and no number, so that it is not only a row that is wrong."""
    alone = replace(source, columns=(column,), time=None, subject=None, by=column, hash_key=None, keep_missing=True)
    with suppress(SourceError):
        block = next(replace(alone, categories={column: ()}).blocks(), None)
        texts = [] if block is None or block.keys is None else [str(key) for key in block.keys]
        return bool(texts) and not any(_NUMBER.match(text) for text in texts)
    return False


def _find_stored(options: RunOptions) -> dict[str, tuple[str, ...]] | None:
    """The categories that the streams of this run have in the store; None if there are no such streams yet."""
    if options.store is None:
        return None
    names = None if options.by else (StreamNames(None, options.name).find_name(""),)
    try:
        opened = options.store.open()
    except NoStoreError:
        return None
    with opened as store:
        for _, terms in store.iterate_terms(names):
            policy = from_dict(terms.policy).unwrap()
            if terms.fixed == drop_defaults(options.about) and isinstance(policy, NamedPolicy):
                return policy.name_categories(options.numbers)
    return None
