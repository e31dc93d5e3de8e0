"""Addresses of Redis Streams: server, database, stream and group, and what may be shown of them.

Guarantee: a password is in no name and in no message; held by tests/sources/test_redis.py.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from vestige.errors import ParameterError

FORM = "redis://USER:PASSWORD@HOST:PORT/DATABASE/STREAM"
"""How addresses look."""
PASSWORD = "VESTIGE_REDIS_PASSWORD"  # noqa: S105  # a name
"""The environment variable with the password, if the address has none."""
_PORT = 6379
_OPTIONS = ("group", "ca")
_GROUP = re.compile(r"[!-~]{1,128}")


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """Where a stream is.

    Attributes:
        host: name or number of the host.
        port: port of the server.
        database: number of the database.
        stream: name of the stream.
        is_encrypted: whether the connection uses TLS, which verifies the server's certificate.
        user: name of the user; None for the default one.
        password: password of the user; None if there is none.
        group: name of the consumer group; None for one of the reader's own.
        authority: file with the certificates of authorities to trust; None for those of the system.
    """

    host: str
    port: int
    database: int
    stream: str
    is_encrypted: bool = False
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    group: str | None = None
    authority: str | None = None

    @classmethod
    def parse(cls, address: str) -> RedisAddress:
        """Read an address.

        Args:
            address: such as `redis://USER:PASSWORD@HOST:PORT/DATABASE/STREAM?group=NAME`; `rediss` for TLS, with
                `ca=FILE` for certificates of your own. User, password, port and group may be left out; a password that
                is left out is that of the environment variable VESTIGE_REDIS_PASSWORD, if there is one.

        Returns:
            Its parts.

        Raises:
            ParameterError: it is not such an address; the message does not repeat it, since it may contain a password.

        Example:
            >>> RedisAddress.parse("redis://ada:secret@queue.example.org/0/visits").name
            'redis://queue.example.org:6379/0/visits'
        """
        try:
            parts = urlsplit(address)
            port = parts.port or _PORT
            options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
        except ValueError:
            raise _refuse() from None
        database, _, stream = parts.path.removeprefix("/").partition("/")
        is_number = database.isascii() and database.isdigit()
        if parts.scheme not in ("redis", "rediss") or not parts.hostname or not is_number or not stream:
            raise _refuse()
        unknown = [name for name in options if name not in _OPTIONS]
        if unknown or parts.fragment:
            raise ParameterError(
                f"the address has an unknown option; use {' or '.join(f'?{name}=' for name in _OPTIONS)}"
            )
        group = options.get("group")
        if group is not None and not _GROUP.fullmatch(group):
            raise ParameterError(
                "group in the address is not a name; use up to 128 letters, digits and signs, no blanks"
            )
        password = unquote(parts.password) if parts.password else os.environ.get(PASSWORD)
        return cls(
            parts.hostname,
            port,
            int(database),
            unquote(stream),
            parts.scheme == "rediss",
            unquote(parts.username) if parts.username else None,
            password or None,
            group,
            options.get("ca"),
        )

    @property
    def name(self) -> str:
        """The address without user, password and options, by which stores know the stream."""
        scheme = "rediss" if self.is_encrypted else "redis"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}/{self.database}/{quote(self.stream)}"


def _refuse() -> ParameterError:
    return ParameterError(
        f"the address is not one of the form {FORM}, such as redis://localhost:6379/0/visits; write @ / ? : # and % in "
        f"a user's name or a password as %40 %2F %3F %3A %23 and %25, or leave the password to {PASSWORD}"
    )
