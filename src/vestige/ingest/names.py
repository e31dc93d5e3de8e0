"""Names of streams: which stream of a store the rows with a key go to.

Guarantee: different keys and prefixes of the same columns never make the same name. A name that is given without a
column of keys is used as it is. If a name is already that of a stream of other columns, the stream is refused, since
its terms say which columns made it. Held by tests/ingest/test_ingest.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vestige.errors import StoreError
from vestige.sources.block import Texts
from vestige.sources.keys import By, quote_part, unquote_part
from vestige.store import Terms
from vestige.store.names import LONGEST_NAME, explain_name


@dataclass(frozen=True, slots=True)
class StreamNames:
    """Names of the streams of a run.

    A slash separates prefix and key, and the parts of a key of several columns, so a slash inside any of them is
    written as %2F, and a percent sign as %25.

    Attributes:
        by: column of the keys, or several; None if all rows go into one stream.
        prefix: text before the keys, or the name of the single stream; default: no prefix, or "main".

    Example:
        >>> StreamNames("shop", "a").find_name("b/c"), StreamNames("shop", "a/b").find_name("c")
        ('a/b%2Fc', 'a%2Fb/c')
        >>> StreamNames(("shop", "day"), "a").find_name("b%2Fc/1")
        'a/b%2Fc/1'
    """

    by: By = None
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
        quoted = quote_part(key) if isinstance(self.by, str) else key  # which has quoted parts
        return f"{self._start}{quoted}"

    def find_names(self, keys: Texts) -> Texts:
        """Find the names of the streams of many keys.

        Args:
            keys: the keys.

        Returns:
            Their names.

        Example:
            >>> import numpy as np
            >>> StreamNames("shop", "a").find_names(np.array(["b/c", "d"], np.object_)).tolist()
            ['a/b%2Fc', 'a/d']
        """
        text = "".join(keys)
        if isinstance(self.by, str) and ("%" in text or "/" in text):
            return np.array([self.find_name(key) for key in keys], np.object_)
        named: Texts = self._start + keys if self._start else keys
        return named

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
        if self.by is None:
            return ""
        quoted = name.removeprefix(self._start)
        return unquote_part(quoted) if isinstance(self.by, str) else quoted

    @property
    def _start(self) -> str:
        return "" if self.prefix is None else f"{quote_part(self.prefix)}/"


def find_bad_keys(keys: Texts, names: Texts) -> dict[str, str]:
    r"""Find the keys that name no stream.

    Args:
        keys: the keys.
        names: the names of their streams; see `StreamNames.find_names`.

    Returns:
        What is wrong with each of them, to be said after "the key"; see `vestige.store.names.explain_name`.

    Example:
        >>> find_bad_keys(["DE", "\0DE"], ["visits/DE", "visits/\0DE"])
        {'\x00DE': 'begins with NUL; correct it'}
    """
    text = "".join(names)
    longest = LONGEST_NAME if text.isascii() else LONGEST_NAME // 4
    if "\0" not in text and max(map(len, names), default=0) <= longest and _is_valid(text):
        return {}
    return {key: why for key, name in zip(keys, names, strict=True) if (why := _explain_key(key, name))}


def _is_valid(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _explain_key(key: str, name: str) -> str:
    why = explain_name(key)
    return why or (f"makes a name that {why}" if (why := explain_name(name)) else "")


def read_by(about: Mapping[str, object]) -> By:
    """Read the columns of keys from what a stream was made with.

    Args:
        about: what it was made with; see `vestige.store.Terms`.

    Returns:
        The column of keys, or several; None if there is none.

    Example:
        >>> read_by({"by": ["country", "channel"]})
        ('country', 'channel')
    """
    by = about.get("by")
    return tuple(map(str, by)) if isinstance(by, list) else None if by is None else str(by)


def hash_key(pseudonym: Callable[[str], str], key: str) -> str:
    r"""Compute what a store keeps in place of a key if its keys are to be hashed.

    Args:
        pseudonym: function from a subject to its pseudonym in the store.
        key: key.

    Returns:
        A keyed hash, 32 hexadecimal digits; not the pseudonym of a subject with the same text.

    Example:
        >>> hash_key(str.upper, "ada")
        'STREAM\x00ADA'
    """
    return pseudonym(f"stream\0{key}")


def find_hashed(
    known: Iterable[Terms], has: Callable[[str], bool], pseudonym: Callable[[str], str], names: Sequence[str]
) -> tuple[str, ...]:
    """Find the streams that are meant by names, in a store that keeps keys as hashes.

    Args:
        known: the different terms of its streams.
        has: function that tells whether there is a stream of a name.
        pseudonym: function from a subject to its pseudonym in the store.
        names: a key each, with its prefix or without; or the name of a stream as it is in the store.

    Returns:
        The name in the store for each of them; one that is not there stays as it is if the store has clear names too.

    Raises:
        StoreError: all keys are hashed, and there is no stream of such a key. The error does not show the key.
    """
    abouts = [terms.about for terms in known]
    prefixes = dict.fromkeys(about.get("stream") for about in abouts if about.get("hash_keys"))
    found = []
    for name in names:
        tried = [
            StreamNames("key", None if prefix is None else str(prefix)).find_name(hash_key(pseudonym, key))
            for prefix in prefixes
            for key in dict.fromkeys((name, name.removeprefix(f"{prefix}/")))
        ]
        there = next((candidate for candidate in (*tried, name) if has(candidate)), None)
        if there is None and all(about.get("hash_keys") for about in abouts):
            raise StoreError(
                "there is no stream of this key; its names are hashes of keys: give the key as it is in the source, or "
                "the hash as vestige list shows it"
            )
        found.append(name if there is None else there)
    return tuple(found)


def check_hashed(known: Iterable[Mapping[str, object]], about: Mapping[str, object]) -> None:
    """Check that a run keeps keys as the runs before it did.

    Args:
        known: what the streams in the store were made with.
        about: what the streams of this run are made with.

    Raises:
        StoreError: keys of the same column are hashed in the store, and not in this run; or the other way round.

    Example:
        >>> check_hashed([{"by": "shop"}], {"by": "country", "hash_keys": True})
    """
    for other in known:
        if all(other.get(name) == about.get(name) for name in ("by", "stream")):
            hashed = bool(other.get("hash_keys"))
            if hashed != bool(about.get("hash_keys")):
                how = "as hashes; give --hash-keys" if hashed else "as they are; leave out --hash-keys"
                by = about.get("by")
                columns = ", ".join(map(repr, by)) if isinstance(by, list) else repr(by)
                raise StoreError(f"the store keeps the keys of {columns} {how}, or use another store")
            return
