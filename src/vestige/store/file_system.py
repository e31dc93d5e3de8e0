"""File systems: whether one overwrites a file in place, without which what was overwritten stays on the device.

Guarantee: a file system that is known to copy on write is named; held by tests/store/test_file_system.py. What is
below the file system, such as flash or a virtual disk, is out of reach.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_COPYING = {
    "apfs": "APFS",
    "bcachefs": "bcachefs",
    "btrfs": "Btrfs",
    "f2fs": "F2FS",
    "nilfs2": "NILFS2",
    "zfs": "ZFS",
}
"""File systems that write what has changed to another place."""
_MOUNTS = Path("/proc/self/mountinfo")


def explain_copies(path: Path, mounts: str | None = None) -> str:
    r"""Explain that overwriting a file leaves what it held on the device.

    Args:
        path: the file; its folder exists.
        mounts: the file systems of this machine, as Linux lists them; default: as they are now.

    Returns:
        A sentence; empty if the file system overwrites in place as far as it is known.

    Example:
        >>> mounts = "22 1 0:4 / / rw - ext4 dev rw\n23 1 0:5 / /keys rw - zfs pool rw"
        >>> explain_copies(Path("/visits.db"), mounts), explain_copies(Path("/keys/visits.keyring"), mounts)[:34]
        ('', '/keys/visits.keyring: lies on ZFS,')
    """
    kind = _COPYING.get(_find_kind(path.resolve(), mounts))
    if kind is None:
        return ""
    return (
        f"{path}: lies on {kind}, which copies on write: what is overwritten stays on the device until its blocks are "
        "used again, and in snapshots; use a file system that overwrites in place, such as ext4 or XFS"
    )


def _find_kind(path: Path, mounts: str | None) -> str:
    """The kind of the file system that a file lies on; empty if it is not known."""
    if mounts is None and sys.platform == "darwin":  # what macOS has used since 2017
        return "apfs"
    try:
        lines = (_MOUNTS.read_text() if mounts is None else mounts).splitlines()
    except OSError:
        return ""
    deepest, found = 0, ""
    for line in lines:
        mount, kind = Path(_unescape(line.split()[4])), line.partition(" - ")[2].split()[0]
        if path.is_relative_to(mount) and len(mount.parts) >= deepest:  # of two at one place, the later hides the other
            deepest, found = len(mount.parts), kind
    return found


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
