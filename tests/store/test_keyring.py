"""A keyring: what is destroyed is nowhere in it, what is live survives all that can happen to a file."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

from limits import join, kill_late
from vestige.errors import ParameterError, StoreBusyError, StoreError
from vestige.store.keyring import Key, KeyringFile, KeyTable, open_keyring
from vestige.store.keyring import file as keyring_file
from vestige.store.keyring.keyring import MARKER, PAGE, SLOTS, Page, compute_mark
from vestige.store.paths import write_private

FAR = 5 << 40
"""Where the slots of another table begin."""
SECTOR = 512

READER = """
import json, sys
from select import select
from vestige.store.keyring import KeyringFile
keyring, seen, looks = KeyringFile(sys.argv[1]), set(), 0
slots = json.loads(sys.argv[2])
print("ready", flush=True)
while not select([sys.stdin], [], [], 0.0)[0]:
    keys = keyring.read()
    seen.add(tuple(tuple(key.version // 100 for key in keys.find(slot)) for slot in slots))
    looks += 1
print(json.dumps([looks, sorted(seen)]))
"""


def make_secret(number: int) -> bytes:
    return np.random.default_rng(number).bytes(32)


def make_keys(slots: list[int], first: int) -> dict[int, Key]:
    """Keys for these slots, and for the marker the last one."""
    return {slot: Key(first + at, make_secret(first + at)) for at, slot in enumerate([*slots, MARKER])}


def settle(keyring: KeyringFile, keys: dict[int, Key]) -> None:
    keyring.settle({slot: key.version for slot, key in keys.items()})


def find_secret(content: bytes, key: Key) -> bool:
    """Whether a quarter of a key is somewhere."""
    return any(key.secret[at : at + 8] in content for at in range(0, 32, 8))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.keyring"


@pytest.fixture
def keyring(path: Path) -> KeyringFile:
    return KeyringFile(path, create=True)


def fill(keyring: KeyringFile, slots: list[int]) -> dict[int, Key]:
    keys = make_keys(slots, keyring.read().newest + 1)
    keyring.prepare(keys)
    settle(keyring, keys)
    return keys


def read_all(keyring: KeyringFile) -> dict[int, tuple[Key, ...]]:
    found = keyring.read()
    return {slot: found.find(slot) for slot in found.list_slots().tolist()}


def live(keys: dict[int, Key]) -> dict[int, tuple[Key, ...]]:
    return {slot: (key,) for slot, key in keys.items()}


# Pages.


def test_a_slot_lies_in_one_sector_and_slots_do_not_touch_each_other() -> None:
    empty, places = Page(3).content, set[int]()
    for slot in range(3 * SLOTS, 4 * SLOTS):
        page = Page(3)
        page.add(slot, Key(2**64 - 1, b"\xff" * 32))
        page.add(slot, Key(2**64 - 2, b"\xff" * 32))
        changed = {at for at, (one, other) in enumerate(zip(page.content, empty, strict=True)) if one != other}
        assert len({at // SECTOR for at in changed}) == 1
        assert not changed & places
        places |= changed
    assert min(places) >= 128, "the label"


def test_a_page_holds_two_keys_a_slot_and_what_is_not_kept_is_nowhere() -> None:
    page, (old, new, third) = Page(0), (Key(number, make_secret(number)) for number in (5, 6, 7))
    page.add(4, new)
    page.add(4, old)
    page.add(4, new)
    assert page.read(4) == (old, new), "the oldest first, and a key that is there is not added again"
    with pytest.raises(ValueError, match="the slot holds two keys"):
        page.add(4, third)
    page.keep(4, 6)
    assert page.read(4) == (new,)
    assert not find_secret(bytes(page.content), old)
    page.add(4, third)
    page.keep(4, 0)
    assert page.content == Page(0).content


def test_a_damaged_half_is_overwritten_since_its_key_is_of_no_use() -> None:
    """Else a changed bit in an empty half would keep its row from ever being written again."""
    for half in (0, 1):
        page = Page(0)
        page.add(4, Key(5, make_secret(5)))
        page.content[5 * 128 + 64 * half + 20] ^= 1
        assert page.find_damage() == [4]
        page.add(4, Key(6, make_secret(6)))
        page.keep(4, 6)
        assert page.read(4) == (Key(6, make_secret(6)),)
        assert page.find_damage() == []


def test_a_key_does_not_count_in_the_place_of_another() -> None:
    page, other = Page(0), Page(1)
    page.add(4, Key(5, make_secret(5)))
    page.content[6 * 128 : 7 * 128] = page.content[5 * 128 : 6 * 128]
    other.content[128:] = page.content[128:]
    assert (page.read(5), other.read(SLOTS + 4)) == ((), ())


def test_a_page_says_which_slots_it_holds_and_how_new_they_are() -> None:
    page = Page(2)
    assert (page.find_newest(), page.list_slots().tolist()) == (0, [])
    for slot, version in ((2 * SLOTS, 3), (3 * SLOTS - 1, 9), (3 * SLOTS - 1, 4)):
        page.add(slot, Key(version, make_secret(version)))
    assert (page.find_newest(), page.list_slots().tolist()) == (9, [2 * SLOTS, 3 * SLOTS - 1])
    assert page.list_versions()[[0, 30]].tolist() == [[3, 0], [9, 4]]


@pytest.mark.parametrize("length", [0, 1, 128, PAGE - 1, PAGE + 1])
def test_other_bytes_are_not_a_page(length: int) -> None:
    content = (bytes(Page(2).content) + b"\0")[:length]
    with pytest.raises(ValueError, match="label"):
        Page.parse(content)


def test_a_label_is_mended_from_its_copies() -> None:
    whole = bytes(Page(2).content)
    assert not Page.parse(whole).is_mended
    for at in range(96):
        page = Page.parse(b"\xff" * at + whole[at:])
        assert (bytes(page.content), page.number, page.is_mended) == (whole, 2, at > 0)
    with pytest.raises(ValueError, match="label"):
        Page.parse(b"\xff" * 128 + whole[128:])


# Tables.


def test_a_table_finds_keys_slots_and_what_was_not_settled() -> None:
    table = KeyTable()
    assert (table.newest, table.is_open, table.list_slots().tolist()) == (0, False, [])
    table.add(make_keys([40, FAR + 7], 1))
    assert (table.newest, table.is_open) == (3, False)
    assert table.find(40) == (Key(1, make_secret(1)),)
    assert (table.find(41), table.find(10**9)) == ((), ())
    assert sorted(table.list_slots().tolist()) == [MARKER, 40, FAR + 7]
    assert table.list_slots(40, FAR).tolist() == [40]
    assert [table.has_slot(slot) for slot in (40, 41, 10**9)] == [True, False, False]
    assert table.find_unsettled(3).tolist() == []
    assert table.find_unsettled(2).tolist() == [MARKER], "newer than what was committed"
    table.add(make_keys([40], 4))
    assert (table.newest, table.is_open, sorted(table.find_unsettled(5).tolist())) == (5, True, [MARKER, 40])
    table.keep({40: 4, MARKER: 5, FAR + 7: 0, 10**9: 0})
    assert (table.newest, table.is_open, table.find_unsettled(5).tolist()) == (5, False, [])
    assert (table.find(40), table.find(FAR + 7)) == ((Key(4, make_secret(4)),), ())


def test_later_pages_replace_earlier_ones() -> None:
    table, later = KeyTable(is_used=False), KeyTable()
    table.add(make_keys([5], 1))
    later.add(make_keys([6], 3))
    table.update(later)
    assert (table.newest, table.find(5), table.is_used) == (4, (), True)


# The file, when nothing goes wrong.


def test_what_was_settled_is_read_and_what_was_destroyed_is_nowhere(keyring: KeyringFile, path: Path) -> None:
    rng, slots = np.random.default_rng(0), [2, 3, 30, 31, 32, 1_000, FAR, FAR + 10**6]
    known: dict[int, Key] = {}
    gone: list[Key] = []
    for _ in range(60):
        keys = make_keys(sorted({int(slot) for slot in rng.choice(slots, 4)}), keyring.read().newest + 1)
        keyring.prepare(keys)
        content = path.read_bytes()
        assert all(find_secret(content, key) for key in known.values()), "a crash now needs the old ones"
        cut = [slot for slot in known if slot not in keys and rng.random() < 0.3]
        keyring.settle(dict.fromkeys(cut, 0) | {slot: key.version for slot, key in keys.items()})
        gone += [known[slot] for slot in [*cut, *keys] if slot in known]
        known = {slot: key for slot, key in known.items() if slot not in cut} | keys
        content = path.read_bytes()
        assert not any(find_secret(content, key) for key in gone)
        assert read_all(keyring) == read_all(KeyringFile(path)) == live(known)
    assert len(gone) > 150
    assert keyring.verify() == ()


def test_slots_far_apart_take_a_page_each(keyring: KeyringFile, path: Path) -> None:
    fill(keyring, [FAR * number + 10**9 for number in range(9)])
    assert path.stat().st_size == PAGE * 11, "header, marker, and nine"
    fill(keyring, list(range(SLOTS, 101 * SLOTS)))
    assert path.stat().st_size == PAGE * 111
    fill(KeyringFile(path), list(range(SLOTS, 101 * SLOTS)))
    assert path.stat().st_size == PAGE * 111


def test_only_what_is_newer_is_read(keyring: KeyringFile) -> None:
    first = fill(keyring, [5, 1_000, 2_000])
    fill(keyring, [2_000])
    found = keyring.read(first[MARKER].version)
    assert found.find(2_000)
    assert found.newest == 6
    assert found.find(1_000) == ()
    assert keyring.read(6).list_slots().tolist() == [MARKER, 5], "the page of the marker"
    assert set(keyring.read(5).list_slots().tolist()) == {MARKER, 5}
    assert set(keyring.read(10**9).list_slots().tolist()) == {MARKER, 5}


def test_a_keyring_is_used_if_one_copy_of_its_header_says_so(keyring: KeyringFile, path: Path) -> None:
    """A loss of power may keep any of the sectors that were written when it was first used."""
    before = path.read_bytes()[:SECTOR]
    fill(keyring, [2])
    path.write_bytes(before + path.read_bytes()[SECTOR:])
    assert KeyringFile(path).read().is_used


def test_a_keyring_is_used_once_the_marker_was_settled(keyring: KeyringFile, path: Path) -> None:
    assert not keyring.read().is_used
    keyring.prepare(make_keys([4], 1))
    keyring.settle({4: 0, MARKER: 0})
    assert not KeyringFile(path).read().is_used
    fill(keyring, [4])
    assert KeyringFile(path).read().is_used
    assert not path.read_bytes()[36:SECTOR].strip(b"\0")


def test_to_prepare_or_settle_again_changes_nothing(keyring: KeyringFile, path: Path) -> None:
    fill(keyring, [4])
    keys = make_keys([4, 50], 3)
    for change in (KeyringFile.prepare, settle):
        change(keyring, keys)
        content = path.read_bytes()
        change(keyring, keys)
        assert path.read_bytes() == content


def test_a_third_key_is_refused_and_nothing_is_changed(keyring: KeyringFile, path: Path) -> None:
    fill(keyring, [4, 50])
    keyring.prepare({50: Key(4, make_secret(4))})
    content = path.read_bytes()
    with pytest.raises(StoreError, match="keys of an earlier transaction were not settled; open the store again"):
        keyring.prepare({4: Key(5, make_secret(5)), 50: Key(6, make_secret(6))})
    assert path.read_bytes() == content


def test_keys_that_were_numbered_before_others_were_prepared_are_refused(keyring: KeyringFile, path: Path) -> None:
    """Two copies of one store: what the second writes would destroy the keys of the first."""
    known = fill(keyring, [4, 50])
    fill(KeyringFile(path), [4])
    content = path.read_bytes()
    for slots, first in (([4], 4), ([4], 3), ([4], 9), ([4, 50], 4)):
        keys = {slot: Key(key.version, bytes(32)) for slot, key in make_keys(slots, first).items()}
        with pytest.raises(StoreError, match="was used by another process since this one has read it"):
            keyring.prepare(keys)
    assert path.read_bytes() == content
    assert keyring.read().find(50) == (known[50],)


def test_what_was_prepared_in_part_is_completed(keyring: KeyringFile, path: Path) -> None:
    """Whoever was told nothing, since a server was killed while it wrote, asks again with the mark of before."""
    fill(keyring, [4, FAR])
    mark, before, keys = read_mark(keyring), path.read_bytes(), make_keys([4, FAR], 4)
    keyring.prepare(keys, mark=mark)
    whole = path.read_bytes()
    for end in range(PAGE, len(whole) + PAGE, PAGE):  # pages are written in this order, that of the marker first
        path.write_bytes(whole[:end] + before[end:])
        keyring.prepare(keys, mark=mark)
        assert path.read_bytes() == whole


def read_mark(keyring: KeyringFile) -> bytes:
    return compute_mark(keyring.read().find(MARKER))


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_change_that_comes_late_is_refused(keyring: KeyringFile, path: Path, *, is_committed: bool) -> None:
    """It would destroy keys of the next transaction, which has the same versions if the one before was rolled back."""
    before, known, first = fill(keyring, [4]), make_keys([4], 3), read_mark(keyring)
    for _ in range(2):
        keyring.prepare(known, mark=first)  # the second time, they are there
    mark = read_mark(keyring)
    versions = {slot: key.version for slot, key in (known if is_committed else before).items()}
    for _ in range(2):
        keyring.settle(versions, mark=mark)  # the second time, there is nothing to settle
    following = {slot: Key(key.version, bytes(32)) for slot, key in make_keys([4], keyring.read().newest + 1).items()}
    keyring.prepare(following, mark=read_mark(keyring))
    content = path.read_bytes()
    refused = "was used by another process since this one has read it; nothing was changed"
    with pytest.raises(StoreError, match=refused):
        keyring.settle(versions, mark=mark)
    with pytest.raises(StoreError, match=refused):
        keyring.prepare({50: Key(9, bytes(32))}, mark=mark)
    assert path.read_bytes() == content
    keyring.settle({slot: key.version for slot, key in following.items()}, mark=read_mark(keyring))
    assert read_all(keyring) == live(following)


def test_settling_that_comes_too_late_is_refused(keyring: KeyringFile, path: Path) -> None:
    """A process lost the lock of its store after it had committed: another has settled its keys, and written since."""
    fill(keyring, [4, 50])
    keyring.read()
    late = make_keys([4], 4)
    keyring.prepare(late)
    other = KeyringFile(path)
    other.read()
    settle(other, late)
    newer = fill(other, [4])
    content = path.read_bytes()
    for versions in ({slot: key.version for slot, key in late.items()}, {4: 1, MARKER: 3}):
        with pytest.raises(StoreError, match="was used by another process since this one has read it; nothing was"):
            keyring.settle(versions)
    assert path.read_bytes() == content
    keyring.read()
    assert keyring.read().find(4) == (newer[4],)
    fill(keyring, [4])


# The file, its folder, and its rights.


def test_only_the_owner_may_read_it_whatever_the_umask_is(path: Path) -> None:
    before = os.umask(0)
    try:
        fill(KeyringFile(path, create=True), [4, 1_000])
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    (found,) = KeyringFile(path).verify()
    assert found == f"{path}: others than its owner may use it (its rights are 640); chmod 600 it"


def test_links_are_followed(tmp_path: Path, path: Path) -> None:
    (tmp_path / "folder").mkdir()
    path.symlink_to(tmp_path / "folder" / "real")
    made = KeyringFile(path, create=True)
    keys = fill(made, [4])
    assert path.is_symlink()
    assert made.where == str(tmp_path / "folder" / "real")
    assert read_all(KeyringFile(tmp_path / "folder" / "real")) == live(keys)
    assert [file.name for file in (tmp_path / "folder").iterdir()] == ["real"]


def test_what_is_there_is_not_made_again(keyring: KeyringFile, path: Path) -> None:
    keys = fill(keyring, [4])
    again = KeyringFile(path, create=True)
    assert again.id == keyring.id
    assert read_all(again) == live(keys)


def test_a_file_that_was_left_empty_is_made_and_drafts_are_removed(path: Path) -> None:
    path.touch()
    draft = path.with_name(f"{path.name}.{'0' * 16}.draft")
    draft.touch()
    assert len(KeyringFile(path, create=True).id) == 16
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_two_who_make_it_at_once_have_the_same_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the keys of the first are lost when the second puts its file there."""
    write, started, made = write_private, threading.Event(), list[bytes]()

    def write_slowly(place: Path, content: bytes) -> None:
        started.set()
        other.join(0.3)
        write(place, content)

    def make() -> None:
        started.wait(60)
        made.append(KeyringFile(path, create=True).id)

    other = threading.Thread(target=make, daemon=True)
    other.start()
    monkeypatch.setattr("vestige.store.keyring.file.write_private", write_slowly)
    made.append(KeyringFile(path, create=True).id)
    join(other)
    assert made == [KeyringFile(path).id] * 2


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "is not a keyring; give another path, or make one"),
        (b"VSTG", "is not a keyring"),
        (b"SQLite format 3\0" + bytes(8_192), "is not a keyring"),
        (b"VSTGKEYS" + bytes(100), "is a keyring of version 0, and this Vestige reads version 1; use the Vestige"),
        (b"VSTGKEYS\2\0\0\0" + bytes(8_192), "is a keyring of version 2, and this Vestige reads version 1"),
        (b"VSTGKEYS\1\0\0\0" + bytes(8_192), "is damaged (cut off, or bits changed); restore"),
    ],
)
def test_other_files_are_refused_and_left_as_they_are(path: Path, content: bytes, text: str) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreError) as problem:
        KeyringFile(path, create=bool(content))
    assert str(problem.value).startswith(f"{path}: {text}")
    assert path.read_bytes() == content


def test_a_file_that_is_not_there(path: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no such keyring; give the path of the one that the store has, or"):
        open_keyring(path)
    with pytest.raises(StoreError, match="is a folder"):
        open_keyring(tmp_path, create=True)
    with pytest.raises(StoreError, match="there is no folder"):
        open_keyring(tmp_path / "x" / "y", create=True)
    with pytest.raises(ParameterError, match="keyring='' is empty"):
        open_keyring("", create=True)
    os.mkfifo(path)
    with pytest.raises(StoreError, match="is a device or a pipe"):
        open_keyring(path)
    made = open_keyring(tmp_path / "b", create=True)
    assert open_keyring(made) is made
    (tmp_path / "b").unlink()
    for use in (made.read, made.verify, made.destroy, lambda: made.settle({4: 1})):
        with pytest.raises(StoreError, match="there is no such keyring"):
            use()


NOBODY = """
import os, sys
from vestige.errors import StoreError
from vestige.store.keyring import Key, KeyringFile
os.setgid(65534); os.setuid(65534)
def tell(action):
    try: print(action() or "done")
    except StoreError as problem: print(str(problem).split(": ", 1)[1])
tell(lambda: KeyringFile(sys.argv[1] + "/new", create=True))
keyring = KeyringFile(sys.argv[1] + "/a.keyring")
tell(lambda: keyring.read().newest)
tell(lambda: keyring.prepare({4: Key(9, bytes(32))}))
tell(lambda: keyring.settle({4: 9}))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_folder_and_a_file_that_one_may_only_read() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # pytest's own folders are closed to others
        folder, path = Path(name), Path(name, "a.keyring")
        folder.chmod(0o755)
        fill(KeyringFile(path, create=True), [4])
        path.chmod(0o644)
        content = path.read_bytes()
        command = [sys.executable, "-c", NOBODY, str(folder)]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        assert path.read_bytes() == content
        assert [file.name for file in folder.iterdir()] == [path.name]
    assert said[1] == "2"
    for text in (said[0], *said[2:]):
        assert text.startswith("the keyring cannot be read or written (Permission denied); make room, or run this as")


def test_another_keyring_in_its_place_is_noticed(keyring: KeyringFile, path: Path) -> None:
    fill(keyring, [4, 1_000])
    path.unlink()
    other = KeyringFile(path, create=True)
    fill(other, [1_000, 4])
    content = path.read_bytes()
    for use in (keyring.read, keyring.verify, lambda: keyring.prepare({4: Key(9, bytes(32))})):
        with pytest.raises(StoreError, match="another keyring was put in its place"):
            use()
    with pytest.raises(StoreError, match="another keyring was put in its place"):
        keyring.settle({4: 1})
    assert path.read_bytes() == content


def test_pages_that_lie_elsewhere_now_are_found(keyring: KeyringFile, path: Path) -> None:
    """A copy of the same keyring, whose pages were added in another order, was put back."""
    keys = fill(keyring, [4, 1_000, 2_000])
    content = path.read_bytes()
    path.write_bytes(content[: 2 * PAGE] + content[3 * PAGE :] + content[2 * PAGE : 3 * PAGE])
    assert read_all(keyring) == live(keys)
    path.write_bytes(content)
    newer = fill(keyring, [1_000])
    assert read_all(keyring) == live(keys | newer)


# Others at the same time.


def test_a_reader_beside_a_writer_sees_whole_transactions(keyring: KeyringFile, path: Path) -> None:
    slots = [5, 500, FAR + 9]

    def write(number: int) -> dict[int, Key]:
        marker = Key(100 * number + 3, make_secret(number))
        return {slot: Key(100 * number + at, bytes(32)) for at, slot in enumerate(slots)} | {MARKER: marker}

    for number in range(1, 3):
        keys = write(number)
        keyring.prepare(keys)
        settle(keyring, keys)
    command = [sys.executable, "-c", READER, str(path), json.dumps(slots)]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
        kill_late(process),
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for number in range(3, 303):
            keys = write(number)
            keyring.prepare(keys)
            settle(keyring, keys)
        answer, _ = process.communicate("")
    looks, seen = json.loads(answer)
    print(f"{looks} looks, {len(seen)} different")
    assert looks >= 2
    assert len(seen) >= 2
    for versions in seen:
        first = versions[0]
        assert versions == [first] * 3
        assert len(first) == 1 or first[0] + 1 == first[1]


def test_somebody_who_does_not_let_go_of_it_is_named(keyring: KeyringFile, path: Path) -> None:
    keys = fill(keyring, [4])
    keyring = KeyringFile(path, patience=0.1)
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        assert read_all(keyring) == live(keys), "others may read meanwhile"
        with pytest.raises(StoreBusyError, match="another process holds the keyring and does not let go; end that"):
            keyring.settle({4: 0})
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(StoreBusyError, match="another process holds the keyring and does not let go"):
            keyring.read()
    assert read_all(keyring) == live(keys)


def test_keys_that_are_being_written_are_no_finding_but_those_that_were_left(
    keyring: KeyringFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vestige.store.keyring.file._SETTLING", 0.2)
    fill(keyring, [4])
    ended = threading.Event()

    def write() -> None:
        while not ended.wait(0.02):
            keys = make_keys([4], keyring.read().newest + 1)
            keyring.prepare(keys)
            ended.wait(0.05)
            settle(keyring, keys)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        assert all(KeyringFile(keyring.path).verify() == () for _ in range(8))
    finally:
        ended.set()
        join(writer)
    keyring.prepare({4: Key(keyring.read().newest + 1, bytes(32))})
    (found,) = keyring.verify()
    assert "holds keys of rows that were replaced" in found
    assert "what they open is overdue. Open the store for writing" in found


# Damage.


def check_damaged(path: Path, keys: dict[int, Key]) -> tuple[set[int], tuple[str, ...]]:
    """The slots whose key is gone, and what is said; no other key is ever given."""
    try:
        keyring = KeyringFile(path)
        found = read_all(keyring)
        said = keyring.verify()
    except StoreError as problem:
        return set(keys), (str(problem),)
    for slot, held in found.items():
        assert held in ((), live(keys).get(slot)), slot
    return {slot for slot in keys if not found.get(slot)}, said


def test_a_file_that_is_cut_off_anywhere_is_noticed_and_gives_no_wrong_key(keyring: KeyringFile, path: Path) -> None:
    keys = fill(keyring, [4, 20, 1_000, 1_010, 2_000])
    content = path.read_bytes()
    lengths = {*range(0, len(content), 41), *range(0, len(content), PAGE), *range(36), *range(490, 560)}
    for length in sorted(lengths):
        path.write_bytes(content[:length])
        lost, said = check_damaged(path, keys)
        assert (lost == set(keys)) == (length < 2 * PAGE)
        assert said if length % PAGE or length < 2 * PAGE else lost, length
        if length >= 2 * PAGE:
            mended = KeyringFile(path)
            again = make_keys(sorted(lost), mended.read().newest + 1)
            mended.prepare(again)
            settle(mended, again)
            assert read_all(mended) == live(keys | again)
            if lost:
                assert mended.verify() == ()


def test_each_changed_bit_is_noticed_and_concerns_one_slot(keyring: KeyringFile, path: Path) -> None:
    keys, rng = fill(keyring, [4, 5, 1_000]), np.random.default_rng(0)
    content = path.read_bytes()
    assert check_damaged(path, keys) == (set(), ())
    of_slot = 2 * PAGE + 128 * (1_000 % SLOTS + 1)
    bits = [
        *rng.choice(8 * 36, 60, replace=False),  # the first copy of the header
        *rng.integers(0, 8 * PAGE, 60),
        *8 * PAGE + rng.choice(8 * 128, 80, replace=False),  # the labels of the page of the marker
        *8 * of_slot + rng.choice(8 * 128, 160, replace=False),  # a slot
        *rng.integers(8 * PAGE, 8 * len(content), 100),
    ]
    for bit in map(int, bits):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        lost, said = check_damaged(path, keys)
        assert said, bit
        at = bit // 8
        assert lost <= {slot for slot in keys if 128 * (slot % SLOTS + 1) <= at % PAGE < 128 * (slot % SLOTS + 2)}, bit
        if bit // 8 // 128 == of_slot // 128 and at % 64 < 44 and at % 128 < 64:
            assert lost == {1_000}, bit
        mended = KeyringFile(path)
        again = make_keys([4, 5, 1_000, *range(2, 4), *range(6, 31), *range(31 * 32, 31 * 33)], 100)
        mended.prepare(again)
        mended.settle({0: 0} | {slot: key.version for slot, key in again.items()})
        assert read_all(mended) == live(again)
        assert mended.verify() == (), bit


def test_a_page_that_is_damaged_costs_its_own_keys_and_its_place_is_used_again(
    keyring: KeyringFile, path: Path
) -> None:
    keys = fill(keyring, [4, 1_000, 2_000, 2_001])
    content = bytearray(path.read_bytes())
    content[3 * PAGE : 3 * PAGE + 128] = bytes(range(128))
    path.write_bytes(content)
    lost, (said,) = check_damaged(path, keys)
    assert lost == {2_000, 2_001}
    assert f"the page at byte {3 * PAGE:,} is damaged; rows whose keys it holds cannot be opened" in said
    again = make_keys([2_000], keyring.read().newest + 1)
    for one in (keyring, KeyringFile(path)):
        one.prepare(again)
        settle(one, again)
    assert path.stat().st_size == len(content)
    assert not find_secret(path.read_bytes(), keys[2_000])
    assert not find_secret(path.read_bytes(), keys[2_001])
    assert keyring.verify() == ()


def test_all_is_destroyed_also_what_is_damaged(keyring: KeyringFile, path: Path) -> None:
    keys = fill(keyring, [4, 1_000, 2_000])
    content = bytearray(path.read_bytes())
    content[2 * PAGE : 2 * PAGE + 128] = bytes(range(128))
    path.write_bytes(content + b"more")
    cut, overwritten = os.ftruncate, list[bytes]()

    def look(file: int, length: int) -> None:
        overwritten.append(path.read_bytes()[length:])
        cut(file, length)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "ftruncate", look)
        assert keyring.destroy() == 3
    assert [part.strip(b"\0") for part in overwritten] == [b""]
    assert len(overwritten[0]) >= 2 * PAGE
    assert not any(find_secret(path.read_bytes(), key) for key in keys.values())
    assert not path.read_bytes()[PAGE + 128 :].strip(b"\0")
    assert (keyring.read().list_slots().tolist(), keyring.read().is_used) == ([], True)
    assert keyring.verify() == ()


# Disks that are full, and power that is lost.


def test_a_full_disk_leaves_a_file_that_works(
    keyring: KeyringFile, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that has come to a part of its bytes only is no damage."""
    keys, write = fill(keyring, [4, 1_000]), os.pwrite
    for room in (0, 1, 100, PAGE - 1, PAGE, PAGE + 500, 3 * PAGE):
        left, content = room, path.read_bytes()

        def write_a_part(file: int, data: bytes, at: int) -> int:
            nonlocal left
            if not left:
                raise OSError(28, "No space left on device")
            part = data[:left]
            left -= len(part)
            return write(file, part, at)

        again = make_keys([4, 1_000, *range(3_000, 3_100)], keyring.read().newest + 1)
        monkeypatch.setattr(os, "pwrite", write_a_part)
        with pytest.raises(StoreError, match=r"cannot be read or written \(No space left on device\); make room"):
            keyring.prepare(again)
        monkeypatch.undo()
        assert path.stat().st_size == len(content)
        for one in (keyring, KeyringFile(path)):
            found = one.read()
            assert all(key in found.find(slot) for slot, key in keys.items())
            unsettled = found.find_unsettled(keys[MARKER].version).tolist()
            one.settle({slot: keys[slot].version if slot in keys else 0 for slot in unsettled})
            assert read_all(one) == live(keys)
        keys = keys | fill(keyring, [4])
    assert keyring.verify() == ()


@pytest.mark.parametrize("step", ["prepare", "settle"])
@pytest.mark.parametrize("writes", [1, 2, 3])
def test_whoever_is_killed_in_a_step_leaves_a_marker_of_it(
    keyring: KeyringFile, monkeypatch: pytest.MonkeyPatch, step: str, writes: int
) -> None:
    """The marker has two keys from before the first other slot has, until after the last one has."""
    before, write, left = fill(keyring, [100, 200, 300]), os.pwrite, writes
    keys = make_keys([100, 200, 300], keyring.read().newest + 1)
    if step == "settle":
        keyring.prepare(keys)

    def die(file: int, content: bytes, at: int) -> int:
        nonlocal left
        if not left:
            raise KeyboardInterrupt
        left -= 1
        return write(file, content, at)

    monkeypatch.setattr(os, "pwrite", die)
    with pytest.raises(KeyboardInterrupt):
        keyring.prepare(keys) if step == "prepare" else settle(keyring, keys)
    monkeypatch.undo()
    found = KeyringFile(keyring.path).read()
    assert found.is_open
    assert all(set(found.find(slot)) <= {before[slot], keys[slot]} for slot in keys)
    assert all((before if step == "prepare" else keys)[slot] in found.find(slot) for slot in keys)


class Disk:
    """What a file holds after a loss of power: of what was not flushed, any sectors."""

    def __init__(self, path: Path) -> None:
        self.path, self.flushed, self.flushes = path, path.read_bytes(), 0
        self.stop_at: int | None = None

    @contextmanager
    def watch(self, stop_at: int | None = None) -> Iterator[None]:
        """Note what is flushed; if that is said, the power is lost before so many flushes."""
        flush, self.flushes = keyring_file._flush, 0

        def note(file: int) -> None:
            if self.flushes == stop_at:
                raise KeyboardInterrupt
            flush(file)
            self.flushes, self.flushed = self.flushes + 1, self.path.read_bytes()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(keyring_file, "_flush", note)
            with suppress(KeyboardInterrupt):
                yield

    def lose(self, rng: np.random.Generator) -> None:
        """Keep any of the sectors that were not flushed; a file that has grown may have grown in part."""
        written = self.path.read_bytes()
        old, size = self.flushed.ljust(len(written), b"\0"), len(self.flushed)
        chance = rng.choice([0.1, 0.5, 0.9])
        kept = [(written if rng.random() < chance else old)[at : at + SECTOR] for at in range(0, len(written), SECTOR)]
        size += PAGE * int(rng.integers(0, (len(written) - size) // PAGE + 1))
        self.path.write_bytes(b"".join(kept)[:size])


def test_on_macos_the_drive_is_told_to_write_what_it_has(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There fdatasync does not exist, and fsync leaves what was written in the cache of the drive."""
    keyring, flushed = KeyringFile(path, create=True), list[int]()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", "darwin")
        patch.delattr(os, "fdatasync", raising=False)
        patch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
        patch.setattr(fcntl, "fcntl", lambda _, command: flushed.append(command))
        keyring.prepare(make_keys([2], 1))
        keyring.settle({2: 1, MARKER: 2})
        keyring.destroy()
    assert flushed == [51, 51, 51, 51], "destroy shortens the file, and flushes that too"


@pytest.mark.parametrize("trials", [150, pytest.param(5_000, marks=pytest.mark.slow)])
def test_a_loss_of_power_leaves_the_keys_that_were_live(path: Path, trials: int) -> None:
    """Also where sectors reach the disk in another order than they were written."""
    rng, lost = np.random.default_rng(trials), 0
    slots = [2, 3, 30, 31, 32, 70, 700, FAR, FAR + 40]
    keyring = KeyringFile(path, create=True)
    known = fill(keyring, slots[:4])
    for _ in range(trials):
        disk, step = Disk(path), str(rng.choice(["prepare", "settle", "roll back"]))
        chosen = sorted({int(slot) for slot in rng.choice(slots, 4)})
        keys = make_keys(chosen, keyring.read().newest + 1)
        cut = [slot for slot in known if slot != MARKER and slot not in keys and rng.random() < 0.2]
        with disk.watch(stop_at=0 if step == "prepare" else None):
            keyring.prepare(keys)
        is_committed = step == "settle"
        if step != "prepare":
            after = dict.fromkeys(cut, 0) | {slot: key.version for slot, key in keys.items()}
            before = {slot: known[slot].version if slot in known else 0 for slot in keys}
            with disk.watch(stop_at=0):
                keyring.settle(after if is_committed else before)
        disk.lose(rng)
        keyring = KeyringFile(path)
        found = keyring.read()
        if is_committed:
            known = {slot: key for slot, key in known.items() if slot not in cut} | keys
        assert all(key in found.find(slot) for slot, key in known.items()), step
        rest = {slot for slot in found.list_slots().tolist() if found.find(slot) != live(known).get(slot)}
        lost += bool(rest)
        keyring.settle({slot: known[slot].version if slot in known else 0 for slot in rest})
        assert read_all(keyring) == live(known)
        disk.flushed = path.read_bytes()
    print(f"{trials} losses of power, {lost} of which left something to settle")
    assert lost > trials / 3
    assert keyring.verify() == ()


@pytest.mark.parametrize("change", [lambda keyring: keyring.read(), lambda keyring: keyring.verify()])
def test_reading_writes_nothing(keyring: KeyringFile, path: Path, change: Callable[[KeyringFile], object]) -> None:
    fill(keyring, [4, 1_000])
    path.write_bytes(path.read_bytes()[:-100])
    content = path.read_bytes()
    change(keyring)
    assert path.read_bytes() == content


def test_a_place_that_another_page_has_got_meanwhile_is_not_written(keyring: KeyringFile, path: Path) -> None:
    fill(keyring, [5 * SLOTS])
    other = KeyringFile(path)
    other.destroy()
    keys = fill(other, [9 * SLOTS])
    keyring.read()
    keyring.prepare({5 * SLOTS: Key(1_000, make_secret(7))})
    assert {key.version for key in KeyringFile(path).read().find(5 * SLOTS)} == {1_000}
    assert KeyringFile(path).read().find(9 * SLOTS) == (keys[9 * SLOTS],)
