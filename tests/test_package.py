"""The wheel works where it is installed: bare, and with each extra, in an environment of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import vestige

ROOT = Path(__file__).parent.parent
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
STREAM = """
import numpy as np, vestige
stream = vestige.Stream(vestige.Mean(), retention=96, seed=0)
stream.extend(np.arange(7_000) % 7)
assert abs(stream.estimate().value - 3.0) < 0.01, stream.estimate()
"""
PROGRAMS = {
    "cli": "import vestige.cli",
    "plot": "from vestige.figures import make_figure, save_figure; save_figure(make_figure(), 'figure.png')",
    "demo": "from vestige.flights import flights; assert len(flights('distance')) > 300_000",
    "audit": """
from vestige import Window
from vestige.audit import measure_leakage
assert measure_leakage(Window(), retention=16, t=64, trials=40, workers=2).epsilon == 0
""",
    "duckdb": "import duckdb, vestige.cli.export.databases",
    "pandas": """
from vestige import KeyedStreams, Mean
streams = KeyedStreams(Mean(), retention=96, seed=0)
streams.extend(["a", "b"], [1.0, 2.0])
assert len(streams.estimates().to_pandas()) == 2
""",
    "sign": "from vestige.operations import generate_key; generate_key('key.pem')",
    "keyring": "from vestige.store import open_keyring; open_keyring('own.keyring', create=True)",
    "postgres": "import psycopg, vestige.store.postgres",
    "serve": "import vestige.service.app",
    "redis": "import redis, vestige.sources.redis",
    "sketches": "from vestige import Distinct, Stream; Stream(Distinct(), retention=13_920).push(1.0)",
    "client": "from vestige.client import Client; Client('http://127.0.0.1:9').close()",
    "lab": "from vestige.lab import EXPERIMENTS; import vestige.cli; assert EXPERIMENTS",
    "river": "from vestige.river import LinearRegressor; LinearRegressor(seed=0).learn_one({'a': 1.0}, 2.0)",
    "sklearn": "from vestige.sklearn import LinearRegression; LinearRegression(random_state=0)",
}
ELSEWHERE = {"docs", "test", "spark", "cuda"}
"""Extras that make docs, make test and make test-spark install, and one that needs a graphics processor."""
pytestmark = pytest.mark.slow(4)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def constraints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The versions of the lock file, without their hashes: a wheel that was just built has none."""
    path = tmp_path_factory.mktemp("constraints") / "constraints.txt"
    pins = re.findall(r"^([\w.\[\]-]+==[^\\\n]+?) *\\?$", (ROOT / "requirements.lock").read_text(), flags=re.M)
    path.write_text("\n".join(pins))
    return path


@pytest.fixture(scope="module")
def uv(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., None]:
    """An installer that keeps what it has unpacked, so that another environment takes a second."""
    folder, cache = tmp_path_factory.mktemp("uv"), tmp_path_factory.mktemp("cache")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", "uv"], check=True)

    def run(*words: str | Path) -> None:
        subprocess.run([folder / "bin" / "uv", "--quiet", "--cache-dir", cache, *words], check=True)

    return run


def install(uv: Callable[..., None], wheel: Path, extra: str, constraints: Path, folder: Path) -> Path:
    """Install the wheel, with an extra if one is named, into a new environment; its folder of programs."""
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    uv("venv", "--python", sys.executable, folder)
    uv("pip", "install", "--python", folder / "bin" / "python", "--constraint", constraints, wanted)
    return folder / "bin"


def execute(*command: str | Path, folder: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command with none of the variables that lead to this checkout."""
    surroundings = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "NUMBA_CACHE_DIR")}
    done = subprocess.run(
        command, cwd=folder, env=surroundings, input=given, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    tracked = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert vestige.__version__ in wheel.name
    assert {name.removeprefix("src/") for name in tracked.split()} <= set(zipfile.ZipFile(wheel).namelist())


def test_bare(uv: Callable[..., None], wheel: Path, constraints: Path, tmp_path: Path) -> None:
    programs = install(uv, wheel, "", constraints, tmp_path / "venv")
    done = execute(programs / "python", "-c", STREAM + "print(vestige.__version__)", folder=tmp_path)
    assert done.stdout.strip() == vestige.__version__
    refused = execute(programs / "vestige", "--help", folder=tmp_path)
    assert refused.returncode == 2
    assert "vestige[cli]" in refused.stderr


@pytest.mark.parametrize("extra", sorted(set(EXTRAS) - ELSEWHERE))
def test_each_extra(extra: str, uv: Callable[..., None], wheel: Path, constraints: Path, tmp_path: Path) -> None:
    programs = install(uv, wheel, extra, constraints, tmp_path / "venv")
    assert execute(programs / "python", "-c", PROGRAMS[extra], folder=tmp_path).returncode == 0
    if extra == "cli":
        done = execute(
            *(programs / "vestige", "run", "-", "--column", "n", "--retention", "128", "--json"),
            folder=tmp_path,
            given="n\n" + "\n".join(map(str, range(1_000))),
        )
        assert done.returncode == 0, done.stderr
        assert '"t": 1000' in done.stdout
