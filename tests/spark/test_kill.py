"""Driver and workers are killed at random points: each row counts once, and nothing that was erased is in any file.

`VESTIGE_KILLS` is the number of kills, of which two in three hit a worker with all its processes, and
`VESTIGE_KILL_SEED` draws them: by default, a driver and a worker. Fifty kills take half an hour or more.
"""

from __future__ import annotations

import importlib.util
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from vestige import Mean, Stream
from vestige.spark import inspect_files
from vestige.store import open_keyring

KILLS = int(os.environ.get("VESTIGE_KILLS", "2"))
SEED = int(os.environ.get("VESTIGE_KILL_SEED", "2"))
KEYS, ROWS, FILES = 12, 9_000, 4 * KILLS
VALUE = 987_654_321.123
CANARIES = [np.array(VALUE, "<f8").tobytes(), np.array(VALUE, ">f8").tobytes(), str(VALUE).encode()]
HERE = Path(__file__).parent


class Cluster:
    """A master, two workers and a driver, each in a process group of its own."""

    def __init__(self, folder: Path) -> None:
        found = importlib.util.find_spec("pyspark")
        assert found is not None
        assert found.origin is not None
        self.folder, self.home = folder, Path(found.origin).parent
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.master = f"spark://127.0.0.1:{self.port}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        self._spark_class("master", "master.Master", "--port", str(self.port))
        time.sleep(5)
        for name in ("worker 0", "worker 1"):
            self.start_worker(name)

    def _start(self, name: str, *command: str) -> None:
        local = str(self.folder / "local")
        mine = {"SPARK_LOCAL_DIRS": local, "PYSPARK_PYTHON": sys.executable, "SPARK_NO_DAEMONIZE": "1"}
        environment = os.environ | mine | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_DRIVER_PYTHON": sys.executable}
        with (self.folder / "logs" / name.replace(" ", "-")).open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, start_new_session=True, cwd=self.folder
            )

    def _spark_class(self, name: str, kind: str, *options: str) -> None:
        command = (str(self.home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1")
        self._start(name, *command, "--webui-port", "0", *options)

    def start_worker(self, name: str) -> None:
        work = str(self.folder / "work")
        self._spark_class(name, "worker.Worker", "--cores", "1", "--memory", "700m", "--work-dir", work, self.master)

    def start_driver(self) -> None:
        self._start("driver", sys.executable, str(HERE / "driver.py"), self.master, str(self.folder))

    def kill(self, name: str) -> None:
        """Kill a process and all that it has started, which may have left its group."""
        process = self.processes.pop(name)
        for each in [*list_descendants(process.pid), process.pid]:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        process.wait()

    def end(self) -> None:
        for name in list(self.processes):
            self.kill(name)


def list_descendants(process: int) -> list[int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found = [process]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found[1:]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    if importlib.util.find_spec("pyspark") is None or shutil.which("java") is None:
        pytest.skip("Spark or Java is not installed here; make test-spark runs this in an environment of its own")
    for name in ("in", "out", "logs", "local", "work"):
        (tmp_path / name).mkdir()
    made = Cluster(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.end()


def find_clear(cluster: Cluster) -> list[str]:
    """Where a canary is in clear, in all files but the source and the answers."""
    places = [cluster.folder / name for name in ("local", "checkpoint", "work", "logs")]
    there = [place for place in places if place.exists()]
    report = inspect_files(there, cluster.folder / "q.keyring", canaries=CANARIES)
    return [text for text in report.findings if "in clear" in text]


def test_each_row_counts_once_and_nothing_erased_is_left(cluster: Cluster) -> None:
    rng, chance, folder = np.random.default_rng(0), random.Random(SEED), cluster.folder  # noqa: S311
    open_keyring(folder / "q.keyring", create=True)
    keys, values = rng.integers(0, KEYS, ROWS), rng.exponential(size=ROWS)
    values[: ROWS // 3 : 7] = VALUE  # all of these have left long before the end
    for number, part in enumerate(np.array_split(np.arange(ROWS), FILES)):
        table: Any = pd.DataFrame({"k": keys[part], "v": values[part], "n": part})
        table.to_parquet(folder / "in" / f"{number:05}.parquet")
        os.utime(folder / "in" / f"{number:05}.parquet", (1.7e9 + number, 1.7e9 + number))
    cluster.start_driver()
    killed = {"driver": 0, "worker": 0}
    while sum(killed.values()) < KILLS:
        before = len(list((folder / "out").iterdir()))
        until = time.monotonic() + 300
        while len(list((folder / "out").iterdir())) == before and time.monotonic() < until:
            time.sleep(0.2)  # progress between two kills, or none would ever end
        time.sleep(chance.uniform(0.0, 4.0))
        if (folder / "done").exists() or cluster.processes["driver"].poll() is not None:
            break
        name = chance.choice(["driver", "worker 0", "worker 1"])
        cluster.kill(name)
        killed[name.split()[0]] += 1
        assert find_clear(cluster) == []
        cluster.start_driver() if name == "driver" else cluster.start_worker(name)
    assert (folder / "done").exists() or cluster.processes["driver"].poll() is None, "the driver has failed; see logs"
    until = time.monotonic() + 1_800
    while not (folder / "done").exists():
        assert cluster.processes["driver"].poll() is None
        assert time.monotonic() < until
        time.sleep(0.5)
    cluster.end()
    print(f"killed: {killed}")
    last: dict[str, Any] = {}
    for file in sorted((folder / "out").iterdir()):
        if file.stat().st_size > 2:
            last |= {
                row["key"]: row for row in pd.read_json(file, orient="records", dtype={"key": str}).to_dict("records")
            }
    for key in range(KEYS):
        alone = Stream(Mean(), retention=96, seed=7)
        alone.extend(values[keys == key])
        row = last[str(key)]
        assert (row["t"], row["held"]) == (alone.t, len(alone.retained)), key
        assert row["value"] == pytest.approx(alone.estimate().value, rel=1e-14)  # JSON has 15 digits
    places = [folder / name for name in ("local", "checkpoint", "work", "logs")]
    report = inspect_files(places, folder / "q.keyring", canaries=CANARIES)
    print(report.text)
    assert report.findings == ()
    assert report.unsettled == 0
    assert sum(killed.values()) == KILLS
