"""Tokens of servers: kept as hashes, shown once, revoked at once."""

from __future__ import annotations

import fcntl
import hashlib
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from vestige.errors import ParameterError, StoreError
from vestige.store.paths import write_private
from vestige.store.tokens import create_token, find_token, read_tokens, revoke_token


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokens"


def test_a_token_is_in_no_file(file: Path) -> None:
    token = create_token(file, "a", "read")
    assert token not in file.read_text()
    assert hashlib.sha256(token.encode()).hexdigest() in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_tokens_are_found_until_they_are_revoked(file: Path) -> None:
    made = {label: create_token(file, label, scope) for label, scope in (("a", "read"), ("b", "write"))}
    assert len(set(made.values())) == 2
    for label, token in made.items():
        found = find_token(read_tokens(file), token)
        assert found is not None
        assert found.label == label
        assert found.allows("read")
        assert found.allows("write") == (label == "b")
    revoke_token(file, "a")
    assert find_token(read_tokens(file), made["a"]) is None
    assert find_token(read_tokens(file), made["b"]) is not None
    for wrong in ("", made["b"][:-1], made["b"] + "x", "ä", hashlib.sha256(made["b"].encode()).hexdigest()):
        assert find_token(read_tokens(file), wrong) is None


def test_a_label_is_given_once(file: Path) -> None:
    token = create_token(file, "a", "write")
    with pytest.raises(StoreError, match="has a token a already; revoke it first"):
        create_token(file, "a", "write")
    assert find_token(read_tokens(file), token) is not None
    with pytest.raises(StoreError, match="has no token 'b'; there is a"):
        revoke_token(file, "b")


@pytest.mark.parametrize("label", ["", "two words", "a\nb", "#", "-a", "ä", "x" * 65])
def test_what_is_not_a_label(file: Path, label: str) -> None:
    with pytest.raises(ParameterError, match="is not a label"):
        create_token(file, label, "write")
    assert not file.exists()


def test_what_is_not_a_scope(file: Path) -> None:
    with pytest.raises(ParameterError, match="scope='all' is not a scope; use one of read, write"):
        create_token(file, "a", "all")


def test_a_file_that_others_may_write_is_refused(file: Path) -> None:
    create_token(file, "a", "write")
    file.chmod(0o620)
    for use in (lambda: read_tokens(file), lambda: create_token(file, "b", "write"), lambda: revoke_token(file, "a")):
        with pytest.raises(StoreError, match=r"others may write it \(its rights are 620\).*chmod 600"):
            use()


@pytest.mark.parametrize("line", ["a write 12", "a root " + "0" * 64 + " now", "\udcff", "a write"])
def test_a_damaged_line_is_named_and_not_shown(file: Path, line: str) -> None:
    create_token(file, "a", "write")
    with file.open("a", errors="surrogateescape") as opened:
        opened.write(line + "\n")
    with pytest.raises(StoreError, match=r"tokens: line 3 is not a token; delete it, and make a new one: [a-z ]+$"):
        read_tokens(file)


def test_there_is_no_file(file: Path) -> None:
    for use in (lambda: read_tokens(file), lambda: revoke_token(file, "a")):
        with pytest.raises(
            StoreError, match=r"there is no such file of tokens; make one: vestige keyring token .* --add"
        ):
            use()
    assert not file.exists()


def test_who_waited_for_a_file_that_was_replaced_waits_for_the_new_one(file: Path) -> None:
    create_token(file, "a", "write")
    content = file.read_bytes()
    with file.open("rb") as old, ThreadPoolExecutor(1) as pool:
        fcntl.flock(old, fcntl.LOCK_EX)
        waiting = pool.submit(create_token, file, "b", "write")
        time.sleep(0.1)
        write_private(file, content)
        with file.open("rb") as new:
            fcntl.flock(new, fcntl.LOCK_EX)
            fcntl.flock(old, fcntl.LOCK_UN)
            time.sleep(0.1)
            assert file.read_bytes() == content
        waiting.result()
    assert [token.label for token in read_tokens(file)] == ["a", "b"]


def test_those_who_write_at_the_same_time_lose_nothing(file: Path) -> None:
    labels = [f"host-{i}" for i in range(40)]
    with ThreadPoolExecutor(8) as pool:
        made = dict(zip(labels, pool.map(lambda label: create_token(file, label, "write"), labels), strict=True))
        list(pool.map(lambda label: revoke_token(file, label), labels[::2]))
    tokens = read_tokens(file)
    assert {token.label for token in tokens} == set(labels[1::2])
    assert all(find_token(tokens, made[label]) for label in labels[1::2])
