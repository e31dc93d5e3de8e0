"""A text is found in each form in which programs write it, wherever it begins, and nothing is found by chance."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from urllib.parse import quote, urlencode

import numpy as np
import pytest

from vestige.errors import ParameterError
from vestige.store.canaries import FORMS, CanarySearch

PERSON = "Zoë <zoe.ångström@example.org>"
RAW = PERSON.encode()


def find(content: bytes, *canaries: bytes) -> list[tuple[int, str]]:
    return [(hit.number, hit.form) for hit in CanarySearch(canaries).find(content)]


@pytest.mark.parametrize(
    ("content", "form"),
    [
        (RAW, ""),
        (PERSON.upper().encode(), "in another case"),
        (PERSON.lower().encode(), "in another case"),
        (PERSON.encode("utf-16-le"), "as UTF-16"),
        (PERSON.upper().encode("utf-16-be"), "as UTF-16"),
        (PERSON.encode("latin-1"), "as Latin-1"),
        (RAW.hex().encode(), "in hexadecimal"),
        (RAW.hex(" ").replace(" ", "").upper().encode(), "in hexadecimal"),
        (quote(PERSON).encode(), "percent-encoded"),
        (quote(PERSON).lower().encode(), "percent-encoded"),
        (urlencode({"q": PERSON}).encode(), "as in a form"),
        (json.dumps(PERSON).encode(), "escaped as in JSON"),
        (html.escape(PERSON).encode(), "escaped as in HTML"),
        *((base64.b64encode(b"abc"[:n] + RAW + b"def"[:m]), "as base64") for n in range(3) for m in range(3)),
        (base64.urlsafe_b64encode(b"?>" + RAW), "as base64"),
        (base64.b64encode(PERSON.encode("utf-16-le")), "as base64"),
        (base64.b64encode(PERSON.lower().encode()), "as base64"),
        *(
            (digest, f"as its {name}{where}")
            for name in ("md5", "sha1", "sha256", "sha512")
            for text in (RAW, PERSON.lower().encode())
            for raw in [hashlib.new(name, text).digest()]
            for digest, where in (
                (raw, ""),
                (base64.b64encode(raw), ""),
                (raw.hex().encode(), " in hexadecimal"),
                (raw.hex().upper().encode(), " in hexadecimal"),
            )
        ),
    ],
)
def test_each_form_is_found(content: bytes, form: str) -> None:
    assert (2, form) in find(b"before " + content + b" after", b"nobody at all", RAW)
    assert {number for number, _ in find(content, b"nobody at all", RAW)} == {2}


@pytest.mark.parametrize("size", range(1, 40))
def test_base64_is_found_whatever_is_around_it(size: int) -> None:
    rng = np.random.default_rng(size)
    canary = rng.bytes(size)
    for _ in range(50):
        before, after = rng.bytes(int(rng.integers(9))), rng.bytes(int(rng.integers(9)))
        form = (1, "as base64")
        assert size < 8 or form in find(base64.b64encode(before + canary + after), canary)
        assert size < 8 or form in find(base64.urlsafe_b64encode(before + canary + after), canary)
        assert form not in find(base64.b64encode(before + rng.bytes(size) + after), canary) or size < 6


def test_nothing_is_found_by_chance() -> None:
    noise = np.random.default_rng(0).bytes(10_000_000)
    for content in (noise, base64.b64encode(noise), noise.hex().encode()):
        assert find(content, b"ada@example.org", RAW, b"\x00\x01\x02\x03\x04\x05\x06\x07") == []


def test_bytes_that_are_no_text_are_found_as_they_are() -> None:
    canary = b"\xffADA\x00\xfe"
    assert find(canary, canary) == [(1, "")]
    assert find(canary.lower(), canary) == []
    assert find(canary.hex().encode(), canary) == [(1, "in hexadecimal")]


def test_how_often_and_where() -> None:
    (exact, other) = CanarySearch([b"ada@x"]).find(b"12ada@xADA@xada@x")
    assert (exact.form, exact.at, exact.count) == ("", 2, 2)
    assert (other.form, other.at, other.count) == ("in another case", 7, 1)
    assert [hit.form for hit in CanarySearch([b"ada@x"]).find(b"12ada@x", limit=2)] == []


def test_the_summary_names_what_is_looked_for() -> None:
    for word in ("UTF-16", "base64", "hexadecimal", "case", "JSON", "HTML", "percent", "Latin-1", "sha256"):
        assert word in FORMS


def test_an_empty_canary_is_refused() -> None:
    with pytest.raises(ParameterError, match="canaries contains an empty one"):
        CanarySearch([b"a", b""])
    with pytest.raises(ParameterError, match="canaries"):
        CanarySearch("ada")  # type: ignore[arg-type]
