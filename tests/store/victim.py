"""A process that reads files into stores and kills itself doing so: it forks, so that each victim starts warm."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from vestige import Mean, Stream
from vestige.sources import FileSource
from vestige.store import SqliteStore, Store

RETENTION, SEED, NAME = 2_048, 7, "delays"


def stored(store: Store) -> Stream:
    return Stream(Mean(), retention=RETENTION, seed=SEED, store=store.stream(NAME))


def ingest(source: Path, path: Path) -> Stream:
    """Read what was not read yet, as `vestige run` does; the stream as it is at the end."""
    with SqliteStore(path) as store:
        stream = stored(store)
        for block in FileSource(str(source), ["delay"]).blocks(stream.position(source.name).value):
            stream.extend(block.rows, source=source.name, numbers=block.numbers)
    return stream


def as_file(rows: np.ndarray[tuple[int], np.dtype[np.float64]], path: Path) -> Path:
    path.write_text("delay\n" + "".join(f"{row!r}\n" for row in rows.tolist()))
    return path


def run(source: Path, path: Path, seconds: float | None) -> tuple[int, float]:
    """Let a new process read the file, and kill it after so many seconds; how it ended, and when."""
    began = time.monotonic()
    process = os.fork()
    if not process:
        code = 1
        try:
            ingest(source, path)
            code = 0
        finally:
            os._exit(code)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(process, signal.SIGKILL)  # nobody has waited for it yet, so the number is still its own
    status = os.waitpid(process, 0)[1]
    return os.waitstatus_to_exitcode(status), time.monotonic() - began


def main() -> None:
    """Warm up, then answer requests, one a line, until there are no more."""
    with tempfile.TemporaryDirectory() as folder:
        source = as_file(np.random.default_rng(0).normal(size=5_000), Path(folder, "warm.csv"))
        ingest(source, Path(folder, "warm.db")).estimate()
    for line in sys.stdin:
        source_name, path, seconds = json.loads(line)
        sys.stdout.write(json.dumps(run(Path(source_name), Path(path), seconds)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
