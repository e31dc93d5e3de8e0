"""Names of streams, which are the keys of rows: what a text must be to name a stream, said once for all ways in.

Whoever makes streams asks here: `Store.stream`, `KeyedStreams`, and those who leave out rows whose keys name none. What
a store has already is read, whatever its names are.
Guarantee: each way in takes a name of 1,024 bytes and refuses a longer one in the same words; held by
tests/test_keys.py.
"""

from __future__ import annotations

LONGEST_NAME = 1024
"""Bytes of UTF-8 that a name may have; a bucket has room for 65,535."""
_SHOWN = 40


def explain_name(name: str) -> str:
    r"""Explain why a text cannot name a stream.

    Args:
        name: the text.

    Returns:
        What is wrong with it, to be said after "the name"; empty if nothing is.

    Example:
        >>> explain_name("DE"), explain_name("\0DE")
        ('', 'begins with NUL; correct it')
        >>> explain_name(1025 * "x")
        'has 1,025 bytes of UTF-8, above the limit of 1,024; use a shorter one'
    """
    if not name:
        return "is empty; use a text"
    if name[0] == "\0":
        return "begins with NUL; correct it"
    try:
        length = len(name) if name.isascii() else len(name.encode())
    except UnicodeEncodeError:
        return "has half of a character; correct it"
    if length > LONGEST_NAME:
        return f"has {length:,} bytes of UTF-8, above the limit of {LONGEST_NAME:,}; use a shorter one"
    return ""


def show_name(name: str) -> str:
    r"""Show a text that cannot name a stream.

    Args:
        name: the text.

    Returns:
        Its first 40 characters in quotes, escaped.

    Example:
        >>> show_name("\x1b[2J"), show_name(50 * "x")
        ("'\\x1b[2J'", "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'...")
    """
    return repr(name[:_SHOWN]) + "..." * (len(name) > _SHOWN)
