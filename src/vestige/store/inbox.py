"""The inbox of a store: other processes leave requests for the one that writes, and collect its replies.

It is a folder beside the store, for its owner only. A request is one small file that appears as a whole, by a rename,
and stays until it was carried out; so does its reply until it was read. Subjects are only named by their pseudonyms.
Guarantee: a request survives a crash of either side at any moment, and a file that cannot be read is named and left;
held by tests/operations/test_inbox.py.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, get_args

from vestige.errors import StoreError
from vestige.store.ledger import LEDGER_KEPT
from vestige.store.paths import append_ending
from vestige.store.receipt import check_keep, check_reference

Kind = Literal["forget", "sweep", "remove"]

_FORGOTTEN = 3600.0
"""Seconds after which a reply that nobody has read is removed, and so is a file that was never completed."""
_PROMPT = 60.0
"""Seconds within which a request is carried out by whoever looks for one."""
_PATIENCE = 10.0
"""Seconds for which a request is written again where the folder is removed meanwhile."""
_REQUEST, _REPLY, _DRAFT = ".request", ".reply", ".draft"
_UNREADABLE = "is not a request that can be read, and is left as it is; remove the file"


@dataclass(frozen=True, slots=True)
class Request:
    """What another process asks of the one that writes to a store.

    Attributes:
        kind: what to do, by its name in `vestige.operations`.
        pseudonyms: the pseudonyms of the subjects whose records are to be erased.
        rounds: the records to erase.
        streams: the streams concerned; default: all.
        now: whether to erase records immediately.
        at: the time that limits in time are checked against in a sweep; default: the machine's clock.
        references: what the user calls each request, one for each pseudonym or one for the rounds; default: none.
        keep_receipts: how long the receipts are kept after the erasure.
        marks: by what lines of a list are known again, one for each pseudonym; default: they need not be.
        is_last: whether such lines are carried out to their end.
        id: sixteen random hexadecimal digits.
    """

    kind: Kind
    pseudonyms: tuple[str, ...] = ()
    rounds: tuple[int, ...] = ()
    streams: tuple[str, ...] | None = None
    now: bool = False
    at: datetime | None = None
    references: tuple[str | None, ...] | None = None
    keep_receipts: timedelta = LEDGER_KEPT
    marks: tuple[str, ...] | None = None
    is_last: bool = False
    id: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def text(self) -> str:
        """As JSON."""
        plain = {"at": None if self.at is None else self.at.isoformat()}
        return json.dumps(asdict(self) | plain | {"keep_receipts": self.keep_receipts.total_seconds()})

    @classmethod
    def parse(cls, text: str) -> Request:
        """Read a request from JSON.

        Args:
            text: the property `text` of a request.

        Returns:
            The request.

        Raises:
            StoreError: the text is not a request.
        """
        try:
            facts = json.loads(text)
            made = cls(
                facts["kind"],
                tuple(facts["pseudonyms"]),
                tuple(facts["rounds"]),
                None if facts["streams"] is None else tuple(facts["streams"]),
                facts["now"],
                None if facts["at"] is None else datetime.fromisoformat(facts["at"]),
                None if facts["references"] is None else tuple(facts["references"]),
                timedelta(seconds=facts["keep_receipts"]),
                None if facts["marks"] is None else tuple(facts["marks"]),
                facts["is_last"],
                facts["id"],
            )
            made._check()
        except (ValueError, KeyError, TypeError, IndexError, RecursionError, OverflowError):
            raise StoreError(_UNREADABLE) from None
        return made

    def _check(self) -> None:
        """Raise a ValueError if a part is not what it should be."""
        for reference in self.references or ():
            check_reference(reference)
        check_keep(self.keep_receipts)
        asked = len(self.pseudonyms) or 1
        if not (
            self.kind in get_args(Kind)
            and (self.references is None or len(self.references) == asked)
            and (self.marks is None or len(self.marks) == len(self.pseudonyms))
            and all(_is_hexadecimal(mark, 16) for mark in self.marks or ())
            and type(self.now) is bool
            and type(self.is_last) is bool
            and _is_hexadecimal(self.id, 16)
            and all(_is_hexadecimal(pseudonym, 32) for pseudonym in self.pseudonyms)
            and all(type(number) is int for number in self.rounds)
            and all(type(name) is str for name in self.streams or ())
        ):
            raise ValueError(_UNREADABLE)


def _is_hexadecimal(text: object, length: int) -> bool:
    return isinstance(text, str) and re.fullmatch(f"[0-9a-f]{{{length}}}", text) is not None


class Inbox:
    """The requests that wait beside a store, and the replies to them.

    Args:
        path: the store.
    """

    def __init__(self, path: str | Path) -> None:
        self._store = Path(path).resolve()
        self.folder = append_ending(self._store, ".inbox")

    def leave(self, request: Request) -> None:
        """Leave a request; it is durable once this returns."""
        with self._translate_errors():
            self._write(request.id + _REQUEST, request.text)

    def requests(self) -> tuple[tuple[Request, ...], dict[str, str]]:
        """The requests that wait, the oldest first; and what is wrong with files that cannot be read, by name."""
        found: list[tuple[float, Request]] = []
        troubles: dict[str, str] = {}
        for file in self._list_files():
            if file.suffix != _REQUEST or file.with_suffix(_REPLY).exists():
                continue
            try:
                request, left = Request.parse(file.read_text()), file.stat().st_mtime
            except FileNotFoundError:
                continue
            except (StoreError, ValueError, OSError):
                troubles[str(file)] = _UNREADABLE
                continue
            if request.id == file.stem:
                found.append((left, request))
            else:
                troubles[str(file)] = _UNREADABLE
        ordered = sorted(found, key=lambda entry: (entry[0], entry[1].id))
        return tuple(request for _, request in ordered), troubles

    def reply(self, request: str, facts: Mapping[str, Any]) -> None:
        """Say what became of a request, which is then done."""
        with self._translate_errors():
            self._write(request + _REPLY, json.dumps(facts))
            (self.folder / (request + _REQUEST)).unlink(missing_ok=True)
            self._sync()

    def collect(self, request: str) -> dict[str, Any] | None:
        """The reply to a request, which is removed; None while there is none."""
        file = self.folder / (request + _REPLY)
        with self._translate_errors():
            try:
                facts: dict[str, Any] = json.loads(file.read_text())
            except FileNotFoundError:
                return None
            file.unlink(missing_ok=True)
        with suppress(OSError):  # something else is in it
            self.folder.rmdir()
        return facts

    def clean(self) -> None:
        """Remove what is done with: requests that have their reply, old replies, files that were never completed."""
        oldest = time.time() - _FORGOTTEN
        for file in self._list_files():
            with self._translate_errors(), suppress(FileNotFoundError):
                if file.suffix == _REQUEST and file.with_suffix(_REPLY).exists():
                    file.unlink()  # whoever wrote the reply was stopped just before the end
                elif file.suffix in (_REPLY, _DRAFT) and file.stat().st_mtime < oldest:
                    file.unlink()
        with suppress(OSError):  # something is in it, or it is gone
            self.folder.rmdir()

    def find_troubles(self) -> Iterator[str]:
        """What is wrong here, a sentence each: requests that nobody carries out, and files that cannot be read."""
        try:
            requests, unreadable = self.requests()
        except StoreError as problem:
            yield str(problem)
            return
        for request in requests:
            with suppress(FileNotFoundError):
                left = (self.folder / (request.id + _REQUEST)).stat().st_mtime
                if time.time() - left > _PROMPT:
                    yield (
                        f"{self.folder}: request {request.id} ({request.kind}) waits to be carried out; whoever holds "
                        "the store does not look for requests: end that process, and run vestige sweep"
                    )
        yield from (f"{name} {text}" for name, text in unreadable.items())

    def _list_files(self) -> tuple[Path, ...]:
        """What lies in the folder, if nobody but its owner can have put it there."""
        with self._translate_errors():
            try:
                found = self.folder.lstat()
                if not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o077:
                    raise StoreError(
                        f"{self.folder}: is not a folder that only its owner may use, so the requests in it may be "
                        "anybody's; remove it, or take the rights of others away: chmod 700"
                    )
                return tuple(sorted(self.folder.iterdir()))
            except FileNotFoundError:
                return ()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turn errors of the file system into ours, which name the folder and the remedy."""
        try:
            yield
        except OSError as problem:
            raise StoreError(
                f"{self.folder}: cannot be read or written ({problem.strerror}); make room, or run this as the owner "
                "of the store, and try again: requests in it stay until they were carried out"
            ) from None

    def _write(self, name: str, text: str) -> None:
        """Put a file into the folder: all of it or nothing, for the owner of the store only."""
        patient = time.monotonic() + _PATIENCE
        while time.monotonic() < patient:
            with suppress(FileNotFoundError):  # whoever empties the folder removes it, maybe between these steps
                with suppress(FileExistsError):
                    self.folder.mkdir(mode=0o700)
                    self._give(self.folder)
                self._list_files()
                draft = self.folder / f"{secrets.token_hex(8)}{_DRAFT}"
                handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
                with os.fdopen(handle, "w") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(handle)
                self._give(draft)
                draft.replace(self.folder / name)
                self._sync()
                return
        raise StoreError(f"{self.folder}: is removed again and again by another process; try again")

    def _give(self, file: Path) -> None:
        """Let a file belong to the owner of the store, also where the administrator makes it."""
        if os.geteuid() == 0 and self._store.exists():
            owner = self._store.stat()
            os.chown(file, owner.st_uid, owner.st_gid, follow_symlinks=False)

    def _sync(self) -> None:
        with suppress(FileNotFoundError):
            handle = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
