"""Tokens of a server: who may do what, kept as hashes in a file of text.

A token is 32 random bytes, which nobody can guess, so that a plain SHA-256 of it is enough. A line of the file has the
label, the scopes, the hash and the time at which the token was made; its first line says for which kind of server.
Guarantee: a token is in no file, is shown once, and is refused from the moment at which it is revoked; held by
tests/store/test_tokens.py.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from vestige.errors import ParameterError, StoreError
from vestige.store.paths import make_private, resolve_path, write_private
from vestige.times import wall_clock
from vestige.validation import show_value

TOKEN_PATTERN = re.compile(r"[A-Za-z0-9_-]{43}")
"""How a token looks."""
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_BYTES = 32


class TokenKind(NamedTuple):
    """The tokens of one kind of server.

    Attributes:
        server: what the server is called.
        scopes: what a token may allow, each with all that it allows.
        command: the command that makes tokens.

    Example:
        >>> list(KEYRING.scopes), KEYRING.scopes["write"]
        (['read', 'write'], ('read', 'write'))
    """

    server: str
    scopes: Mapping[str, tuple[str, ...]]
    command: str

    @property
    def title(self) -> str:
        """The first line of a file of such tokens."""
        return f"# Tokens of a Vestige {self.server}, version 1: label, scope, SHA-256 of the token, time"


KEYRING = TokenKind(
    "keyring", MappingProxyType({"read": ("read",), "write": ("read", "write")}), "vestige keyring token"
)
"""Tokens of a keyring server: `read` allows to read keys and check the keyring, `write` also to change it."""
_ALL = ("ingest", "read", "erase", "audit", "admin")
SERVICE = TokenKind(
    "service", MappingProxyType({scope: _ALL if scope == "admin" else (scope,) for scope in _ALL}), "vestige token"
)
"""Tokens of `vestige serve`: `ingest` allows to send rows, `read` to see answers, `erase` to ask for removals, `audit`
to see records and to verify the store, `admin` all of it, and to create and delete streams."""


class Token(NamedTuple):
    """What is known of a token.

    Attributes:
        label: its name, such as that of the host that uses it.
        scopes: what it was made for.
        digest: the SHA-256 of the token, in hexadecimal digits.
        created: when it was made, in ISO 8601.
        kind: the kind of server.
    """

    label: str
    scopes: tuple[str, ...]
    digest: str
    created: str
    kind: TokenKind

    @property
    def scope(self) -> str:
        """What it was made for, as text."""
        return ",".join(self.scopes)

    def allows(self, scope: str) -> bool:
        """Tell whether it allows something.

        Args:
            scope: one of the scopes of its kind.

        Returns:
            Whether it does.
        """
        return any(scope in self.kind.scopes[each] for each in self.scopes)


def create_token(path: str | Path, label: str, *scopes: str, kind: TokenKind = KEYRING) -> str:
    """Make a token, and write its hash to a file, which is created if there is none.

    Args:
        path: the file, which only its owner can read.
        label: a name to revoke it by, such as that of the host that will use it.
        scopes: what it allows, of the scopes of its kind.
        kind: the kind of server.

    Returns:
        The token; it is kept nowhere.

    Raises:
        ParameterError: the label or a scope is not one, or there is no scope.
        StoreError: there is a token with this label, or the file cannot be read or written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     token = create_token(folder + "/visits.tokens", "collector-1", "write")
        ...     print(len(token), find_token(read_tokens(folder + "/visits.tokens"), token).label)
        43 collector-1
    """
    if _LABEL.fullmatch(label) is None:
        raise ParameterError(
            f"label={show_value(label)} is not a label; use up to 64 letters, digits, dots, dashes and underscores"
        )
    for scope in scopes or ("",):
        if scope not in kind.scopes:
            raise ParameterError(f"scope={show_value(scope)} is not a scope; use one of {', '.join(kind.scopes)}")
    secret = secrets.token_urlsafe(_BYTES)
    made = Token(
        label, tuple(dict.fromkeys(scopes)), _compute_digest(secret), f"{wall_clock():%Y-%m-%dT%H:%M:%SZ}", kind
    )

    def add(tokens: Sequence[Token]) -> list[Token]:
        if label in (token.label for token in tokens):
            raise StoreError(f"{path}: has a token {label} already; revoke it first, or use another label")
        return [*tokens, made]

    _change(resolve_path(path, "tokens"), kind, add)
    return secret


def revoke_token(path: str | Path, label: str, *, kind: TokenKind = KEYRING) -> None:
    """Revoke a token; a running server refuses it from now on.

    Args:
        path: the file with the tokens.
        label: the label of the token.
        kind: the kind of server.

    Raises:
        StoreError: there is no such token, or the file cannot be read or written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = create_token(folder + "/visits.tokens", "collector-1", "write")
        ...     revoke_token(folder + "/visits.tokens", "collector-1")
        ...     read_tokens(folder + "/visits.tokens")
        ()
    """
    file = resolve_path(path, "tokens")
    _check_exists(file, kind)

    def remove(tokens: Sequence[Token]) -> list[Token]:
        left = [token for token in tokens if token.label != label]
        if len(left) == len(tokens):
            there = ", ".join(token.label for token in tokens) or "none"
            raise StoreError(f"{path}: has no token {show_value(label)}; there is {there}")
        return left

    _change(file, kind, remove)


def read_tokens(path: str | Path, *, kind: TokenKind = KEYRING) -> tuple[Token, ...]:
    """Read what is known of the tokens in a file.

    Args:
        path: the file.
        kind: the kind of server.

    Returns:
        The tokens, in the order in which they were made.

    Raises:
        StoreError: the file cannot be read, others than its owner may write it, it is for another kind of server, or
            a line is damaged.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = create_token(folder + "/visits.tokens", "auditor", "read")
        ...     [(token.label, token.scope) for token in read_tokens(folder + "/visits.tokens")]
        [('auditor', 'read')]
    """
    file = resolve_path(path, "tokens")
    _check_exists(file, kind)
    try:
        with file.open(encoding="ascii", errors="replace") as opened:
            rights = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
            lines = opened.read().splitlines()
    except OSError as problem:
        raise StoreError(f"{file}: cannot be read ({problem.strerror}); run this as its owner") from None
    if rights & 0o022:
        raise StoreError(
            f"{file}: others may write it (its rights are {rights:o}), and so give themselves a token; "
            "check it, then chmod 600 it"
        )
    if lines and lines[0] != kind.title:
        raise StoreError(f"{file}: is not a file of tokens of a {kind.server}; {kind.command} makes one")
    return tuple(_parse(file, number, line, kind) for number, line in enumerate(lines, 1) if line and line[0] != "#")


def find_token(tokens: Sequence[Token], secret: str) -> Token | None:
    """Find a token, in a time that says nothing about those that are known.

    Args:
        tokens: the known tokens.
        secret: what was presented.

    Returns:
        The token; None if it is not known.

    Example:
        >>> find_token((), "guess") is None
        True
    """
    digest = _compute_digest(secret)
    found = [token for token in tokens if hmac.compare_digest(token.digest, digest)]
    return found[0] if found else None


def _compute_digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _parse(file: Path, number: int, line: str, kind: TokenKind) -> Token:
    label, scope, digest, created = (line.split() + [""] * 4)[:4]
    scopes = tuple(scope.split(","))
    if not (_LABEL.fullmatch(label) and kind.scopes.keys() >= {*scopes} and _DIGEST.fullmatch(digest) and created):
        raise StoreError(f"{file}: line {number} is not a token; delete it, and make a new one: {kind.command}")
    return Token(label, scopes, digest, created, kind)


def _check_exists(file: Path, kind: TokenKind) -> None:
    if not file.exists():
        raise StoreError(f"{file}: there is no such file of tokens; make one: {kind.command} {file} --add LABEL")


def _change(file: Path, kind: TokenKind, change: Callable[[Sequence[Token]], Sequence[Token]]) -> None:
    """Write the file again, all of it or nothing, one process at a time."""
    try:
        make_private(file)
        with _hold(file):
            tokens = change(read_tokens(file, kind=kind))
            lines = [kind.title, *(" ".join((each.label, each.scope, each.digest, each.created)) for each in tokens)]
            write_private(file, "".join(f"{line}\n" for line in lines).encode())
    except OSError as problem:
        raise StoreError(
            f"{file}: cannot be written ({problem.strerror}); make its folder writable, or run this as its owner"
        ) from None


@contextmanager
def _hold(file: Path) -> Iterator[None]:
    """Hold the file that has this name; who waited for one that was replaced meanwhile waits for the new one."""
    while True:
        with file.open("rb") as opened:
            fcntl.flock(opened, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(opened.fileno()), file.stat()):
                yield
                return
