"""An hour of replay: is the memory of a service flat, and do limits in time hold, also while nothing arrives?

Flights are sent in real time to a service whose records may be a minute old. Its memory, and the age of the oldest
record that it holds, are sampled every few seconds; every ten minutes nothing is sent for a while, after which no
record may be left. `python benchmarks/soak.py --minutes 60` writes a line for each sample to the file of `--out`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from timing import Row
from vestige.client import Client
from vestige.flights import read_flights

MAX_AGE = timedelta(seconds=60)
DEFINITION: dict[str, Any] = {
    "name": "delays",
    "columns": ["dep_delay", "distance"],
    "by": ["carrier"],
    "retention": 4_096,
    "max_age": "60s",
}
ROWS, EVERY = 100, 5.0
"""Rows of a request, and seconds between two samples."""
CYCLE, IDLE = 600.0, 120.0
"""Seconds after which arrivals stop, and for how long; twice the limit, so that all records have left by then."""
GRACE = 5.0
"""Seconds for which a record may be overdue: a sweep comes every second, and takes a while on a busy machine."""
WARM_SHARE = 1 / 6
"""Share of the samples before which memory may grow."""


@dataclass(frozen=True)
class Sample:
    """What was seen at a moment.

    Attributes:
        at: seconds since the beginning.
        resident: bytes of memory of the service.
        t: number of records that have arrived.
        held: number of records that are held.
        overdue: seconds since which the oldest record should be gone; negative if none is due.
        idle: seconds since the last arrival.
    """

    at: float
    resident: int
    t: int
    held: int
    overdue: float
    idle: float


def rows(minutes: float = 4.0, rate: int = 500, out: Path | None = None) -> list[Row]:
    """Replay for a while, and judge."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "service"))
    from killed import find_disk, serve_apart  # noqa: PLC0415

    find_disk().mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=find_disk()) as folder, serve_apart(str(Path(folder) / "soak.db")) as service:
        samples = replay(service.url, service.pid, 60.0 * minutes, rate, out)
    later = samples[int(len(samples) * WARM_SHARE) :]
    slope = np.polyfit([each.at for each in later], [each.resident for each in later], 1)[0] * 3_600.0
    first, last = (np.median([each.resident for each in part]) for part in (later[:12], later[-12:]))
    overdue = max(each.overdue for each in samples)
    idle = [each for each in samples if each.idle > MAX_AGE.total_seconds() + GRACE]
    left = max((each.held for each in idle), default=0)
    what = f"{minutes:g} min, {samples[-1].t:,} rows"
    grown = f"{first / 1e6:.0f} MB to {last / 1e6:.0f} MB"
    return [
        Row(f"{what}: memory", f"{slope / 1e6:+.1f} MB/h", grown, float(first / last), 0.95),
        Row("most overdue record", f"{overdue:.1f} s", f"grace {GRACE:g} s", GRACE / max(overdue, 0.1), 1.0),
        Row("held after a minute idle", f"{left:,}", f"{len(idle)} samples", 1.0 if left == 0 else 0.0, 1.0),
    ]


def replay(url: str, pid: int, seconds: float, rate: int, out: Path | None) -> list[Sample]:
    """Send flights, in turns with silence, and sample."""
    flights, samples = read_flights("carrier", "dep_delay", "distance"), list[Sample]()
    began, sent, last, cycle = time.monotonic(), 0, 0.0, min(CYCLE, seconds)
    with Client(url, patience=120.0) as client:
        client.create_stream(DEFINITION)
        while (now := time.monotonic() - began) < seconds:
            if now % cycle < cycle - IDLE:
                start = sent % (flights.num_rows - ROWS)
                client.send_rows("delays", flights.slice(start, ROWS).combine_chunks())
                sent, last = sent + ROWS, time.monotonic() - began
            if not samples or now >= samples[-1].at + EVERY:
                samples.append(take_sample(client, pid, now, now - last))
                if out is not None:
                    with out.open("a") as file:
                        print(*vars(samples[-1]).values(), sep=",", file=file)
            time.sleep(ROWS / rate)
    return samples


def take_sample(client: Client, pid: int, at: float, idle: float) -> Sample:
    """Look at the service, and at the times of all records that it holds."""
    resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    oldest = [datetime.max.replace(tzinfo=UTC)]
    for estimate in client.list_estimates("delays"):
        times = client.show_records("delays", estimate.key or "").times
        oldest += [datetime.fromisoformat(each) for each in times if each is not None]
    overdue = (datetime.now(UTC) - min(oldest) - MAX_AGE).total_seconds()
    shown = client.show_stream("delays")
    return Sample(round(at, 1), resident, shown.t, shown.held, round(max(overdue, -60.0), 2), round(max(idle, 0.0), 1))


def main() -> None:
    """Replay as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long to replay")
    parser.add_argument("--rate", type=int, default=500, help="flights a second")
    parser.add_argument("--out", type=Path, help="file for the samples")
    given = parser.parse_args()
    for row in rows(given.minutes, given.rate, given.out):
        missed = "  MISSED" if row.ratio is not None and row.ratio < row.goal else ""
        print(f"{row.what:<36} {row.ours:>16}   {row.peer}{missed}", flush=True)


if __name__ == "__main__":
    main()
