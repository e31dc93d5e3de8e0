"""Memory that keeps keys: what a process can do so that they do not reach a disk.

A key that is destroyed is overwritten in the pages that a process has read. Copies that Python and the cipher made of
it stay until their memory is used again, which nothing in Python can change.
Guarantee: no core is dumped after `forbid_core_dumps`, and nothing is swapped after `lock_memory` returned True; held
by tests/test_cli_memory.py.
"""

from __future__ import annotations

import sys
from contextlib import suppress

_CURRENT, _FUTURE, _WHEN_USED = 1, 2, 4


def forbid_core_dumps() -> None:
    """Have the system write no memory of this process to a file when it crashes."""
    if sys.platform != "win32":
        import resource  # noqa: PLC0415  # Windows has none

        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def lock_memory() -> bool:
    """Keep all memory of this process out of the swap, if the system lets it lock as much as it wants.

    Returns:
        Whether it does; with a limit, later allocations might fail.
    """
    if sys.platform != "linux":
        return False
    import ctypes  # noqa: PLC0415  # only for a store with a keyring
    import resource  # noqa: PLC0415

    if resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] != resource.RLIM_INFINITY:
        return False
    with suppress(OSError, AttributeError):
        return bool(ctypes.CDLL(None).mlockall(_CURRENT | _FUTURE | _WHEN_USED) == 0)
    return False
