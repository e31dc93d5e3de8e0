"""The inspection of files finds each state, says which of them open, and finds canaries in clear and in states."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from vestige import Mean
from vestige.errors import ParameterError
from vestige.spark.definition import Definition
from vestige.spark.inspection import inspect_files
from vestige.spark.shard_keys import ShardKeys, claim_run
from vestige.store import open_keyring
from vestige.stream.limits import Limits

CANARY = b"a value that is to be gone"
DEFINITION = Definition(Mean(), Limits(retention=96), None, "k", ("v",), 2)


def pack_blocks(content: bytes, size: int = 1 << 16) -> bytes:
    """What Spark's streams of LZ4 blocks are made of: those that do not get shorter are raw."""
    made, codec = b"", pa.Codec("lz4_raw")
    for at in range(0, len(content), size):
        block = content[at : at + size]
        packed = codec.compress(block, asbytes=True)
        method, kept = (0x10, block) if len(packed) >= len(block) else (0x20, packed)
        lengths = len(kept).to_bytes(4, "little") + len(block).to_bytes(4, "little")
        made += b"LZ4Block" + bytes([method | 6]) + lengths + bytes(4) + kept
    return made


@pytest.mark.parametrize("form", ["plain", "zip", "blocks"])
def test_states_open_until_their_keys_are_destroyed(tmp_path: Path, form: str) -> None:
    keyring = open_keyring(tmp_path / "q.keyring", create=True)
    run, sealed = claim_run(keyring, DEFINITION.digest, 2), None
    (folder := tmp_path / "checkpoint").mkdir()
    for batch in range(3):
        keys = ShardKeys(keyring, run, batch, 1, batch)
        keys.open(sealed)
        sealed = keys.seal((CANARY if batch < 2 else b"the rest") + bytes(range(256)) * 600)
        content = bytes(100) + sealed + bytes(100)
        if form == "zip":
            with zipfile.ZipFile(folder / f"{batch}.zip", "w") as archive:
                archive.writestr("000008.sst", content)
        else:
            (folder / f"{batch}.changelog").write_bytes(pack_blocks(content) if form == "blocks" else content)
    report = inspect_files(folder, keyring, canaries=[CANARY])
    assert (report.files, report.states, report.current, report.unsettled, report.destroyed) == (3, 3, 0, 2, 1)
    assert len(report.findings) == 1
    assert "canary 1 of 1 is in 1." in report.findings[0]
    assert "shard 1, which can be opened" in report.findings[0]
    ShardKeys(keyring, run, 3, 1, 9).open(sealed)
    report = inspect_files(folder, keyring, canaries=[CANARY])
    assert (report.states, report.current, report.unsettled, report.destroyed, report.findings) == (3, 1, 0, 2, ())
    assert "2 cannot be opened" in report.text


def test_rows_in_clear_and_copies_of_the_keyring_are_found(tmp_path: Path) -> None:
    keyring = open_keyring(tmp_path / "q.keyring", create=True)
    (folder := tmp_path / "local").mkdir()
    (folder / "shuffle").write_bytes(pack_blocks(b"row " * 99 + CANARY + b"row " * 99))
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "copy").write_bytes((tmp_path / "q.keyring").read_bytes())
    open_keyring(folder / "other.keyring", create=True)  # that of another query tells nothing of this one
    found = inspect_files(folder, keyring, canaries=[CANARY]).findings
    assert [text.split(" is in ")[-1].split(" holds ")[0] for text in found] == ["a/b/copy", "shuffle, in clear"]


def test_states_that_lie_close_together_are_all_found(tmp_path: Path) -> None:
    keyring = open_keyring(tmp_path / "q.keyring", create=True)
    run, states = claim_run(keyring, DEFINITION.digest, 2), []
    for shard in range(2):
        keys = ShardKeys(keyring, run, 0, shard, shard)
        keys.open(None)
        states.append(keys.seal(b"state"))
    (tmp_path / "changelog").write_bytes(b"".join(states))
    report = inspect_files(tmp_path / "changelog", keyring)
    assert (report.files, report.states, report.unsettled, report.findings) == (1, 2, 2, ())
    (tmp_path / "draft").write_bytes(pack_blocks(states[0] + bytes(999))[:-1])  # it is being written
    assert inspect_files(tmp_path / "draft", keyring).findings == ()


def test_blocks_are_found_wherever_they_begin(tmp_path: Path) -> None:
    keyring = open_keyring(tmp_path / "q.keyring", create=True)
    packed = pack_blocks(b"a value that was there; it is to be gone; " * 9 + CANARY)
    assert CANARY not in packed
    (tmp_path / "log").write_bytes(b"LZ4BlockInputStream was closed\n" + packed)
    (tmp_path / "spill").write_bytes(pack_blocks(b"row " * 99) + bytes(9) + packed)
    for name in ("log", "spill"):
        assert inspect_files(tmp_path / name, keyring, canaries=[CANARY]).findings == (
            f"canary 1 of 1 is in {name}, in clear",
        )


def test_what_cannot_be_unpacked_is_said_and_stops_nothing(tmp_path: Path) -> None:
    keyring = open_keyring(tmp_path / "q.keyring", create=True)
    (folder := tmp_path / "checkpoint").mkdir()
    with zipfile.ZipFile(folder / "cut.zip", "w") as archive:
        archive.writestr("000008.sst", bytes(100))
    (folder / "cut.zip").write_bytes((folder / "cut.zip").read_bytes()[:-9])
    broken = bytearray(pack_blocks(b"row " * 99))
    broken[21:] = b"\xff" * len(broken[21:])
    (folder / "damaged").write_bytes(broken)
    (folder / "rows").write_bytes(CANARY)
    said = "is packed and cannot be unpacked, so not all of it was looked at"
    assert inspect_files(folder, keyring, canaries=[CANARY]).findings == (
        f"cut.zip {said}",
        f"damaged {said}",
        "canary 1 of 1 is in rows, in clear",
    )


@pytest.mark.parametrize(("folder", "canaries"), [("nowhere", []), (".", [b""]), (".", ["text"])])
def test_what_cannot_be_looked_for_is_refused(tmp_path: Path, folder: str, canaries: list[bytes]) -> None:
    keyring = open_keyring(tmp_path / "q.keyring", create=True)
    with pytest.raises(ParameterError):
        inspect_files(tmp_path / folder, keyring, canaries=canaries)
