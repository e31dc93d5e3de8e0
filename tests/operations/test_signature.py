"""Signed receipts: any change is noticed, keys are never overwritten, and nothing in them tells of a person."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from hypothesis import given, settings
from hypothesis import strategies as st

from vestige import Mean, MemoryStore, SqliteStore, Stream, open_reader
from vestige.cli import command
from vestige.errors import MissingExtraError, SignatureError, StoreError
from vestige.operations import forget
from vestige.operations.signature import find_key_id, generate_key, sign_receipts, to_canonical, verify_receipts

FIELDS = {
    "id",
    "reference",
    "stream",
    "requested",
    "requested_round",
    "due",
    "due_round",
    "erased",
    "erased_round",
    "kept_until",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two requests, one of an unknown person, and a key."""
    folder = tmp_path_factory.mktemp("signed")
    with SqliteStore(folder / "s.db") as store:
        stream = Stream(Mean(), retention=96, seed=1, store=store.stream("main"))
        stream.extend(np.arange(60.0), subjects=[f"canary-{i}" for i in range(60)])
        forget(store, ["canary-59", "canary-nobody"], now=True, references=["T-1", "Ü-2"])
    generate_key(folder / "key.pem")
    return folder


@pytest.fixture(scope="module")
def document(folder: Path) -> dict[str, Any]:
    return sign_receipts(open_reader(folder / "s.db").snapshot(), folder / "key.pem")


def vestige(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments])


def test_what_was_signed_is_verified(folder: Path, document: dict[str, Any]) -> None:
    public = folder / "key.pem.pub"
    assert verify_receipts(json.dumps(document), public) == document
    assert verify_receipts(json.dumps(document, indent=7, ensure_ascii=False).encode(), public) == document
    assert [receipt["reference"] for receipt in document["receipts"]] == ["T-1", "Ü-2"]
    assert all(receipt.keys() == FIELDS for receipt in document["receipts"])
    one, other = ({**receipt, "id": "", "reference": ""} for receipt in document["receipts"])
    assert one == other, "an unknown person has the same receipt"
    assert "canary" not in json.dumps(document)


def list_paths(value: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    """The ways to all values of a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for name, inner in items for found in list_paths(inner, (*path, name)))]


@settings(max_examples=60)
@given(st.data())
def test_any_change_is_noticed(folder: Path, document: dict[str, Any], data: st.DataObject) -> None:
    changed: Any = json.loads(json.dumps(document))
    *way, last = data.draw(st.sampled_from(list_paths(document)[1:]))
    inner = changed
    for name in way:
        inner = inner[name]
    if data.draw(st.booleans()):
        del inner[last]
    else:
        inner[last] = data.draw(
            st.sampled_from([None, 7, "x", [], {}, [inner[last]]]).filter(lambda v: v != inner[last])
        )
    with pytest.raises(SignatureError):
        verify_receipts(json.dumps(changed), folder / "key.pem.pub")


def test_a_signature_has_one_text(folder: Path, document: dict[str, Any]) -> None:
    """Of 64 bytes, the last digit of base64 says two bits, and decoders ignore the other four."""
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    text = document["signature"]
    other = text[:-3] + digits[digits.index(text[-3]) ^ 1] + text[-2:]
    assert base64.b64decode(other) == base64.b64decode(text)
    with pytest.raises(SignatureError, match="was changed after it was signed"):
        verify_receipts(json.dumps(document | {"signature": other}), folder / "key.pem.pub")


def test_names_that_stand_twice_are_refused(folder: Path, document: dict[str, Any]) -> None:
    text = json.dumps(document)
    assert text.startswith('{"format"')
    for added in ('{"created": "2020", ', '{"receipts": [], ', '{"more": NaN, ', '{"more": 1, '):
        with pytest.raises(SignatureError):
            verify_receipts(added + text[1:], folder / "key.pem.pub")
    for wrong in ("", "[]", "{}", "\xff", "[" * 10_000):
        with pytest.raises(SignatureError, match="is not a document of receipts"):
            verify_receipts(wrong, folder / "key.pem.pub")


def test_the_canonical_text_is_one() -> None:
    assert to_canonical({"b": 1, "a": {"d": None, "c": "é\n"}}) == b'{"a":{"c":"\\u00e9\\n","d":null},"b":1}'


def test_rotation_keeps_old_documents_valid(folder: Path, document: dict[str, Any], tmp_path: Path) -> None:
    new = generate_key(tmp_path / "new.pem")
    fresh = sign_receipts(open_reader(folder / "s.db").snapshot(), tmp_path / "new.pem", reference="T-1")
    assert (fresh["key_id"], fresh["reference"], len(fresh["receipts"])) == (new, "T-1", 1)
    with pytest.raises(SignatureError, match=f"was signed with the key {document['key_id']}, and .* has {new};"):
        verify_receipts(json.dumps(document), tmp_path / "new.pem.pub")
    published = tmp_path / "keys.pem"
    published.write_bytes((folder / "key.pem.pub").read_bytes() + (tmp_path / "new.pem.pub").read_bytes())
    for made in (document, fresh):
        assert verify_receipts(json.dumps(made), published) == made


def test_keys_are_private_and_never_overwritten(folder: Path, tmp_path: Path) -> None:
    key, public = folder / "key.pem", folder / "key.pem.pub"
    assert (key.stat().st_mode & 0o777, public.stat().st_mode & 0o777) == (0o600, 0o644)
    before = key.read_bytes(), public.read_bytes()
    with pytest.raises(StoreError, match="exists, and a key is never overwritten"):
        generate_key(key)
    (tmp_path / "b.pem.pub").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StoreError, match=r"b\.pem\.pub: exists"):
        generate_key(tmp_path / "b.pem")
    assert not (tmp_path / "b.pem").exists()
    assert (key.read_bytes(), public.read_bytes()) == before
    (tmp_path / "open.pem").write_bytes(key.read_bytes())
    (tmp_path / "open.pem").chmod(0o640)
    for wrong, text in (("open.pem", "others than its owner may use it"), ("no.pem", "the key cannot be read")):
        with pytest.raises(SignatureError, match=text):
            sign_receipts(MemoryStore().snapshot(), tmp_path / wrong)
    public.chmod(0o600)
    with pytest.raises(SignatureError, match="is not a private key of Ed25519"):
        sign_receipts(MemoryStore().snapshot(), public)
    public.chmod(0o644)
    with pytest.raises(SignatureError, match="has no public key of Ed25519"):
        verify_receipts("{}", key)


def test_the_key_id_is_a_digest() -> None:
    """The first test vector of RFC 8032, section 7.1; its digest by sha256sum."""
    key = Ed25519PublicKey.from_public_bytes(
        bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    )
    assert find_key_id(key) == "21fe31dfa154a261"


def test_the_commands(folder: Path, tmp_path: Path) -> None:
    out, public = tmp_path / "receipts.json", folder / "key.pem.pub"
    result = vestige("receipts", folder / "s.db", "--sign", folder / "key.pem", "--out", out)
    assert result.exit_code == 0, result.output
    result = vestige("verify-receipts", out, "--public-key", public)
    assert result.exit_code == 0
    assert "unchanged since it was signed" in " ".join(result.stdout.split())
    assert "2 receipts, 0 of them open" in " ".join(result.stdout.split())
    assert b"canary" not in out.read_bytes()
    assert vestige("receipts", folder / "s.db", "--sign", folder / "key.pem", "--out", out).exit_code == 2
    out.write_text(out.read_text().replace("T-1", "T-7"))
    result = vestige("verify-receipts", out, "--public-key", public)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    assert "was changed after it was signed" in result.stderr
    for wrong in (["--sign", "k"], ["--out", out], ["--sign", "k", "--out", out, "--format", "csv"]):
        assert vestige("receipts", folder / "s.db", *wrong).exit_code == 2


@pytest.mark.parametrize("name", ["s.db", "key.pem", "key.pem.pub", "link"])
def test_no_file_is_overwritten(folder: Path, name: str) -> None:
    link = folder / "link"
    if not link.exists():
        link.symlink_to(folder / "s.db")
    before = (folder / name).read_bytes()
    result = vestige("receipts", folder / "s.db", "--sign", folder / "key.pem", "--out", folder / name)
    assert result.exit_code == 2
    assert "is not a new file" in result.stderr
    assert (folder / name).read_bytes() == before


@pytest.mark.parametrize(
    "change",
    [{"key_id": []}, {"key_id": {}}, {"receipts": {}}, {"receipts": [1]}, {"receipts": [{}]}, {"created": None}],
)
def test_a_document_that_is_not_one_of_receipts_is_refused(
    folder: Path, tmp_path: Path, document: dict[str, Any], change: dict[str, Any]
) -> None:
    plain = {name: value for name, value in document.items() if name != "signature"} | change
    private = load_pem_private_key((folder / "key.pem").read_bytes(), None)
    assert isinstance(private, Ed25519PrivateKey)
    signature = base64.b64encode(private.sign(to_canonical(plain))).decode()
    (tmp_path / "changed.json").write_text(json.dumps(plain | {"signature": signature}))
    result = vestige("verify-receipts", tmp_path / "changed.json", "--public-key", folder / "key.pem.pub")
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert "is not a document of receipts" in result.stderr or "was signed with the key another" in result.stderr


def test_a_damaged_store_is_not_signed(folder: Path) -> None:
    snapshot = open_reader(folder / "s.db").snapshot()
    object.__setattr__(snapshot, "ledger_trouble", "the ledger is damaged")
    with pytest.raises(StoreError, match="the ledger is damaged"):
        sign_receipts(snapshot, folder / "key.pem")


def test_without_the_extra_it_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    for ask in (
        lambda: generate_key(folder / "more.pem"),
        lambda: sign_receipts(MemoryStore().snapshot(), folder / "key.pem"),
        lambda: verify_receipts("{}", folder / "key.pem.pub"),
    ):
        with pytest.raises(MissingExtraError, match=r"pip install 'vestige\[sign\]'"):
            ask()
