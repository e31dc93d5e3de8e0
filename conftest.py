"""Set up before any kernel is loaded: a cache of compiled kernels, files in memory, and reproducible properties.

And what several tests share: servers of their own, PostgreSQL and Redis, for each process that runs tests.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from parts import divide, find_seconds

if TYPE_CHECKING:
    from postgres import Database, Server
    from redis_server import RedisServer

ROOT = Path(__file__).parent
if find_spec("pyspark") is None:  # make test-spark runs these examples, in an environment that has it
    collect_ignore = [
        "src/vestige/spark/queries.py",
        "src/vestige/spark/settings.py",
        "docs/guides/spark.md",
        "tests/spark/driver.py",
    ]

os.environ["OMP_NUM_THREADS"] = "1"  # two workers share two cores; more threads only wait for each other
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".cache" / "kernels"))

from vestige._numba import limit_interpretation  # noqa: E402

limit_interpretation(
    0.0
)  # compiled kernels are tested; tests/test_interpretation.py compares them with interpreted ones

MEMORY = Path("/dev/shm")  # noqa: S108  # a commit waits for the disk, which takes most of the time of a test of stores
if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 1 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=30)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let one of several parts of the tests be run, such as `--part 2/4`."""
    parser.addoption("--part", metavar="I/N", help="run the I-th of N parts of the tests, which take equally long")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of the other parts."""
    asked = config.getoption("--part")
    if asked is None:
        return
    part, _, parts = str(asked).partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise pytest.UsageError(f"--part={asked} is not one of several parts; use one such as 2/4")
    chosen = divide({item.nodeid: find_seconds(item) for item in items}, int(parts))[int(part) - 1]
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in chosen])
    items[:] = [item for item in items if item.nodeid in chosen]


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A PostgreSQL server, which is ended with the tests, also if they are interrupted."""
    from postgres import Server, find_programs  # noqa: PLC0415

    programs = find_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (initdb is not found); install the package postgresql to run this")
    made = Server(programs)
    yield made
    made.remove()


@pytest.fixture
def database(server: Server, tmp_path: Path) -> Iterator[Database]:
    """A place for one store on the server."""
    from postgres import Database  # noqa: PLC0415

    made = Database.create(server, tmp_path)
    yield made
    made.drop()


@pytest.fixture
def start_redis() -> Iterator[Callable[..., RedisServer]]:
    """A function that starts a Redis server with settings; all of them are ended with the test."""
    from redis_server import RedisServer, find_program  # noqa: PLC0415

    if find_program() is None:
        pytest.skip("Redis is not installed (redis-server is not found); install the package redis-server to run this")
    made: list[RedisServer] = []

    def start(**settings: str) -> RedisServer:
        made.append(RedisServer(**settings))
        return made[-1]

    yield start
    for each in made:
        each.remove()


@pytest.fixture
def redis_server(start_redis: Callable[..., RedisServer]) -> RedisServer:
    """A Redis server that keeps nothing on its disk."""
    return start_redis()
