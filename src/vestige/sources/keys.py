"""Keys of several columns as one text: their parts with a slash between them, so that no two keys are the same text.

A slash inside a part is written as %2F, and a percent sign as %25. The key of a single column is its text as it is.
Guarantee: what is joined is split again; held by tests/sources/test_keys.py.
"""

from __future__ import annotations

from collections.abc import Sequence

By = str | tuple[str, ...] | None
"""Column of keys, or several; None if there are no keys."""


def quote_part(text: str) -> str:
    """Quote a part of a key or of a name.

    Args:
        text: any text.

    Returns:
        The text without slashes.

    Example:
        >>> quote_part("50%/h")
        '50%25%2Fh'
    """
    return text.replace("%", "%25").replace("/", "%2F")


def unquote_part(text: str) -> str:
    """Undo `quote_part`.

    Args:
        text: what `quote_part` returned.

    Returns:
        The text as it was.

    Example:
        >>> unquote_part("50%25%2Fh")
        '50%/h'
    """
    return text.replace("%2F", "/").replace("%25", "%")


def join_key(parts: Sequence[str]) -> str:
    """Join the parts of a key of several columns.

    Args:
        parts: text of each column.

    Returns:
        The key.

    Example:
        >>> join_key(["DE", "a/b"])
        'DE/a%2Fb'
    """
    return "/".join(map(quote_part, parts))


def split_key(key: str) -> tuple[str, ...]:
    """Split a key of several columns into its parts.

    Args:
        key: what `join_key` returned.

    Returns:
        The text of each column.

    Example:
        >>> split_key("DE/a%2Fb")
        ('DE', 'a/b')
    """
    return tuple(map(unquote_part, key.split("/")))
