"""Receipts and reports that are signed, so that whoever has the public key can see that nobody has changed them since.

Ed25519 (Bernstein, Duif, Lange, Schwabe and Yang 2012, https://doi.org/10.1007/s13389-012-0027-1; RFC 8032) over the
canonical text of the document: JSON in ASCII with sorted names and no blanks, without the signature.
Guarantee: any change to what a document says is noticed, and a key is never overwritten; held by
tests/operations/test_signature.py.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vestige.errors import MissingExtraError, ParameterError, SignatureError, StoreError
from vestige.store import StoreSnapshot
from vestige.store.paths import append_ending
from vestige.times import wall_clock
from vestige.validation import show_value

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

FORMAT = "vestige-receipts-1"
"""What a document of receipts says of its form."""
REPORT_FORMAT = "vestige-report-1"
"""What the signature of a report says of its form."""
_NO_SIGNATURE = f"is not the signature of a report ({REPORT_FORMAT}), as vestige audit --sign makes one"
_NO_DOCUMENT = f"is not a document of receipts ({FORMAT}), as vestige receipts --sign makes one"
_CHANGED = "was changed after it was signed, or was never signed with this key; ask for the original"
_PUBLIC = re.compile(rb"-----BEGIN PUBLIC KEY-----.+?-----END PUBLIC KEY-----", re.DOTALL)


def generate_key(path: str | Path) -> str:
    """Make a pair of keys for signatures: the private key in a file, the public key in PATH.pub.

    Args:
        path: the file for the private key, in PEM (PKCS 8), which only its owner can read.

    Returns:
        The id of the key.

    Raises:
        MissingExtraError: cryptography is not installed.
        StoreError: one of the files exists, or cannot be written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     key_id = generate_key(folder + "/receipts.pem")
        ...     print(len(key_id), sorted(path.name for path in Path(folder).iterdir()))
        16 ['receipts.pem', 'receipts.pem.pub']
    """
    _check_extra()
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415

    private, public = _check_path("path", path), append_ending(_check_path("path", path), ".pub")
    for file in (private, public):
        if os.path.lexists(file):
            raise StoreError(f"{file}: exists, and a key is never overwritten; give another name, or move it away")
    key = Ed25519PrivateKey.generate()
    pem, info = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    text = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    _create(private, text, 0o600)
    try:
        _create(public, key.public_key().public_bytes(pem, info), 0o644)
    except BaseException:
        with suppress(OSError):
            private.unlink()
        raise
    return find_key_id(key.public_key())


def sign_receipts(snapshot: StoreSnapshot, key: str | Path, *, reference: str | None = None) -> dict[str, Any]:
    """Make a signed document of the receipts of a store.

    Args:
        snapshot: the store.
        key: the file with the private key, as `generate_key` makes one.
        reference: only the receipts with this reference; default: all. The document says so.

    Returns:
        The document, ready for JSON.

    Raises:
        MissingExtraError: cryptography is not installed.
        ParameterError: `snapshot` is not a snapshot of a store.
        SignatureError: the file is not a private key, or others may read it.
        StoreError: a stream or the ledger is damaged, so that receipts would be missing.

    Example:
        >>> import tempfile
        >>> from vestige import open_store
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     key_id = generate_key(folder + "/receipts.pem")
        ...     document = sign_receipts(open_store("memory:").snapshot(), folder + "/receipts.pem")
        ...     print(document["key_id"] == key_id, document["receipts"])
        True []
    """
    if not isinstance(snapshot, StoreSnapshot):
        raise ParameterError(f"snapshot={show_value(snapshot)} is not a snapshot; pass open_reader(PATH).snapshot()")
    if reference is not None and not isinstance(reference, str):
        raise ParameterError(f"reference={show_value(reference)} is not a text; pass the reference of a request")
    private = _read_private(_check_path("key", key))
    snapshot.all_streams()
    now = wall_clock()
    document: dict[str, Any] = {
        "format": FORMAT,
        "vestige": version("vestige"),
        "created": now.isoformat(),
        "reference": reference,
        "key_id": find_key_id(private.public_key()),
        "receipts": [
            receipt.to_dict() | {"stream": stream}
            for stream, receipt in snapshot.find_receipts(now)
            if reference in (None, receipt.reference)
        ],
    }
    return document | {"signature": base64.b64encode(private.sign(to_canonical(document))).decode()}


def verify_receipts(document: str | bytes, public_key: str | Path) -> dict[str, Any]:
    """Check a signed document of receipts.

    Args:
        document: the document as JSON.
        public_key: the file with the public key, in PEM; of several in one file, the one with the document's key id.

    Returns:
        The document, which is as it was signed.

    Raises:
        MissingExtraError: cryptography is not installed.
        SignatureError: it was changed, was signed with another key, or is not a document of receipts; or the file is
            not a public key.

    Example:
        >>> import tempfile
        >>> from vestige import open_store
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = generate_key(folder + "/receipts.pem")
        ...     document = sign_receipts(open_store("memory:").snapshot(), folder + "/receipts.pem")
        ...     print(verify_receipts(json.dumps(document), folder + "/receipts.pem.pub")["receipts"])
        []
    """
    facts = _verify(document, FORMAT, _NO_DOCUMENT, public_key)
    if not _has_receipts(facts):
        raise SignatureError(_NO_DOCUMENT)
    return facts


def sign_report(report: bytes, key: str | Path) -> dict[str, Any]:
    """Make the signature of a report, which is kept beside it.

    Args:
        report: the contents of the report.
        key: the file with the private key, as `generate_key` makes one.

    Returns:
        The document, ready for JSON: it has the SHA-256 of the report.

    Raises:
        MissingExtraError: cryptography is not installed.
        ParameterError: `report` is not bytes.
        SignatureError: the file is not a private key, or others may read it.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     key_id = generate_key(folder + "/audit.pem")
        ...     print(sign_report(b"<html>", folder + "/audit.pem")["key_id"] == key_id)
        True
    """
    if not isinstance(report, bytes):
        raise ParameterError(f"report={show_value(report)} is not bytes; pass the contents of the file")
    private = _read_private(_check_path("key", key))
    document: dict[str, Any] = {
        "format": REPORT_FORMAT,
        "vestige": version("vestige"),
        "created": wall_clock().isoformat(),
        "sha256": hashlib.sha256(report).hexdigest(),
        "key_id": find_key_id(private.public_key()),
    }
    return document | {"signature": base64.b64encode(private.sign(to_canonical(document))).decode()}


def verify_report(report: bytes, document: str | bytes, public_key: str | Path) -> dict[str, Any]:
    """Check that a report is the one that was signed.

    Args:
        report: the contents of the report.
        document: its signature as JSON, as `sign_report` makes one.
        public_key: the file with the public key, in PEM; it may contain several.

    Returns:
        The document.

    Raises:
        MissingExtraError: cryptography is not installed.
        SignatureError: the report or its signature was changed, or was signed with another key.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     key_id = generate_key(folder + "/audit.pem")
        ...     signature = json.dumps(sign_report(b"<html>", folder + "/audit.pem"))
        ...     print(verify_report(b"<html>", signature, folder + "/audit.pem.pub")["key_id"] == key_id)
        True
    """
    facts = _verify(document, REPORT_FORMAT, _NO_SIGNATURE, public_key)
    if facts.get("sha256") != hashlib.sha256(report).hexdigest():
        raise SignatureError(_CHANGED)
    return facts


def _verify(document: str | bytes, form: str, refusal: str, public_key: str | Path) -> dict[str, Any]:
    """The facts of a document, if its signature is that of a known key."""
    known = _read_public(_check_path("public_key", public_key))
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415

    facts = _parse(document, form, refusal)
    key_id = facts.get("key_id")
    if not isinstance(key_id, str) or key_id not in known:
        shown = key_id if isinstance(key_id, str) and re.fullmatch("[0-9a-f]{16}", key_id) else "another"
        raise SignatureError(
            f"was signed with the key {shown}, and {public_key} has {', '.join(map(str, known))}; get that public key "
            "from where it was published"
        )
    plain = {name: value for name, value in facts.items() if name != "signature"}
    try:
        known[key_id].verify(_decode(facts["signature"]), to_canonical(plain))
    except (InvalidSignature, ValueError, TypeError, KeyError):
        raise SignatureError(_CHANGED) from None
    return facts


def _decode(text: str) -> bytes:
    """The bytes of a signature, which has one text only: the last digit of base64 has bits that decoders ignore."""
    signature = base64.b64decode(text, validate=True)
    if base64.b64encode(signature).decode() != text:
        raise ValueError("not the text of these bytes")
    return signature


def to_canonical(document: Mapping[str, Any]) -> bytes:
    r"""Encode a document in the one way that is signed.

    Args:
        document: plain data without its signature.

    Returns:
        JSON in ASCII, names sorted, without blanks; as `jq -cSaj` prints it.

    Example:
        >>> to_canonical({"b": [1, None], "a": "ü"})
        b'{"a":"\\u00fc","b":[1,null]}'
    """
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def find_key_id(key: Ed25519PublicKey) -> str:
    """Compute the id of a public key.

    Args:
        key: the key.

    Returns:
        The first sixteen hexadecimal digits of the SHA-256 of its 32 bytes.
    """
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:16]


def _check_extra() -> None:
    try:
        import cryptography  # noqa: F401, PLC0415
    except ModuleNotFoundError:
        raise MissingExtraError("signing receipts", "sign") from None


def _check_path(name: str, path: object) -> Path:
    if isinstance(path, (str, Path)) and str(path):
        return Path(path)
    raise ParameterError(f"{name}={show_value(path)} is not a path; pass the name of a file")


def _create(path: Path, content: bytes, rights: int) -> None:
    """Write a file that is not there yet."""
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, rights)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(handle)
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "its name cannot be one of a file"
        raise StoreError(f"{path}: cannot be made ({reason}); give another name") from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "its name cannot be one of a file"
        raise SignatureError(f"{path}: the key cannot be read ({reason}); make one with vestige keygen") from None


def _read_private(path: Path) -> Ed25519PrivateKey:
    _check_extra()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    content = _read(path)
    rights = stat.S_IMODE(path.stat().st_mode)
    if rights & 0o077:
        raise SignatureError(
            f"{path}: others than its owner may use it (its rights are {rights:o}), so that they can sign too; "
            "chmod 600, or make a new key if they may have copied it"
        )
    key = _load(partial(load_pem_private_key, content, None))
    if isinstance(key, Ed25519PrivateKey):
        return key
    raise SignatureError(
        f"{path}: is not a private key of Ed25519 in PEM without a password; make one with vestige keygen"
    )


def _read_public(path: Path) -> dict[object, Ed25519PublicKey]:
    """The public keys of a file, by id."""
    _check_extra()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_public_key  # noqa: PLC0415

    keys = [_load(partial(load_pem_public_key, text)) for text in _PUBLIC.findall(_read(path))]
    known: dict[object, Ed25519PublicKey] = {find_key_id(key): key for key in keys if isinstance(key, Ed25519PublicKey)}
    if not known:
        raise SignatureError(f"{path}: has no public key of Ed25519 in PEM; give the file that was published")
    return known


def _load(load: Callable[[], object]) -> object:
    """The key; None if the text is not one."""
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415

    try:
        return load()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None


def _parse(document: str | bytes, form: str, refusal: str) -> dict[str, Any]:
    """Read a document in which no name stands twice: readers would differ in which of them they show."""
    try:
        facts = json.loads(document, object_pairs_hook=_make_object, parse_constant=_refuse)
    except (ValueError, TypeError, RecursionError):
        facts = None
    if not isinstance(facts, dict) or facts.get("format") != form:
        raise SignatureError(refusal)
    return facts


def _has_receipts(facts: Mapping[str, Any]) -> bool:
    """Whether a document says when it was made, for which reference, and has receipts that say whether they are met."""
    receipts = facts.get("receipts")
    return (
        isinstance(facts.get("created"), str)
        and isinstance(facts.get("reference", 0), str | None)
        and isinstance(receipts, list)
        and all(isinstance(receipt, dict) and "erased" in receipt for receipt in receipts)
    )


def _make_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name stands twice")
    return made


def _refuse(_: str) -> object:
    raise ValueError("not a number of JSON")
