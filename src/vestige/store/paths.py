"""The files of a store: one name however it is spelled, and readable by their owner only.

Links are resolved before anything is opened, so that a link and its target share one lock and one journal. A file that
is written as a whole is written to a draft under a fresh name, which cannot be a link, and renamed.
Guarantee: any name that the file system allows works, and only the owner can read what is created here; held by
tests/store/test_paths.py.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vestige.errors import ParameterError, StoreError

DRAFT = ".draft"
"""The ending of the name of a file that is not complete yet."""
_ENDINGS = (".key", ".key.count", ".key.requests", ".lock", "-journal", "-shm", "-wal")
_NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_OWNER = 0o600
_RANDOM = 8
"""Random bytes in the name of a draft."""


def resolve_path(path: str | Path, parameter: str) -> Path:
    """Resolve the path of a store, through all links.

    Args:
        path: the path.
        parameter: the name of the parameter that it was passed as, for errors.

    Returns:
        The file that it leads to, which need not exist.

    Raises:
        ParameterError: it is not a path.
        StoreError: it is a folder, a device or a pipe, or its folder does not exist.

    Example:
        >>> resolve_path("/visits.db", "address").name
        'visits.db'
    """
    if str(path) == ":memory:":
        raise ParameterError(f"{parameter}=':memory:' is not a file; use vestige.open_store('memory:')")
    if str(path) == "":
        raise ParameterError(f"{parameter}='' is empty; give the path of a file")
    try:
        found = Path(path).resolve()
        if found.is_dir():
            raise StoreError(f"{path}: is a folder; give the path of a file")
        if found.exists() and not found.is_file():
            raise StoreError(f"{path}: is a device or a pipe; give the path of a file")
        if not found.parent.is_dir():
            raise StoreError(f"{path}: there is no folder {found.parent}; make it first")
    except (TypeError, ValueError):
        raise ParameterError(f"{parameter}={path!r} is not a path; give the name of a file as a text") from None
    except (OSError, RuntimeError) as problem:
        raise StoreError(f"{path}: cannot be a file ({_explain_reason(problem)}); give another path") from None
    return found


def _explain_reason(problem: Exception) -> str:
    return (problem.strerror if isinstance(problem, OSError) else None) or "its links lead in a circle"


def append_ending(path: Path, ending: str) -> Path:
    """Return the file beside the store whose name has this ending."""
    return path.with_name(path.name + ending)


def find_siblings(path: Path) -> Iterator[Path]:
    """Yield the files beside the store whose names begin with its own; if the folder cannot be read, the known ones."""
    try:
        names = [file.name for file in path.parent.iterdir()]
    except PermissionError:
        names = [path.name + ending for ending in _ENDINGS]
    files = (path.with_name(name) for name in sorted(names) if name.startswith(path.name) and name != path.name)
    yield from (file for file in files if file.exists())


def make_private(path: Path) -> None:
    """Create an empty file that only its owner can read, if there is none."""
    with suppress(FileExistsError):
        os.close(os.open(path, _NEW, _OWNER))


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read: all of it or nothing, and durable once this returns."""
    draft = append_ending(path, f".{secrets.token_hex(_RANDOM)}{DRAFT}")
    try:
        with os.fdopen(os.open(draft, _NEW, _OWNER), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        sync_folder(path)
    except OSError as problem:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise _make_write_error(path, problem) from None


def _make_write_error(path: Path, problem: OSError) -> StoreError:
    return StoreError(
        f"{path}: cannot be written ({problem.strerror}); make room, or make its folder writable, and try again"
    )


@contextmanager
def open_draft(path: Path) -> Iterator[Path]:
    """Let another library write a file that only its owner can read: all of it or nothing, durable after the block.

    Drafts that a process left when it was killed are removed.

    Args:
        path: the file.

    Yields:
        Where to write it: in a folder beside it that only the owner can enter. When the block ends without an error,
        the file that is there replaces `path`.

    Raises:
        StoreError: it cannot be written; nothing is left of it.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with open_draft(Path(folder, "visits.csv")) as draft:
        ...         _ = draft.write_text("spent")
        ...     print([file.name for file in Path(folder).iterdir()])
        ['visits.csv']
    """
    for file in find_siblings(path):
        if is_draft(path, file):
            shutil.rmtree(file, ignore_errors=True)
    folder = append_ending(path, f".{secrets.token_hex(_RANDOM)}{DRAFT}")
    draft = folder / path.name
    try:
        folder.mkdir(0o700)
        yield draft
        draft.chmod(_OWNER)
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        draft.replace(path)
        sync_folder(path)
    except OSError as problem:
        raise _make_write_error(path, problem) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sync_folder(path: Path) -> None:
    """Make the name of the file durable, if its folder can be opened."""
    with suppress(PermissionError):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def is_draft(path: Path, file: Path) -> bool:
    """Tell whether `file` is a draft that `write_private` made of the store, of its key, or of a note beside that.

    A file of the user whose name is only similar is not touched.
    """
    names = "|".join(re.escape(path.name + ending) for ending in ("", ".key", ".key.count", ".key.requests"))
    return re.fullmatch(rf"(?:{names})\.[0-9a-f]{{{2 * _RANDOM}}}{re.escape(DRAFT)}", file.name) is not None


def clear_drafts(path: Path) -> None:
    """Remove the drafts of a process that was killed; only for the process that holds the lock."""
    for file in find_siblings(path):
        if is_draft(path, file):
            with suppress(OSError):  # the next writer tries again, and `vestige verify` names it
                file.unlink(missing_ok=True)
