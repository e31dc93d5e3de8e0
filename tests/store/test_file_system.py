"""File systems that copy on write are named, whatever is mounted where."""

from __future__ import annotations

from pathlib import Path

import pytest

from vestige.store import file_system
from vestige.store.file_system import explain_copies

MOUNTS = r"""
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
23 22 0:30 / /pool rw - zfs pool rw
24 22 0:31 /@ /data rw shared:2 master:3 - btrfs /dev/vdb rw
25 24 254:2 / /data/plain rw - xfs /dev/vdc rw
26 22 0:32 / /with\040blank rw - bcachefs /dev/vdd rw
27 22 0:33 / /twice rw - btrfs /dev/vde rw
28 27 254:3 / /twice rw - ext4 /dev/vdf rw
""".strip()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/visits.db", ""),
        ("/pool/visits.db", "ZFS"),
        ("/pools/visits.db", ""),
        ("/data/a/b/visits.db", "Btrfs"),
        ("/data/plain/visits.db", ""),
        ("/with blank/visits.db", "bcachefs"),
        ("/twice/visits.db", ""),
    ],
)
def test_a_file_system_that_copies_on_write_is_named(path: str, kind: str) -> None:
    said = explain_copies(Path(path), MOUNTS)
    assert said.startswith(f"{path}: lies on {kind}, which copies on write") == bool(kind)
    assert bool(said) == bool(kind)


def test_a_machine_that_does_not_list_its_file_systems_is_not_guessed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_system, "_MOUNTS", tmp_path / "none")
    monkeypatch.setattr("sys.platform", "linux")
    assert explain_copies(tmp_path / "a.db") == ""
    monkeypatch.setattr("sys.platform", "darwin")
    assert "APFS" in explain_copies(tmp_path / "a.db")
