"""Where a run continues in a file, once it is known that the file was not replaced.

Guarantee: a replaced file is refused before any row is taken, and each row of the others is counted once; held by
tests/ingest/test_replaced_files.py and tests/store/test_crashes.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from vestige.errors import SourceError
from vestige.sources.block import Block
from vestige.sources.comparison import RowComparison, explain_difference
from vestige.sources.identity import FileIdentity, FileProgress, digest_key, find_name
from vestige.sources.positions import encode_position
from vestige.sources.protocol import History, Resumption

if TYPE_CHECKING:
    from vestige.sources.file import FileSource

KEEP_NUMBERS = "correct the row in its place, or empty its value so that it is skipped"
"""How to correct rows of a file that is read again, since they are identified by their numbers."""


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
    name = find_name(source.path, history.sources)
    progress = FileProgress.collect(history.positions(name) if name in history.sources else {})
    before, quiet = progress.identity, replace(history, warn=lambda _: None)
    return before is None or not before.is_whole(_read_identity(source, quiet, progress), len(progress.rows))


def resume_file(source: FileSource, history: History) -> Resumption:
    """Find where a file was left, and whether it is still the same file.

    Args:
        source: file to read.
        history: what a store knows of the streams of this run.

    Returns:
        The position to read from, and what each stream has read.

    Raises:
        SourceError: the file was replaced, or cannot be read.
    """
    name = find_name(source.path, history.sources)
    progress = FileProgress.collect(history.positions(name) if name in history.sources else {})
    before = progress.identity
    identity = _read_identity(source, history, progress)
    change = "" if before is None else before.explain_change(identity)
    changed = bool(change)
    if history.if_replaced == "continue":
        change = ""
    is_whole = before is not None and before.is_whole(identity, len(progress.rows))
    scan = _Scan(source, history, name, progress, is_whole)
    different = None
    if not change and progress.furthest:
        different = scan.compare(identity.other_key)
        change = "" if different is None else explain_difference(different)
    if history.if_replaced == "restart" and change:
        generation = 1 if before is None else before.generation + 1
        identity, progress = replace(identity, generation=generation, other_key=0), FileProgress({}, None)
        scan.is_behind = is_whole = False
    elif change:
        raise SourceError(
            f"{source.path}: {change}; {_explain_remedy(history, progress, different)}: nothing was taken"
        )
    elif history.if_replaced == "restart" and progress.furthest:
        history.warn(
            f"{source.path}: seems to be the file that was read before, so --if-replaced restart continues after row "
            f"{progress.furthest:,}; if it is another file after all, copy it and move the copy here"
        )
    encoded = identity.encode()
    return Resumption(
        replace(source, identity=encoded),
        name,
        start=b"" if scan.is_behind else encode_position(progress.furthest),
        positions={key: encode_position(rows, encoded) for key, rows in progress.rows.items()},
        keys=tuple(progress.rows) if is_whole else tuple(scan.keys),
        changed=changed or (before is not None and before.key != identity.key),
        before=progress.furthest,
        compared=scan.compared,
        is_whole=is_whole,
    )


@dataclass(slots=True)
class _Scan:
    """A pass over the rows that were read before."""

    source: FileSource
    history: History
    name: str
    progress: FileProgress
    is_whole: bool
    compared: int = 0
    is_behind: bool = False
    keys: dict[str, None] = field(default_factory=dict)

    def compare(self, other_key: int) -> int | None:
        """Compare all held records with their rows; return the first row that has changed."""
        keys = tuple(self.progress.rows)
        for start in range(0, len(keys), self.history.batch):
            comparison = RowComparison(self.history.pseudonym, other_key)
            for key, held in self.history.held(self.name, keys[start : start + self.history.batch]):
                comparison.add(key, held)
            self.compared += len(comparison)
            if self.is_whole and not len(comparison):
                continue  # no row is held, and none is new
            try:
                different = comparison.find_difference(self._read(), self.progress.furthest)
            except SourceError as problem:
                raise SourceError(f"{problem}; nothing was taken") from None
            if different is not None:
                return different
        return None

    def _read(self) -> Iterator[Block]:
        for block in self.source.blocks():
            self._note_keys(block)
            yield block

    def _note_keys(self, block: Block) -> None:
        """Note whether a stream has yet to take rows that were read before, after a crash or an error of its own."""
        if block.keys is None or block.codes is None:
            return
        self.keys.update(dict.fromkeys(map(str, block.keys)))
        reached = np.array([self.progress.rows.get(str(key), 0) for key in block.keys], np.int64)
        late = (block.numbers > reached[block.codes]) & (block.numbers <= self.progress.furthest)
        self.is_behind |= bool(late.any())


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
        return f"if a row was dropped or moved, put it back, and {KEEP_NUMBERS}; {other}"
    missed = "" if history.by is None else ", and takes earlier rows that a stream has not taken"
    same = (
        f"if it contains the same rows and more, --if-replaced continue continues after row "
        f"{progress.furthest:,}{missed}"
    )
    return f"{same}; {other}"
