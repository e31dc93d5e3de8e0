"""A keyring over TLS, for stores that several hosts write: the client, which asks the server for each operation.

A request whose answer is lost is sent again: to prepare the same keys twice, or to settle twice, does no harm. One that
arrives late, after others have written, is refused: see `protocol`.
Guarantee: a client goes on after the server was restarted, sends its token to no server whose certificate it does not
trust, and says so if it is not known whether a change was carried out; held by tests/store/test_keyring_client.py.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import ClassVar, NoReturn
from urllib.parse import SplitResult

from vestige.errors import MissingExtraError, ParameterError, StoreError
from vestige.store.keyring import protocol
from vestige.store.keyring.keyring import KEYRING_ID, MARKER, Key, Keyring, KeyTable, compute_mark
from vestige.store.tokens import TOKEN_PATTERN

try:
    import httpx

    from vestige._http import UNSENT, explain, find_mistrust, is_loopback, make_context, split_address
except ModuleNotFoundError:
    raise MissingExtraError("a keyring on a server", "serve") from None

TOKEN, TOKEN_FILE, CA = "VESTIGE_KEYRING_TOKEN", "VESTIGE_KEYRING_TOKEN_FILE", "VESTIGE_KEYRING_CA"
"""Environment variables with the token, the file with the token, and the file with the certificates to trust."""
TIMEOUT = 30.0
"""Seconds to wait for an answer, by default."""
PATIENCE = 10.0
"""Seconds for which a server that cannot be reached is tried again, by default; enough to restart it."""
_CONNECT_SECONDS = 5.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.2
_KEEP_SECONDS = 20.0
"""Seconds for which a connection is kept for the next request; less than the server keeps it."""
_BUSY = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
_UNCERTAIN = (
    "; whether the change was carried out is not known: the next transaction on the store finds out, and settles it"
)


class KeyringClient(Keyring):
    """A keyring on a server that `vestige keyring serve` has started.

    To destroy it is not offered over the network.

    Args:
        address: `https://HOST:PORT`; `http://` only for this host.
        token: the token; default: that in the variable VESTIGE_KEYRING_TOKEN, or in the file that
            VESTIGE_KEYRING_TOKEN_FILE names.
        ca: file with the certificates to trust, in PEM; default: that of VESTIGE_KEYRING_CA, or those of this host.
        timeout: seconds to wait for an answer.
        patience: seconds for which a server that cannot be reached is tried again.

    Raises:
        ParameterError: the address is not one, or there is no token.
        StoreError: the server cannot be reached, is not trusted, or refuses the token.

    Example:
        >>> KeyringClient("http://keys.example.org")
        Traceback (most recent call last):
        vestige.errors.ParameterError: http://keys.example.org: keys would cross the network in clear; use https://
    """

    address_form: ClassVar = "https://HOST:PORT"

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        ca: str | Path | None = None,
        timeout: float = TIMEOUT,
        patience: float = PATIENCE,
    ) -> None:
        parts = _check_address(address)
        self.where = f"{parts.scheme}://{parts.netloc}"
        self._patience = patience
        self._http = httpx.Client(
            base_url=self.where,
            headers={"authorization": f"Bearer {_find_token(token)}", "accept-encoding": "identity"},
            verify=make_context(ca if ca is not None else os.environ.get(CA)),
            timeout=httpx.Timeout(timeout, connect=min(timeout, _CONNECT_SECONDS)),
            limits=httpx.Limits(keepalive_expiry=_KEEP_SECONDS),
            trust_env=False,  # a token does not pass through a proxy
        )
        self._finalizer = weakref.finalize(self, self._http.close)
        self._marker: tuple[Key, ...] | None = None
        """The keys of the marker, as this client has read or written them; None if it has not."""
        self.id = self._send("GET", protocol.IDENTITY).content
        if len(self.id) != KEYRING_ID:
            raise self._make_foreign_error()

    def read(self, after: int = 0) -> KeyTable:
        """Read keys; nothing but the page of the marker if none is newer."""
        try:
            keyring, found = protocol.unpack_pages(self._send("GET", protocol.PAGES, query={"after": after}).content)
        except ValueError:
            raise self._make_foreign_error() from None
        if keyring != self.id:
            raise self._make_other_error()
        self._marker = found.find(MARKER)
        return found

    def prepare(self, keys: Mapping[int, Key]) -> None:
        """Put keys beside those that are live; flushed on the server once this returns.

        Args:
            keys: see `Keyring.prepare`.

        Raises:
            StoreError: see `Keyring.prepare`; or it is not known whether this was carried out.
        """
        known = self._find_marker()
        self._change(protocol.PREPARE, protocol.pack_keys(self.id, compute_mark(known), keys))
        if MARKER in keys:
            self._marker = tuple(sorted({*known, keys[MARKER]}))

    def settle(self, versions: Mapping[int, int], *, before: int | None = None) -> None:
        """Destroy all keys of slots but one; flushed on the server once this returns.

        Args:
            versions: see `Keyring.settle`.
            before: see `Keyring.settle`.

        Raises:
            StoreError: see `Keyring.settle`; or it is not known whether this was carried out.
        """
        known = self._find_marker()
        query = None if before is None else {"before": before}
        self._change(protocol.SETTLE, protocol.pack_versions(self.id, compute_mark(known), versions), query)
        if MARKER in versions:
            self._marker = tuple(key for key in known if key.version == versions[MARKER])

    def verify(self) -> tuple[str, ...]:
        """Check the keyring on the server."""
        found = self._send("GET", protocol.PROBLEMS).json()
        return tuple(f"{self.where}: {sentence}" for sentence in found)

    def destroy(self) -> NoReturn:
        """Refuse: this is not offered over the network."""
        raise StoreError(
            f"{self.where}: a keyring is not destroyed over the network; run vestige keyring destroy where its file is"
        )

    def close(self) -> None:
        """Close the connections; they are also closed with the last reference to the client."""
        self._finalizer()

    def _find_marker(self) -> tuple[Key, ...]:
        return self.read().find(MARKER) if self._marker is None else self._marker

    def _change(self, path: str, content: bytes, query: Mapping[str, int] | None = None) -> None:
        if len(content) > protocol.BODY_LIMIT:
            raise StoreError(
                f"{self.where}: a change of {len(content):,} bytes is longer than the {protocol.BODY_LIMIT:,} that a "
                "server takes; write fewer rows at once: nothing was changed"
            )
        self._send("POST", path, content, query)

    def _send(
        self, method: str, path: str, content: bytes | None = None, query: Mapping[str, int] | None = None
    ) -> httpx.Response:
        """Send a request, again if the server cannot be reached; the answer, which has the status 200."""
        end, pause, doubt = time.monotonic() + self._patience, _FIRST_PAUSE, ""
        while True:
            try:
                answer = self._http.request(method, path, content=content, params=query)
            except httpx.RequestError as problem:
                self._check_trust(problem)
                reason = f"cannot be reached ({explain(problem)}); start it, or check the address"
                if content is not None and not isinstance(problem, UNSENT):
                    doubt = _UNCERTAIN
            else:
                if answer.status_code not in _BUSY:
                    self._check_answer(answer, doubt)
                    return answer
                reason = "has too much to do; try again later, or look at its log"
                if content is not None and protocol.HEADER not in answer.headers:  # it may come from a proxy
                    doubt = _UNCERTAIN
            if time.monotonic() + pause > end:
                raise StoreError(f"{self.where}: the keyring server {reason}{doubt}")
            time.sleep(pause)
            pause = min(2.0 * pause, _LONGEST_PAUSE)

    def _check_trust(self, problem: httpx.RequestError) -> None:
        """Raise an error if TLS has failed: to try again would not help."""
        mistrust = find_mistrust(problem, CA)
        if mistrust is not None:
            raise StoreError(f"{self.where}: {mistrust}") from None

    def _check_answer(self, answer: httpx.Response, doubt: str) -> None:
        version, status = answer.headers.get(protocol.HEADER), answer.status_code
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR and answer.request.method == "POST":
            doubt = _UNCERTAIN
        if version is None:
            raise StoreError(
                f"{self.where}: is not a keyring server (it answers with status {status}); check the address{doubt}"
            )
        if version != str(protocol.VERSION):
            raise StoreError(
                f"{self.where}: speaks version {version[:9]!a} of the protocol, and this Vestige speaks version "
                f"{protocol.VERSION}; use the same Vestige on both sides{doubt}"
            )
        if status == HTTPStatus.OK:
            return
        if status == HTTPStatus.UNAUTHORIZED:
            raise StoreError(
                f"{self.where}: the token was refused: it is unknown or revoked; make one where the server runs, with "
                f"vestige keyring token, and set {TOKEN}{doubt}"
            )
        if status == HTTPStatus.FORBIDDEN:
            raise StoreError(f"{self.where}: the token may only read; use one that was made with --scope write{doubt}")
        if status == HTTPStatus.PRECONDITION_FAILED:
            raise self._make_other_error(doubt)
        said = "".join(c if c.isprintable() else "?" for c in answer.text[:1_000])
        raise StoreError(f"{self.where}: {said}{doubt}")

    def _make_foreign_error(self) -> StoreError:
        return StoreError(f"{self.where}: the answer is not that of a keyring server; check the address")

    def _make_other_error(self, doubt: str = "") -> StoreError:
        return StoreError(
            f"{self.where}: serves another keyring than when it was opened ({self.name}); serve that one again, or "
            f"open the store again{doubt}"
        )


def _check_address(address: str) -> SplitResult:
    """The parts of an address; what it has besides a host and a port may be secret, and is not shown."""
    parts = split_address(address)
    if parts is None:
        raise ParameterError("the address of a keyring server is not of the form https://HOST:PORT; write it like this")
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise ParameterError(f"http://{parts.netloc}: keys would cross the network in clear; use https://")
    return parts


def _find_token(token: str | None) -> str:
    where = "token"
    if token is None and TOKEN in os.environ:
        where, token = TOKEN, os.environ[TOKEN]
    if token is None and TOKEN_FILE in os.environ:
        where = f"the file that {TOKEN_FILE} names"
        try:
            token = Path(os.environ[TOKEN_FILE]).read_text(encoding="ascii", errors="replace")
        except OSError as problem:
            raise ParameterError(f"{where} cannot be read ({problem.strerror}); check its path and rights") from None
    if token is None:
        raise ParameterError(f"a keyring server wants a token; set {TOKEN}, or {TOKEN_FILE} to the file with it")
    if TOKEN_PATTERN.fullmatch(token.strip()) is None:
        raise ParameterError(f"{where} is not a token of 43 letters, digits, dashes and underscores; copy it again")
    return token.strip()
