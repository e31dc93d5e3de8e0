"""Text as bytes, for stores: any Python string, file names that are not UTF-8 among them."""

from __future__ import annotations


def encode_text(text: str) -> bytes:
    r"""Encode any text, lone surrogates included.

    Args:
        text: the text.

    Returns:
        Its bytes.

    Example:
        >>> encode_text("ü")
        b'\xc3\xbc'
    """
    return text.encode("utf-8", "surrogatepass")


def decode_text(body: bytes) -> str:
    """Decode what `encode_text` encoded.

    Args:
        body: the bytes.

    Returns:
        The text.

    Raises:
        UnicodeDecodeError: the bytes do not encode a text.

    Example:
        >>> decode_text(encode_text("ü"))
        'ü'
    """
    return body.decode("utf-8", "surrogatepass")
