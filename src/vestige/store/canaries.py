"""The search for a text in bytes, in the forms in which programs write it.

A text is looked for as UTF-8, UTF-16 and Latin-1, in upper and lower case, in hexadecimal and base64, percent-encoded,
escaped as in JSON and HTML, and as the hash that stands for it where it was pseudonymised without a secret.
Guarantee: each form is found wherever it begins, in base64 at each of its three alignments; held by
tests/store/test_canaries.py.
"""

from __future__ import annotations

import base64
import codecs
import hashlib
import html
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote, quote_plus

from vestige.errors import ParameterError
from vestige.validation import check_list

_HASHES = ("md5", "sha1", "sha256", "sha512")
_UTF_16 = codecs.getencoder("utf-16-le"), codecs.getencoder("utf-16-be")
_SHORTEST = 7
"""Characters of base64 that are looked for; fewer would be found by chance."""
FORMS = (
    "UTF-8 or the bytes as given, UTF-16, Latin-1, another case, hexadecimal, base64, percent-encoding, the escapes of "
    f"JSON and HTML, and hashes without a secret ({', '.join(_HASHES)})"
)
"""What is looked for, in words."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A place where a canary was found.

    Attributes:
        number: which canary it is, counted from 1.
        form: how it is written there, such as "as base64"; empty for the bytes themselves.
        at: where it begins.
        count: how often it is there.
    """

    number: int
    form: str
    at: int
    count: int


class CanarySearch:
    """A search for canaries in all their forms.

    Args:
        canaries: what is looked for: texts in UTF-8, or bytes.

    Attributes:
        count: number of canaries.
        overlap: bytes of the longest form.

    Raises:
        ParameterError: it is not a list of bytes, or one of them is empty.

    Example:
        >>> search = CanarySearch([b"ada@example.org"])
        >>> [hit.form for hit in search.find(b"mail: ADA@example.org YWRhQGV4YW1wbGUub3Jn")]
        ['as base64', 'in another case']
    """

    def __init__(self, canaries: Sequence[bytes]) -> None:
        check_list("canaries", canaries, bytes, "bytes")
        if any(not canary for canary in canaries):
            raise ParameterError("canaries contains an empty one; give at least one byte")
        self.count = len(canaries)
        self._exact = [dict[str, set[bytes]]() for _ in canaries]
        self._caseless = [dict[str, set[bytes]]() for _ in canaries]
        for canary, exact, caseless in zip(canaries, self._exact, self._caseless, strict=True):
            _add_forms(canary, exact, caseless)
        forms = [needle for each in (*self._exact, *self._caseless) for needles in each.values() for needle in needles]
        self.overlap = max(map(len, forms), default=0)

    def find(self, content: bytes, limit: int | None = None) -> Iterator[Hit]:
        """Find the canaries in bytes.

        Args:
            content: where to look.
            limit: only what begins before this place; default: all.

        Yields:
            One hit for each form of each canary.
        """
        lowered = content.lower() if self.count else b""
        end = len(content) if limit is None else limit
        for number, forms in enumerate(zip(self._exact, self._caseless, strict=True), 1):
            places: dict[str, list[int]] = {}
            for text, names in zip((content, lowered), forms, strict=True):
                for name, needles in names.items():
                    places[name] = [at for needle in needles for at in _find_all(text, needle, end)]
            places["in another case"] = sorted({*places.get("in another case", ())} - {*places[""]})
            yield from (Hit(number, name, min(found), len(found)) for name, found in places.items() if found)

    def describe(self, hit: Hit, place: str) -> str:
        """Say which canary was found where in which form, and never what it is.

        Args:
            hit: what was found.
            place: name of what was searched.

        Returns:
            The beginning of a sentence.
        """
        return f"canary {hit.number} of {self.count} is in {place}{hit.form and f' {hit.form}'}"


def _add_forms(canary: bytes, exact: dict[str, set[bytes]], caseless: dict[str, set[bytes]]) -> None:
    """Add the forms of a canary: those whose case counts, and in lower case those for which it does not."""
    exact[""] = {canary}
    exact["as base64"] = {*_encode_base64(canary)}
    caseless["in hexadecimal"] = {canary.hex().encode()}
    texts = [canary]
    try:
        text = canary.decode()
    except UnicodeDecodeError:
        text = ""
    if text.isprintable() and text:
        cases = dict.fromkeys((text, text.lower(), text.upper(), text.title()))
        caseless["in another case"] = {case.encode().lower() for case in cases}
        wide = [encode(case)[0] for encode in _UTF_16 for case in cases]
        caseless["as UTF-16"] = {each.lower() for each in wide}
        exact["as base64"] |= {part for each in wide for part in _encode_base64(each)}
        exact["as base64"] |= {part for case in cases for part in _encode_base64(case.encode())}
        caseless["in hexadecimal"] |= {case.encode().hex().encode() for case in cases}
        plain = {case.encode().lower() for case in cases}
        for name, encode in _ENCODINGS.items():
            caseless[name] = {encode(case).lower() for case in cases} - plain
        texts = [case.encode() for case in dict.fromkeys((text, text.lower()))]
    for name in _HASHES:
        digests = [hashlib.new(name, each, usedforsecurity=False).digest() for each in texts]
        exact[f"as its {name}"] = {part for digest in digests for part in (digest, base64.b64encode(digest))}
        caseless[f"as its {name} in hexadecimal"] = {digest.hex().encode() for digest in digests}


def _encode_latin(text: str) -> bytes:
    return text.encode("latin-1", "replace") if text.encode("latin-1", "ignore").decode("latin-1") == text else b""


_ENCODINGS: dict[str, Callable[[str], bytes]] = {
    "as Latin-1": _encode_latin,
    "percent-encoded": lambda text: quote(text, safe="").encode(),
    "as in a form": lambda text: quote_plus(text).encode(),
    "escaped as in JSON": lambda text: json.dumps(text)[1:-1].encode(),
    "escaped as in HTML": lambda text: html.escape(text).encode(),
}


def _encode_base64(content: bytes) -> Iterator[bytes]:
    """What stands for the content in base64, whatever comes before and after it, in both alphabets."""
    for before in range(3):
        coded = base64.b64encode(bytes(before) + content)
        start, end = (0, 2, 3)[before], (len(content) + before) * 8 // 6
        part = coded[start:end]
        if len(part) >= _SHORTEST:
            yield from {part, part.translate(bytes.maketrans(b"+/", b"-_"))}


def _find_all(content: bytes, needle: bytes, limit: int) -> Iterator[int]:
    at = content.find(needle) if needle else -1
    while 0 <= at < limit:
        yield at
        at = content.find(needle, at + 1)
