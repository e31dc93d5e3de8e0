"""Where a run continues in a file, once it is known that the file was not replaced.

Guarantee: a replaced file is refused before any row is taken, and each row of the others is counted once; held by
tests/ingest/test_replaced_files.py and tests/store/test_crashes.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vestige.errors import SourceError
from vestige.sources.comparison import RowComparison, explain_difference
from vestige.sources.held import HeldRows
from vestige.sources.identity import FileIdentity, FileProgress, digest_key, find_name
from vestige.sources.positions import encode_position
from vestige.sources.protocol import History, Resumption

if TYPE_CHECKING:
    from vestige.sources.file import FileSource


def has_new_rows(source: FileSource, history: History) -> bool:
    """Tell without reading its rows whether a file may have some that were not taken.

    Args:
        source: file to read.
        history: what a store knows of the streams of this run.

    Returns:
        Whether it may.

    Raises:
        SourceError: the file cannot be read.
        OSError: nothing exists at the path.
    """
    _, progress = find_progress(source, history)
    return not progress.is_whole(_read_identity(source, replace(history, warn=lambda _: None), progress))


def recall_dialect(source: FileSource, identity: FileIdentity | None) -> FileSource:
    """Give a file the dialect that it was read in before, as far as this run says no other.

    Args:
        source: file to read.
        identity: what the store knows of the file; None if it was not read before.

    Returns:
        The file with its dialect.

    Example:
        >>> from vestige.sources import Dialect, FileSource
        >>> source = FileSource("a.csv", ["spent"], dialect=Dialect(decimal=","), recalled=("separator", "encoding"))
        >>> before = FileIdentity(1, 2, 500, 0, bytes(16), dialect=Dialect(separator=";"))
        >>> recall_dialect(source, before).dialect
        Dialect(separator=';', decimal=',', encoding='utf-8')
    """
    known = None if identity is None else identity.dialect
    if known is None:
        return source
    parts: dict[str, Any] = {part: getattr(known, part) for part in source.recalled}
    return replace(source, dialect=replace(source.dialect, **parts))


def resume_file(source: FileSource, history: History) -> Resumption:
    """Find where a file was left, and whether it is still the same file.

    Args:
        source: file to read.
        history: what a store knows of the streams of this run.

    Returns:
        The position to read from, and whether the file is another one.

    Raises:
        SourceError: the file was replaced, or cannot be read.
    """
    name, progress = find_progress(source, history)
    before, identity = progress.identity, _read_identity(source, history, progress)
    given, source = source, recall_dialect(source, before)
    moved = "" if before is None else before.explain_change(identity)
    change = "" if history.if_replaced == "continue" else moved
    is_whole = progress.is_whole(identity)
    different, compared = None, 0
    if not change and progress.furthest:
        held = history.held(name).drop_streams(progress.outdated)
        compared = len(held)
        different = _find_difference(source, history, held, identity.other_key, progress, is_whole=is_whole)
        change = "" if different is None else explain_difference(different)
    if history.if_replaced == "restart" and change:
        generation = 1 if before is None else before.generation + 1
        encoded = replace(identity, generation=generation, other_key=0, dialect=given.dialect).encode()
        return Resumption(replace(given, identity=encoded), name, encode_position(0, encoded), is_restarted=True)
    if change:
        raise SourceError(
            f"{source.path}: {change}; {_explain_remedy(history, progress, different)}: nothing was taken"
        )
    if history.if_replaced == "restart" and progress.furthest:
        history.warn(
            f"{source.path}: seems to be the file that was read before, so --if-replaced restart continues after row "
            f"{progress.furthest:,}; if it is another file after all, copy it and move the copy here"
        )
    if source.dialect != given.dialect and not is_whole:
        history.warn(
            f"{source.path}: read as it was read before, with {source.dialect.describe()}; options on the command line "
            "replace these"
        )
    identity = replace(identity, dialect=source.dialect)
    encoded = identity.encode()
    has_changed = before is not None and (
        bool(moved) or (before.key, before.dialect) != (identity.key, identity.dialect)
    )
    return Resumption(
        replace(source, identity=encoded),
        name,
        start=encode_position(progress.least, encoded),
        outdated=progress.outdated,
        renew=(lambda position: encode_position(source.order(position), encoded)) if has_changed else None,
        before=progress.furthest,
        compared=compared,
        is_whole=is_whole,
    )


def find_progress(source: FileSource, history: History) -> tuple[str, FileProgress]:
    """Find the name under which a store knows a file, and how far it was read.

    Args:
        source: file to read.
        history: what the store knows of the streams of this run.

    Returns:
        The name, and the progress.

    Raises:
        OSError: nothing exists at the path.
    """
    name = find_name(source.path, history.sources)
    return name, FileProgress.collect(history.positions(name)) if name in history.sources else FileProgress()


def _find_difference(
    source: FileSource, history: History, held: HeldRows, other_key: int, progress: FileProgress, *, is_whole: bool
) -> int | None:
    """Compare all held records with their rows; return the first row that has changed."""
    if is_whole and not len(held):
        return None  # no row is held, and none is new
    try:
        comparison = RowComparison(held, history.pseudonym, other_key)
        return comparison.find_difference(source.blocks(), progress.furthest)
    except SourceError as problem:
        raise SourceError(f"{problem}; nothing was taken") from None


def _read_identity(source: FileSource, history: History, progress: FileProgress) -> FileIdentity:
    """Read the identity of the file as it is now, with the key that its subjects are hashed with."""
    before = progress.identity
    identity = FileIdentity.read(source.path, 0 if before is None else before.generation)
    if source.subject is None:
        return identity
    key = digest_key(history.pseudonym)
    if before is None or before.key == key:
        return replace(identity, key=key, other_key=0 if before is None else before.other_key)
    history.warn(
        f"Subjects of the rows up to row {progress.furthest:,} cannot be compared with {source.path}: they were hashed "
        "with another key than the store has now"
    )
    return replace(identity, key=key, other_key=progress.furthest)


def _explain_remedy(history: History, progress: FileProgress, different: int | None) -> str:
    """Say what to do with a source that seems to be another one."""
    other = (
        "if another file took its place, --if-replaced restart counts it from its first row, including rows that were "
        "taken before"
    )
    if different is not None:
        return (
            "if a row was dropped or moved, put it back; if one was edited, restore it, since it is counted as it was "
            f"read (rows of people who have asked to be erased may be emptied); {other}"
        )
    missed = "" if history.by is None else ", and takes earlier rows that a stream has not taken"
    same = (
        f"if it contains the same rows and more, --if-replaced continue continues after row "
        f"{progress.furthest:,}{missed}"
    )
    return f"{same}; {other}"
