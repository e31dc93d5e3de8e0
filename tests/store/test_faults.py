"""Writes that fail, and processes that are killed at one: nothing is lost, and stream and store go on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler to build the library with that lets writes fail")
    library = tmp_path_factory.mktemp("faults") / "faults.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, HERE / "faults.c", "-ldl"], check=True)
    return library


@pytest.fixture
def folder() -> Iterator[Path]:
    memory = Path("/dev/shm")  # noqa: S108
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        yield Path(made)


@pytest.mark.parametrize("how", [(), pytest.param(("thorough",), marks=pytest.mark.slow)])
@pytest.mark.parametrize("way", ["extend", "flush", "add", "drop", "tidy", "name", "forget"])
def test_a_write_that_fails_loses_nothing(shim: Path, folder: Path, way: str, how: tuple[str, ...]) -> None:
    environment = os.environ | {"LD_PRELOAD": str(shim)}
    command = [sys.executable, str(HERE / "faulty.py"), str(folder), way, *how]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    print(f"{way}: {told}")
    assert told["injected"] >= 10
    assert told["raised"] >= told["injected"] / 4


@pytest.mark.parametrize(
    "way", ["make", "name", "renew", "replace", "upgrade version 1", "upgrade version 2", "remove"]
)
def test_a_kill_at_any_write_leaves_a_store_that_works(shim: Path, folder: Path, way: str) -> None:
    environment = os.environ | {"LD_PRELOAD": str(shim)}
    command = [sys.executable, str(HERE / "killed.py"), str(folder), way]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    kills = json.loads(done.stdout)
    print(f"{way}: {kills} kills")
    assert kills >= 3
