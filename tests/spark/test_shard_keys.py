"""Keys of shards: exactly the state of the last committed batch opens, whatever fails, comes late or comes twice."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from vestige import Mean, Sum
from vestige.errors import StoreError
from vestige.spark.definition import Definition
from vestige.spark.shard_keys import ShardKeys, claim_run, find_shard_slot, find_unsettled
from vestige.store import open_keyring
from vestige.store.keyring import Key, KeyringFile
from vestige.store.keyring.seal import PREFIX, TAG, Prefix, open_part
from vestige.stream.limits import Limits

DEFINITION = Definition(Mean(), Limits(retention=96), None, "k", ("v",), 3)


@pytest.fixture
def keyring(tmp_path: Path) -> KeyringFile:
    made = open_keyring(tmp_path / "q.keyring", create=True)
    assert isinstance(made, KeyringFile)
    return made


def claim(keyring: KeyringFile) -> int:
    return claim_run(keyring, DEFINITION.digest, DEFINITION.shards)


def opens(keyring: KeyringFile, sealed: bytes) -> bool:
    """Whether a state can be opened with today's keyring."""
    prefix = Prefix.read(sealed)
    assert prefix is not None
    return any(
        key.version == prefix.version and bool(open_part(sealed, prefix, key))
        for key in keyring.read().find(prefix.slot)
    )


def test_a_state_opens_until_the_next_is_committed(keyring: KeyringFile) -> None:
    run, sealed, before = claim(keyring), None, list[bytes]()
    for batch in range(5):
        keys = ShardKeys(keyring, run, batch, 1, batch)
        plain, _ = keys.open(sealed)
        assert plain == (None if sealed is None else f"state {batch - 1}".encode())
        before += [] if sealed is None else [sealed]
        sealed = keys.seal(f"state {batch}".encode())
        assert [opens(keyring, each) for each in before[:-1]] == [False] * max(len(before) - 1, 0)
        assert opens(keyring, sealed)
        assert not before or opens(keyring, before[-1])
        assert find_unsettled(keyring.read()) == [1]
    ShardKeys(keyring, run, 5, 1, 9).open(sealed)
    assert find_unsettled(keyring.read()) == []
    assert not any(opens(keyring, each) for each in before)


def test_attempts_of_one_batch_share_a_key_and_no_nonce(keyring: KeyringFile) -> None:
    run = claim(keyring)
    one, other = (ShardKeys(keyring, run, 0, 0, attempt) for attempt in (1, 2))
    one.open(None), other.open(None)
    states = [one.seal(b"the same"), other.seal(b"the same"), one.seal(b"the same")]
    assert states[0] == states[2]
    assert states[0][PREFIX:-TAG] != states[1][PREFIX:-TAG]  # one nonce would encrypt both with the same bits
    for sealed in states:
        assert ShardKeys(keyring, run, 1, 0, 3).open(sealed)[0] == b"the same"


def test_an_attempt_that_gets_what_its_own_batch_has_written_ends(keyring: KeyringFile) -> None:
    """It would count the rows of its batch twice."""
    keys = ShardKeys(keyring, claim(keyring), 0, 0, 1)
    keys.open(None)
    sealed = keys.seal(b"state")
    with pytest.raises(StoreError, match="comes late"):
        keys.open(sealed)
    assert opens(keyring, sealed)


def test_who_comes_late_destroys_nothing_and_ends(keyring: KeyringFile) -> None:
    run = claim(keyring)
    late = ShardKeys(keyring, run, 0, 0, 1)
    late.open(None)
    first = ShardKeys(keyring, run, 0, 0, 2)
    first.open(None)
    sealed = first.seal(b"0")
    second = ShardKeys(keyring, run, 1, 0, 3)
    second.open(sealed)
    newest = second.seal(b"1")
    held = keyring.read().find(find_shard_slot(0))
    with pytest.raises(StoreError, match="comes late"):
        late.open(None)
    keyring.settle({late.slot: held[0].version}, before=late.version)  # what it would have destroyed before
    assert keyring.read().find(find_shard_slot(0)) == held
    assert ShardKeys(keyring, run, 2, 0, 5).open(newest)[0] == b"1"
    with pytest.raises(StoreError, match="another key of this version"):  # by one that was held up when it prepared
        keyring.prepare({late.slot: held[1]._replace(secret=bytes(32))})


def test_the_state_of_a_batch_is_not_taken_for_that_of_the_batch_before(keyring: KeyringFile) -> None:
    run = claim(keyring)
    first = ShardKeys(keyring, run, 0, 0, 1)
    first.open(None)
    sealed = first.seal(b"0")
    held = keyring.read().find(find_shard_slot(0))
    with pytest.raises(StoreError, match="comes late"):
        ShardKeys(keyring, run, 0, 0, 2).open(sealed)
    assert keyring.read().find(find_shard_slot(0)) == held


def test_an_attempt_that_is_held_up_before_it_settles_destroys_no_newer_key(
    keyring: KeyringFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile another attempt at the batch has written, and is the one that is committed."""
    run = claim(keyring)
    first = ShardKeys(keyring, run, 0, 0, 1)
    first.open(None)
    sealed, settle, written = first.seal(b"0"), keyring.settle, list[bytes]()

    def hold_up(versions: Mapping[int, int], *, before: int | None = None) -> None:
        monkeypatch.undo()
        other = ShardKeys(keyring, run, 1, 0, 3)
        other.open(sealed)
        written.append(other.seal(b"1"))
        settle(versions, before=before)

    monkeypatch.setattr(keyring, "settle", hold_up)
    ShardKeys(keyring, run, 1, 0, 2).open(sealed)
    assert ShardKeys(keyring, run, 2, 0, 4).open(written[0])[0] == b"1"


def test_a_later_run_ends_the_one_before(keyring: KeyringFile) -> None:
    run = claim(keyring)
    old = ShardKeys(keyring, run, 0, 0, 1)
    old.open(None)
    lost = old.seal(b"never committed")
    now = claim(keyring)
    assert now == run + 1
    with pytest.raises(StoreError, match="later run"):
        old.seal(b"late")
    again = ShardKeys(keyring, now, 0, 0, 1)
    assert again.open(None)[0] is None
    sealed = again.seal(b"0")
    assert not opens(keyring, lost)
    assert ShardKeys(keyring, now, 1, 0, 2).open(sealed)[0] == b"0"


def test_a_late_change_of_an_earlier_run_is_refused_by_the_file(keyring: KeyringFile, tmp_path: Path) -> None:
    claim(keyring)
    worker = KeyringFile(tmp_path / "q.keyring")
    held = worker.read().find(find_shard_slot(2))
    claim(keyring)
    with pytest.raises(StoreError, match="another process"):
        worker.settle({find_shard_slot(2): 0})
    assert keyring.read().find(find_shard_slot(2)) == held


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("none", "checkpoint was removed"),
        ("old", "rolled back"),
        ("cut", "changed outside"),
        ("flip", "seal does not fit"),
    ],
)
def test_a_checkpoint_that_was_changed_is_refused(keyring: KeyringFile, state: str, text: str) -> None:
    run = claim(keyring)
    sealed, states = None, list[bytes]()
    for batch in range(3):
        keys = ShardKeys(keyring, run, batch, 0, batch)
        keys.open(sealed)
        sealed = keys.seal(b"state %d" % batch)
        states.append(sealed)
    flipped = states[-1][:-1] + bytes([states[-1][-1] ^ 1])
    given = {"none": None, "old": states[0], "cut": states[-1][:-1], "flip": flipped}[state]
    with pytest.raises(StoreError, match=text):
        ShardKeys(keyring, run, 3, 0, 9).open(given)
    assert ShardKeys(keyring, run, 3, 0, 9).open(sealed)[0] == b"state 2"
    with pytest.raises(StoreError, match="rolled back"):  # by one batch, whose key is destroyed by now
        ShardKeys(keyring, run, 3, 0, 9).open(states[1])


def test_another_keyring_and_another_shard_are_refused(keyring: KeyringFile, tmp_path: Path) -> None:
    run = claim(keyring)
    keys = ShardKeys(keyring, run, 0, 0, 0)
    keys.open(None)
    sealed = keys.seal(b"0")
    other = open_keyring(tmp_path / "other.keyring", create=True)
    elsewhere = claim_run(other, DEFINITION.digest, DEFINITION.shards)
    with pytest.raises(StoreError, match="another keyring"):
        ShardKeys(other, elsewhere, 1, 0, 0).open(sealed)
    with pytest.raises(StoreError, match="changed outside"):
        ShardKeys(keyring, run, 1, 1, 0).open(sealed)


@pytest.mark.parametrize(
    "change", [{"policy": Sum()}, {"shards": 4}, {"columns": ("w",)}, {"limits": Limits(retention=64)}]
)
def test_a_query_with_other_terms_does_not_get_the_keyring(keyring: KeyringFile, change: dict[str, object]) -> None:
    claim(keyring)
    other = replace(DEFINITION, **change)  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="belongs to a query with another"):
        claim_run(keyring, other.digest, other.shards)


def test_the_keyring_of_a_store_is_not_taken(keyring: KeyringFile) -> None:
    keyring.prepare({1: Key(1, bytes(32)), 7: Key(2, bytes(32))})
    with pytest.raises(StoreError, match="keyring of a store"):
        claim(keyring)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_fails_the_committed_state_opens_and_no_older_one_stays(keyring: KeyringFile, seed: int) -> None:
    """Attempts of several shards are begun, stopped anywhere, repeated and late; batches are committed; drivers die."""
    rng = random.Random(seed)  # noqa: S311
    run, batch, attempt = claim(keyring), 0, 0
    committed: dict[int, bytes | None] = dict.fromkeys(range(3))
    replaced: dict[int, list[bytes]] = {shard: [] for shard in range(3)}
    late: list[tuple[ShardKeys, bytes | None]] = []
    for _ in range(60):
        written: dict[int, list[bytes]] = {}
        for shard in rng.sample(range(3), rng.randint(1, 3)):
            for _ in range(rng.randint(1, 3)):
                attempt += 1
                keys = ShardKeys(keyring, run, batch, shard, attempt)
                late.append((keys, committed[shard]))
                keys.open(committed[shard])
                if rng.random() < 0.8:
                    written.setdefault(shard, []).append(keys.seal(f"{shard} {batch}".encode()))
        for keys, sealed in rng.sample(late, min(len(late), 3)):  # of this batch, earlier ones and earlier runs
            try:
                keys.open(sealed)
                keys.seal(b"late") if keys.batch < batch or keys.run < run else None
            except StoreError:
                pass
        if rng.random() < 0.3:  # the driver dies before the commit
            run = claim(keyring)
            continue
        for shard, states in written.items():
            replaced[shard] += [committed[shard]] if committed[shard] is not None else []  # type: ignore[list-item]
            committed[shard] = rng.choice(states)
        batch += 1
        for shard, sealed in committed.items():
            plain = ShardKeys(keyring, run, batch, shard, 0).open(sealed)[0]
            assert plain is None or plain.startswith(b"%d " % shard)
            assert not any(opens(keyring, each) for each in replaced[shard])
