"""Names of streams: which stream of a store the rows with a key go to.

Guarantee: different keys and prefixes never make the same name. A name that is given without a column of keys is used
as it is; if it is already the name of a key's stream, the stream is refused, since its terms say which column made it.
Held by tests/ingest/test_ingest.py.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StreamNames:
    """Names of the streams of a run.

    A slash separates prefix and key, so a slash inside either is written as %2F, and a percent sign as %25.

    Attributes:
        by: column of the keys; None if all rows go into one stream.
        prefix: text before the keys, or the name of the single stream; default: no prefix, or "main".

    Example:
        >>> StreamNames("shop", "a").find_name("b/c"), StreamNames("shop", "a/b").find_name("c")
        ('a/b%2Fc', 'a%2Fb/c')
    """

    by: str | None = None
    prefix: str | None = None

    def find_name(self, key: str) -> str:
        """Return the name of a key's stream.

        Args:
            key: key; empty for the single stream.

        Returns:
            The name.

        Example:
            >>> StreamNames("shop").find_name("50%"), StreamNames().find_name("")
            ('50%25', 'main')
        """
        if self.by is None:
            return self.prefix or "main"
        return _quote(key) if self.prefix is None else f"{_quote(self.prefix)}/{_quote(key)}"

    def find_key(self, name: str) -> str:
        """Return the key of a stream of this run.

        Args:
            name: name of the stream.

        Returns:
            The key; empty for the single stream.

        Example:
            >>> StreamNames("shop", "a").find_key("a/b%2Fc")
            'b/c'
        """
        return "" if self.by is None else name.rsplit("/", maxsplit=1)[-1].replace("%2F", "/").replace("%25", "%")


def _quote(text: str) -> str:
    return text.replace("%", "%25").replace("/", "%2F")
