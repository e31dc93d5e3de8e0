"""A connection to Redis: raw commands, and what their errors mean for a source.

Replies are those of the protocol itself (RESP2), so that they do not depend on the version of the client.
Guarantee: no error shows a password, or what an entry holds; held by tests/sources/test_redis.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vestige.errors import MissingExtraError, SourceError
from vestige.sources.redis.address import PASSWORD, RedisAddress
from vestige.sources.redis.positions import Id, read_id

TIMEOUT = 10.0
"""Seconds after which a server that does not answer counts as lost."""
_MEANINGS = {
    "NOAUTH": f"the server wants a password; put it into {PASSWORD}",
    "WRONGPASS": f"the server refuses the user or the password; correct them in the address or in {PASSWORD}",
    "NOPERM": "the user may not do that; allow it (ACL) XREAD, XREADGROUP, XACK, XGROUP, XPENDING, XINFO, MULTI and, "
    "with --trim, XTRIM",
    "WRONGTYPE": "there is a key of this name that is not a stream; correct the address",
    "READONLY": "the server is a replica, which only lets you read; give the address of the primary server",
    "MISCONF": "the server does not accept changes, since it cannot save to its disk; make room there",
    "OOM": "the server has no memory left; make room there",
}
_WORDS = {word: word for word in (*_MEANINGS, "NOGROUP", "BUSYGROUP")} | {"no such key": "NOKEY"}
"""Words of the answers, and what they are called here."""
_PASSING = ("LOADING", "TRYAGAIN", "MASTERDOWN", "CLUSTERDOWN")
"""First words of errors that pass with time."""


class LostError(Exception):
    """The server does not answer; a later attempt may succeed."""


class RefusedError(Exception):
    """The server does not carry out a command.

    Args:
        code: first word of its answer.
    """

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class StreamState:
    """What Redis says of a stream.

    Attributes:
        length: number of entries.
        last: largest id that was ever given.
        added: number of entries that were ever added; None before Redis 7.
        deleted: largest id that was deleted by XDEL.
        first: id of the first entry; None if there is none.
    """

    length: int
    last: Id
    added: int | None
    deleted: Id
    first: Id | None

    @classmethod
    def read(cls, reply: Sequence[Any]) -> StreamState:
        """Read the reply to XINFO STREAM.

        Args:
            reply: names and values in turn.

        Returns:
            The state.
        """
        said = pair(reply)
        first = said.get("first-entry")
        return cls(
            said["length"],
            read_id(said["last-generated-id"]),
            said.get("entries-added"),
            read_id(said.get("max-deleted-entry-id", b"0-0")),
            read_id(first[0]) if first else None,
        )

    @property
    def removed(self) -> int | None:
        """Number of entries that were added and are not there any more."""
        return None if self.added is None else self.added - self.length


def pair(reply: Sequence[Any]) -> dict[str, Any]:
    """Make a dictionary of names and values in turn.

    Args:
        reply: the names and values.

    Returns:
        The values by name.

    Example:
        >>> pair([b"length", 3])
        {'length': 3}
    """
    return {bytes(name).decode(): value for name, value in zip(reply[::2], reply[1::2], strict=True)}


class Link:
    """A connection, which is made when it is first used, and again after it was lost.

    Args:
        address: where the stream is.

    Raises:
        MissingExtraError: the client of Redis is not installed.
    """

    def __init__(self, address: RedisAddress) -> None:
        try:
            import redis  # noqa: PLC0415  # an extra
            from redis.backoff import NoBackoff  # noqa: PLC0415
            from redis.retry import Retry  # noqa: PLC0415
        except ModuleNotFoundError:
            raise MissingExtraError("reading a Redis Stream", "redis") from None
        self._redis, self._name = redis, address.name
        tls: dict[str, Any] = {"ssl": True, "ssl_ca_certs": address.authority} if address.is_encrypted else {}
        self._client: Any = redis.Redis(  # whose commands have no types
            host=address.host,
            port=address.port,
            db=address.database,
            username=address.user,
            password=address.password,
            socket_timeout=TIMEOUT,
            socket_connect_timeout=TIMEOUT,
            protocol=2,
            retry=Retry(NoBackoff(), 0),
            **tls,
        )
        self._client.response_callbacks.clear()

    def call(self, *words: object) -> Any:
        """Send a command.

        Args:
            words: its words.

        Returns:
            The reply.
        """
        return self.send((words,))[0]

    def send(self, commands: Sequence[Sequence[object]], *, together: bool = False) -> list[Any]:
        """Send several commands.

        Args:
            commands: the words of each.
            together: whether nobody else's command comes between them (MULTI).

        Returns:
            Their replies; a command that the server refuses inside of several has a `RefusedError` for its reply.

        Raises:
            LostError: the server does not answer.
            RefusedError: the server refuses the only command, or all of them.
            SourceError: the server refuses what cannot be tried again.
        """
        redis = self._redis
        try:
            if len(commands) == 1 and not together:
                return [self._client.execute_command(*commands[0])]
            pipe = self._client.pipeline(transaction=together)
            pipe.response_callbacks.clear()
            for words in commands:
                pipe.execute_command(*words)
            replies = pipe.execute(raise_on_error=False)
        except (redis.AuthenticationError, redis.BusyLoadingError, redis.ResponseError) as problem:
            raise self._refuse(problem) from None
        except (redis.ConnectionError, redis.TimeoutError, OSError):
            raise LostError from None
        return [self._refuse(reply) if isinstance(reply, redis.RedisError) else reply for reply in replies]

    def close(self) -> None:
        """End the connection."""
        self._client.close()

    def _refuse(self, problem: Exception) -> Exception:
        """Make the error that an answer of the server means; what it quotes is not repeated."""
        redis, said = self._redis, str(problem)
        if isinstance(problem, redis.BusyLoadingError) or any(word in said for word in _PASSING):
            return LostError()
        kinds = (
            (redis.AuthenticationError, "NOAUTH" if "required" in said else "WRONGPASS"),
            (redis.exceptions.NoPermissionError, "NOPERM"),
            (redis.ReadOnlyError, "READONLY"),
            (redis.OutOfMemoryError, "OOM"),
        )
        found = next((code for kind, code in kinds if isinstance(problem, kind)), None)
        code = found or next((code for word, code in _WORDS.items() if word in said), "ERR")
        return SourceError(f"{self._name}: {_MEANINGS[code]}") if code in _MEANINGS else RefusedError(code)
