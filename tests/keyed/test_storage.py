"""Keyed streams in a store against the same streams in memory, closed and opened again at any time."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vestige import Bundle, KeyedStreams, Mean, Moments, Policy, StoreError, Stream, Window, open_reader, open_store
from vestige.errors import ParameterError
from vestige.store import KeyringFile, MemoryStore, Store
from vestige.store.entry import pack_entry
from vestige.stream import open_stream

START = np.datetime64("2024-01-01", "us")
HOUR = np.timedelta64(1, "h")
CASES: dict[str, dict[str, Any]] = {
    "bits": {"policy": Mean(channel="bits"), "retention": 56},
    "three columns": {"policy": Mean(3, channel="bits"), "retention": 130},
    "times": {"policy": Mean(), "retention": 96, "max_age": timedelta(days=2), "lateness": timedelta(hours=3)},
    "order": {"policy": Mean(channel="bits"), "retention": 96, "max_age": timedelta(days=1)},
    "notice": {"policy": Mean(channel="bits"), "retention": 120, "notice": 80},
    "moments": {"policy": Moments(2), "retention": 128},
    "bundle": {"policy": Bundle({"a": Mean(), "b": Mean()}), "retention": 260},
    "window": {"policy": Window(Mean()), "retention": 40},
}


class Twins:
    """The same streams in a store and in memory, under pseudonyms of the same key."""

    def __init__(self, path: Path, case: str, *, is_sealed: bool = False) -> None:
        self.path, self.terms = path, dict(CASES[case])
        self.policy: Policy = self.terms.pop("policy")
        self.keyring = KeyringFile(path.with_suffix(".keyring"), create=True) if is_sealed else None
        self.store, self.now = open_store(path, keyring=self.keyring), START
        self.kept = self.open()
        self.memory: KeyedStreams = KeyedStreams(self.policy, **self.terms, seed=5)
        self.memory._hash_subject = self.hash_subject  # type: ignore[method-assign]

    def hash_subject(self, subject: str) -> str:
        return self.store.pseudonym(subject)

    def open(self) -> KeyedStreams:
        return KeyedStreams(self.policy, **self.terms, seed=5, store=self.store.family())

    def reopen(self) -> None:
        self.store.close()
        self.store = open_store(self.path, keyring=self.keyring)
        self.kept = self.open()

    def do(self, action: Any) -> None:
        one, other = action(self.kept), action(self.memory)
        assert one == other

    def check(self) -> None:
        assert set(self.kept) == set(self.memory) == set(self.store.names())
        for key in self.memory:
            assert self.kept.clock(key) == self.memory.clock(key), key
            assert self.kept.retained(key) == self.memory.retained(key), key
            _, state = self.store.read_stream(key)  # type: ignore[misc]
            assert (state.clock, state.retained) == (self.memory.clock(key), self.memory.retained(key))
        assert self.store.verify(at=_at(START)) == ()


def _at(now: np.datetime64) -> Any:
    return now.astype("datetime64[us]").item()


def act(twins: Twins, rng: np.random.Generator) -> None:
    """Do something to both: take rows, erase a person, sweep, remove a stream, or open the store again."""
    what, keys = rng.random(), [f"key {k}" for k in range(30)]
    timed = "max_age" in twins.terms
    if what < 0.6:
        n = int(rng.integers(1, 400))
        rows = 1e5 + rng.lognormal(size=(n, twins.policy.columns))
        if twins.policy.takes_missing:
            rows[rng.random(n) < 0.2, 0] = np.nan
        twins.now += int(rng.integers(1, 8)) * HOUR
        times = np.sort(twins.now - rng.integers(0, 120, n) * HOUR / 60) if timed else None
        subjects = rng.choice(["ada", "bob", "cyd", None], n) if rng.random() < 0.8 else None  # type: ignore[arg-type]
        named = rng.choice(keys[: int(rng.integers(1, 30))], n).tolist()
        numbers = np.sort(rng.integers(1, 10**9, n)) if rng.random() < 0.5 else None
        twins.do(lambda each: each.take(named, rows, times=times, subjects=subjects, numbers=numbers).taken)
        twins.kept.flush()
    elif what < 0.75:
        who, at_once = str(rng.choice(["ada", "bob"])), bool(rng.random() < 0.5)
        twins.do(lambda each: each.forget(subject=who, now=at_once).erased is None)
    elif what < 0.85:
        twins.now += 5 * HOUR
        twins.do(lambda each: each.sweep(twins.now))
    elif what < 0.92 and len(twins.memory):
        gone = str(rng.choice(list(twins.memory)))
        twins.do(lambda each: each.remove(gone))
    else:
        twins.reopen()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_store_holds_what_memory_holds(case: str, seed: int, tmp_path: Path) -> None:
    check_twins(Twins(tmp_path / "a.db", case), seed)


@pytest.mark.parametrize("case", ["times", "notice", "window"])
def test_a_sealed_store_holds_what_memory_holds(case: str, tmp_path: Path) -> None:
    check_twins(Twins(tmp_path / "a.db", case, is_sealed=True), 3)


def check_twins(twins: Twins, seed: int) -> None:
    """Do a lot to both."""
    rng = np.random.default_rng(seed)
    for _ in range(16):
        act(twins, rng)
        twins.check()
    twins.reopen()
    twins.check()
    twins.store.close()


def test_entries_are_those_of_streams_one_by_one(tmp_path: Path) -> None:
    rng, twins = np.random.default_rng(3), Twins(tmp_path / "a.db", "times")
    for _ in range(12):
        act(twins, rng)
    with twins.store._use() as tables:  # type: ignore[attr-defined]
        family = tables.find_families(twins.kept._terms)[0]
        for bucket in tables.buckets.iterate():
            for name, entry in bucket:
                state = tables.unpack(name, entry)[1]
                assert pack_entry(name, family, twins.kept._terms, state) == entry
    twins.store.close()


def test_order_of_blocks_and_flushes_leaves_no_trace(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    keys, rows = rng.integers(0, 500, 6_000), rng.normal(1e4, 1.0, 6_000)
    by_key = np.argsort(keys, kind="stable")
    images = []
    for name, order, size in (("a", np.arange(6_000), 700), ("b", by_key, 100), ("c", by_key, 6_000)):
        with open_store(tmp_path / name) as store:
            streams = KeyedStreams(Mean(channel="bits"), retention=56, seed=1, store=store.family())
            for start in range(0, 6_000, size):
                streams.extend(keys[order[start : start + size]], rows[order[start : start + size]])
            store.tidy()
        images.append(_drop_counters((tmp_path / name).read_bytes()))
    assert images[0] == images[1] == images[2]


def _drop_counters(image: bytes) -> bytes:
    """Without SQLite's counters of transactions and rewrites; see docs/store.md."""
    return image[:24] + image[28:40] + image[44:92] + image[96:]


def test_streams_of_another_family_stay_as_they_are(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    with open_store(tmp_path / "a.db") as store:
        alone = Stream(Moments(2), retention=128, seed=1, store=store.stream("alone"))
        alone.extend(rng.normal(size=500))
        shops = KeyedStreams(Mean(), retention=64, seed=1, store=store.family())
        others = KeyedStreams(Mean(2), retention=128, seed=1, store=store.family(about={"by": "city"}))
        for _ in range(5):
            shops.extend(rng.integers(0, 200, 2_000), rng.normal(size=2_000), subjects=["ada"] * 2_000)
            others.extend(rng.integers(1_000, 1_100, 2_000), rng.normal(size=(2_000, 2)))
            alone.extend(rng.normal(size=50))
        store.flush()
        expected = {name: store.read_stream(name) for name in store.names()}
        others.remove(1_000)
        shops.remove(7)
        del expected["1000"], expected["7"]
        assert {name: store.read_stream(name) for name in store.names()} == expected
        assert store.verify() == ()


def test_a_key_of_another_family_is_refused(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.db") as store:
        Stream(Moments(2), retention=128, seed=1, store=store.stream("main")).extend(np.arange(10.0))
        store.flush()
        shops = KeyedStreams(Mean(), retention=64, seed=1, store=store.family())
        taken = shops.take(["main", "DE"], [1.0, 2.0])
        assert list(taken.troubles) == ["main"]
        assert "other terms" in str(taken.troubles["main"].problem)
        shops.flush()
        assert store.read_stream("main")[1].clock.t == 10  # type: ignore[index]
        assert list(shops) == ["DE"]


def test_one_stream_of_an_open_family_cannot_be_opened_alone() -> None:
    store = MemoryStore()
    shops = KeyedStreams(Mean(), retention=64, seed=1, store=store.family())
    shops.extend(["DE"], [1.0])
    with pytest.raises(StoreError, match="KeyedStreams"):
        open_stream(store, "DE")


def test_whoever_opens_a_family_again_is_the_one_that_writes() -> None:
    store = MemoryStore()
    first = KeyedStreams(Mean(), retention=64, seed=1, store=store.family())
    first.take(["DE"], [1.0])
    second = KeyedStreams(Mean(), retention=64, seed=1, store=store.family())
    assert list(second) == ["DE"]
    with pytest.raises(StoreError, match="not open here any more"):
        first.extend(["DE"], [1.0])
    store.close()
    with pytest.raises(StoreError, match="not open here any more"):
        second.extend(["DE"], [1.0])


def test_a_transaction_that_fails_is_written_again(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    with open_store(tmp_path / "a.db") as store:
        shops = KeyedStreams(Mean(), retention=64, seed=1, store=store.family())
        shops.extend(rng.integers(0, 50, 500), rng.normal(size=500), subjects=["ada"] * 500)
        with suppress(KeyboardInterrupt), store.transaction():
            shops.extend(rng.integers(0, 90, 500), rng.normal(size=500), subjects=["bob"] * 500)
            shops.remove(7)
            raise KeyboardInterrupt
        assert store.read_stream("7") is not None
        shops.extend(["new"], [1.0])
        assert store.read_stream("7") is None
        assert all(store.read_stream(key)[1].retained == shops.retained(key) for key in shops)  # type: ignore[index]
        assert set(store.names()) == set(shops)
        assert store.verify() == ()


@pytest.mark.parametrize("part", ["entry", "names"])
def test_damage_of_one_stream_or_bucket_stays_there(tmp_path: Path, part: str) -> None:
    rng, path = np.random.default_rng(7), tmp_path / "a.db"
    with open_store(path) as store:
        shops = KeyedStreams(Mean(), retention=64, seed=1, store=store.family())
        shops.extend(rng.integers(0, 800, 8_000), 100.0 + rng.normal(size=8_000))
        with store._use() as tables:  # type: ignore[attr-defined]
            row = tables.read_row(0)
            names = [name.decode() for name, _ in tables.buckets.read(0)]
    piece = row.entries[40:60] if part == "entry" else row.names[-12:]
    image = path.read_bytes()
    assert image.count(piece) == 1
    at = image.index(piece) + 7
    path.write_bytes(image[:at] + bytes([image[at] ^ 4]) + image[at + 1 :])
    with open_store(path) as store:
        shops = KeyedStreams(Mean(), retention=64, seed=1, store=store.family())
        keys = [str(key) for key in rng.integers(0, 800, 5_000)]
        taken = shops.take(keys, 100.0 + rng.normal(size=5_000))
        shops.flush()
        assert set(taken.troubles) == ({names[0]} if part == "entry" else set(names) & set(keys))
        assert all("damaged" in str(trouble.problem) for trouble in taken.troubles.values())
        assert taken.taken == sum(key not in taken.troubles for key in keys)
    assert path.read_bytes().count(piece[:7]) >= 1
    assert any("damaged" in text for text in open_reader(path).verify())
    if part == "entry":
        with open_store(path) as store:
            shops = KeyedStreams(Mean(), retention=64, seed=1, store=store.family())
            shops.remove(names[0])
            assert store.verify() == ()


def test_a_store_that_knows_no_families_is_refused() -> None:
    store: Store = MemoryStore()
    with pytest.raises(Exception, match=r"store\.family"):
        KeyedStreams(Mean(), retention=64, store=store)  # type: ignore[arg-type]


def test_what_may_change_does_not_make_another_family(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.db") as store:
        first = store.family(about={"by": "shop", "defaults": {"lateness": 60.0}})
        KeyedStreams(Mean(), retention=64, seed=1, store=first).extend(["DE", "FR"], [1.0, 2.0])
    with open_store(tmp_path / "a.db") as store:
        Stream(Mean(), retention=64, seed=1, store=store.stream("IT", about={"by": "shop", "defaults": {"x": 1}})).push(
            5.0
        )
        store.release()
        second = store.family(about={"by": "shop", "defaults": {"lateness": 90.0}})
        shops = KeyedStreams(Mean(), retention=64, seed=1, store=second)
        assert set(shops) == {"DE", "FR", "IT"}
        shops.extend(["DE", "IT"], [3.0, 7.0])
        assert (shops.estimate("DE").value, shops.estimate("IT").value) == (2.0, 6.0)
        store.tidy()
        shops.extend(["FR"], [4.0])
        assert store.read_stream("FR")[1].clock.t == 2  # type: ignore[index]
        assert store.verify() == ()


def test_a_rolled_back_transaction_takes_nothing_of_others_along(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.db") as store:
        shops = KeyedStreams(Mean(), retention=64, seed=1, store=store.family())
        shops.extend(["A", "B", "C"], [1.0, 2.0, 3.0])
        with suppress(KeyboardInterrupt), store.transaction():
            shops.remove("A")
            shops.remove("B")
            raise KeyboardInterrupt
        shops.extend(["D"], [4.0])
        assert store.names() == ("C", "D")
        shops.remove("C")
        Stream(Moments(2), retention=128, seed=1, store=store.stream("C")).push(1.0)
        store.release_stream("C")
        with suppress(KeyboardInterrupt), store.transaction():
            raise KeyboardInterrupt
        shops.extend(["D"], [4.0])
        assert store.names() == ("C", "D")
        assert store.verify() == ()


def test_a_name_has_one_owner_even_before_it_is_written(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.db") as store:
        alone = Stream(Mean(), retention=200, seed=0, store=store.stream("one"))
        alone.extend([1.0, 2.0])
        shops = KeyedStreams(Mean(), retention=96, seed=0, store=store.family())
        others = KeyedStreams(Mean(), retention=96, seed=0, store=store.family(about={"by": "city"}))
        assert list(shops.take(["one", "two"], [3.0, 4.0]).troubles) == ["one"]
        assert list(others.take(["two", "three"], [3.0, 4.0]).troubles) == ["two"]
        with pytest.raises(StoreError, match="open as one of KeyedStreams"):
            Stream(Mean(), retention=200, seed=0, store=store.stream("three"))
    with open_store(tmp_path / "a.db") as store:
        assert {name: store.read_stream(name)[1].clock.t for name in store.names()} == {"one": 2, "three": 1, "two": 1}  # type: ignore[index]
        assert store.verify() == ()


def test_a_store_removes_a_stream_of_an_open_family(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.db") as store:
        shops = KeyedStreams(Mean(), retention=96, seed=0, store=store.family())
        shops.extend(["DE", "FR"], [1.0, 2.0])
        store.remove("DE")
        shops.extend([str(key) for key in range(50)], np.ones(50))
        assert "DE" not in shops
        assert "DE" not in store.names()


def test_streams_that_cannot_be_loaded_leave_the_store_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise StoreError("cannot be read")

    with open_store(tmp_path / "a.db") as store:
        Stream(Moments(2), retention=128, seed=1, store=store.stream("C")).push(1.0)
        monkeypatch.setattr("vestige.keyed.storage.FamilyStorage.load", fail)
        with pytest.raises(StoreError, match="cannot be read"):
            KeyedStreams(Mean(), retention=96, seed=0, store=store.family())
    with open_store(tmp_path / "a.db") as store:
        assert store.names() == ("C",)


@pytest.mark.parametrize("case", ["window", "order"])
def test_when_a_sweep_has_something_to_do_is_what_a_stream_says(case: str, tmp_path: Path) -> None:
    terms = dict(CASES[case]) | {"max_age": timedelta(days=8)}
    policy = terms.pop("policy")
    rows, times = np.arange(1.0, 31.0), START + np.arange(30) * HOUR
    with open_store(tmp_path / "a.db") as store:
        Stream(policy, **terms, seed=1, store=store.stream("k")).extend(rows, times=times)
        store.release()
        alone = store.read_stream("k")[1].event  # type: ignore[index]
        store.remove("k")
        KeyedStreams(policy, **terms, seed=1, store=store.family()).extend(["k"] * 30, rows, times=times)
        assert store.read_stream("k")[1].event == alone  # type: ignore[index]


def test_buckets_grow_around_a_stream_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with open_store(path) as store:
        shops = KeyedStreams(Mean(), retention=64, seed=1, store=store.family())
        shops.extend(["bad", "good"], [123.456, 2.0])
    image = path.read_bytes()
    piece = np.float64(123.456).tobytes()
    path.write_bytes(image.replace(piece, piece[:-1] + b"\x00"))
    with open_store(path) as store:
        shops = KeyedStreams(Mean(), retention=64, seed=1, store=store.family())
        for start in range(0, 600, 100):
            shops.extend([f"key {k}" for k in range(start, start + 100)], np.ones(100))
        assert list(shops.take(["bad", "good"], [1.0, 1.0]).troubles) == ["bad"]
        shops.flush()
        assert store.read_stream("good")[1].clock.t == 2  # type: ignore[index]
        shops.remove("bad")
        assert store.count() == 601
        assert store.verify() == ()


def test_positions_of_a_rolled_back_transaction_are_written_again(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.db") as store:
        shops = KeyedStreams(Mean(), retention=64, seed=1, store=store.family())
        shops.extend(["A"], [1.0])
        with suppress(KeyboardInterrupt), store.transaction():
            shops.positions.read("f.csv", len).note(b"..", behind={"A": b"."})
            shops.extend(["B"], [2.0])
            raise KeyboardInterrupt
        shops.extend(["A"], [1.0])
        assert {name: store.read_stream(name)[1].positions["f.csv"].value for name in "AB"} == {"A": b".", "B": b".."}  # type: ignore[index]
        with suppress(KeyboardInterrupt), store.transaction():
            shops.positions.read("f.csv", len).note(b"..", took=["A"])
            shops.flush()
            raise KeyboardInterrupt
        shops.extend(["A"], [1.0])
        assert store.read_stream("A")[1].positions["f.csv"].value == b".."  # type: ignore[index]
        assert store.verify() == ()


def test_many_streams_are_removed_in_one_transaction_or_none_of_them(tmp_path: Path) -> None:
    with open_store(tmp_path / "shops.db") as store:
        shops = KeyedStreams(Mean(), retention=96, seed=0, store=store.family())
        shops.extend([f"shop {i}" for i in range(300)], np.arange(300.0))
        with pytest.raises(ParameterError):
            shops.remove("shop 1", "nobody")
        assert store.count() == len(shops) == 300
        before = store._transactions
        shops.remove(*(f"shop {i}" for i in range(1, 300)), "shop 1")
        assert store._transactions == before + 1
        assert store.names() == ("shop 0",)
        assert store.verify() == ()
