"""Bodies of the protocol of a keyring server: what is packed is unpacked, and all else is refused."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vestige.store.keyring import Key, KeyTable
from vestige.store.keyring.keyring import PAGE, Page
from vestige.store.keyring.protocol import (
    LARGEST,
    pack_head,
    pack_keys,
    pack_versions,
    unpack_keys,
    unpack_pages,
    unpack_versions,
)

IDS = st.binary(min_size=16, max_size=16)
MARKS = SECRETS = st.binary(min_size=32, max_size=32)
SLOTS = st.integers(0, LARGEST)
KEYS = st.builds(Key, st.integers(1, LARGEST), SECRETS)


@given(keyring=IDS, mark=MARKS, keys=st.dictionaries(SLOTS, KEYS))
def test_keys(keyring: bytes, mark: bytes, keys: dict[int, Key]) -> None:
    assert unpack_keys(pack_keys(keyring, mark, keys)) == (keyring, mark, keys)


@given(keyring=IDS, mark=MARKS, versions=st.dictionaries(SLOTS, st.integers(0, LARGEST)))
def test_versions(keyring: bytes, mark: bytes, versions: dict[int, int]) -> None:
    assert unpack_versions(pack_versions(keyring, mark, versions)) == (keyring, mark, versions)


@given(keyring=IDS, is_used=st.booleans(), numbers=st.lists(SLOTS, unique=True))
def test_pages(keyring: bytes, *, is_used: bool, numbers: list[int]) -> None:
    pages = [Page(number) for number in numbers]
    found, table = unpack_pages(
        pack_head(keyring, KeyTable(is_used=is_used)) + b"".join(page.content for page in pages)
    )
    assert (found, table.is_used) == (keyring, is_used)
    assert [page.number for page in table.list_pages()] == numbers


@pytest.mark.parametrize("unpack", [unpack_keys, unpack_versions, unpack_pages])
@given(content=st.binary(max_size=200))
def test_any_bytes_are_unpacked_or_refused(unpack: Callable[[bytes], object], content: bytes) -> None:
    with suppress(ValueError):
        unpack(content)


BASIS = bytes(48)


@pytest.mark.parametrize(
    ("unpack", "content", "reason"),
    [
        (unpack_keys, BASIS[:-1], "whole entries"),
        (unpack_keys, BASIS + bytes(47), "whole entries"),
        (unpack_keys, BASIS + bytes(48), "a version is 0"),
        (unpack_keys, BASIS + 2 * struct.pack("<QQ32s", 3, 1, b""), "twice"),
        (unpack_keys, BASIS + struct.pack("<QQ32s", 3, LARGEST + 1, b""), "larger"),
        (unpack_keys, BASIS + struct.pack("<QQ32s", LARGEST + 1, 3, b""), "larger"),
        (unpack_versions, BASIS[:-1], "whole entries"),
        (unpack_versions, BASIS + bytes(15), "whole entries"),
        (unpack_versions, BASIS + 2 * struct.pack("<QQ", 3, 1), "twice"),
        (unpack_versions, BASIS + struct.pack("<QQ", 3, LARGEST + 1), "larger"),
        (unpack_pages, bytes(17 + PAGE), "label"),
        (unpack_pages, bytes(17 + PAGE - 1), "whole pages"),
        (unpack_pages, bytes(16), "whole pages"),
    ],
)
def test_what_is_refused(unpack: Callable[[bytes], object], content: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        unpack(content)
