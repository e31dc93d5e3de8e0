"""Streams in PostgreSQL beside a plain UPSERT of as many bytes, in transactions of a hundred updates.

The server is one of its own, with its defaults, in a temporary folder; both write to it in turns.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from sealed import TOGETHER, make_task
from timing import Row, time_alternately

GOAL = 2_000
"""Number of stream updates a second."""
SIZE = 20_000
"""Bytes of a row with about 60 streams."""


def rows() -> Iterator[Row]:
    """Compare on the disk of the temporary folder."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from postgres import Database, Server, find_programs  # noqa: PLC0415

    programs = find_programs()
    if programs is None:
        yield Row("streams in PostgreSQL", "", "PostgreSQL is not installed", None, 1.0)
        return
    server = Server(programs)
    try:
        with tempfile.TemporaryDirectory() as folder, server.connect() as plain:
            plain.execute("CREATE TABLE bare (id bigint PRIMARY KEY, body bytea)")
            plain.execute("ALTER TABLE bare ALTER body SET STORAGE EXTERNAL")

            def upsert() -> None:
                """As many rows as a hundred streams lie in."""
                with plain.transaction(), plain.cursor() as cursor:
                    cursor.executemany(
                        "INSERT INTO bare VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET body = excluded.body",
                        [(row, os.urandom(SIZE)) for row in range(16)],
                    )

            with Database.create(server, Path(folder)).open() as store:
                update = partial(make_task(store), TOGETHER)
                ours, theirs, ratio = time_alternately(update, upsert, 20)
        speed = TOGETHER / ours
        yield Row("plain UPSERT of 16 rows", f"{ours * 1e3:.1f} ms", f"UPSERT: {theirs * 1e3:.1f} ms", ratio, 0.0)
        yield Row("stream updates", f"{speed:,.0f} a second", f"goal {GOAL:,} a second", speed / GOAL, 1.0)
    finally:
        server.remove()
