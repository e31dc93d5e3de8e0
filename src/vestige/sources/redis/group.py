"""What a reader does to the consumer group and the stream once entries are committed: acknowledge, and trim if asked.

`XTRIM MINID id` keeps the entry with that id, so the limit is the id after the last entry that may go.
Guarantee: no entry is removed that is not committed, or that another group has not read and acknowledged; held by
tests/sources/test_redis.py. Readers without a group are not known to the server, so that they are not waited for.
"""

from __future__ import annotations

from vestige.sources.redis.link import Link, RefusedError, pair
from vestige.sources.redis.positions import Id, read_id, write_id

_PAGE = 5_000
"""Number of entries that are acknowledged at once."""
_LARGEST = (1 << 64) - 1


def acknowledge_entries(link: Link, stream: str, group: str, last: Id) -> int:
    """Acknowledge all entries up to one, whichever worker they were delivered to.

    Args:
        link: the connection.
        stream: name of the stream.
        group: name of the group.
        last: id of the last entry that is committed.

    Returns:
        The number of entries that were pending.
    """
    total = 0
    while True:
        pending = link.call("XPENDING", stream, group, "-", write_id(last), _PAGE)
        if pending:
            total += link.call("XACK", stream, group, *(entry[0] for entry in pending))
        if len(pending) < _PAGE:
            return total


def trim_stream(link: Link, stream: str, group: str, last: Id) -> str | None:
    """Remove the entries up to one, as far as other groups have read and acknowledged them.

    Args:
        link: the connection.
        stream: name of the stream.
        group: name of the reader's own group, which does not count.
        last: id of the last entry that is committed.

    Returns:
        The name of a group that needs entries up to that one; None if all of them were removed.
    """
    limit, holder = _find_next(last), None
    for reply in link.call("XINFO", "GROUPS", stream):
        said = pair(reply)
        name = said["name"]
        if name == group.encode():
            continue
        needed = _find_next(read_id(said["last-delivered-id"]))
        if said["pending"]:
            summary = link.call("XPENDING", stream, name)
            needed = min(needed, read_id(summary[1])) if summary[0] else needed
        if needed < limit:
            limit, holder = needed, name.decode(errors="replace")
    link.call("XTRIM", stream, "MINID", "=", write_id(limit))
    return holder


def explain_persistence(link: Link) -> str | None:
    """Say what the server keeps on its disk of entries that are gone, and what to do about it.

    Args:
        link: the connection.

    Returns:
        A sentence; None if the server keeps nothing on its disk.
    """
    try:
        said = pair(link.call("CONFIG", "GET", "appendonly")) | pair(link.call("CONFIG", "GET", "save"))
    except Exception as problem:
        if isinstance(problem, RefusedError) or type(problem).__name__ == "SourceError":
            return (
                "the server does not say whether it keeps entries on its disk (CONFIG GET appendonly, save); ask its "
                "administrator, since bytes of entries that are gone stay in its AOF and RDB files until these are "
                "rewritten"
            )
        raise
    kept = [name for name, is_on in (("AOF", said["appendonly"] == b"yes"), ("RDB", bool(said["save"]))) if is_on]
    if not kept:
        return None
    remedies = {"AOF": "BGREWRITEAOF", "RDB": "BGSAVE"}
    return (
        f"the server keeps entries on its disk ({' and '.join(kept)}), where their bytes stay after they were trimmed; "
        f"have them rewritten within your limits ({' and '.join(remedies[name] for name in kept)}), or turn that off "
        "(appendonly no, save '')"
    )


def _find_next(entry: Id) -> Id:
    milliseconds, number = entry
    return (milliseconds, number + 1) if number < _LARGEST else (milliseconds + 1, 0)
