"""Kernels are compiled wherever the package is installed and whoever runs it; what takes long is said once."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import vestige
from vestige._compilation import _load_index, _read_sources
from vestige._numba import kernel

UNCACHED = "vestige: kernels are compiled in each process, which takes about half a minute, since no cache folder is writable; set NUMBA_CACHE_DIR to a writable folder\n"  # noqa: E501
COMPILING = "vestige: compiling kernels; this takes about half a minute, once per installation"
FEW_KERNELS = [
    "-c",
    "import vestige; s = vestige.Stream(vestige.Mean(), retention=96); s.extend([1.0, 3.0]); print(s.estimate())",
]
RUN = ["-m", "vestige", "run", "-", "--column", "a", "--statistic", "moments", "--retention", "512"]
ONE_KERNEL = ["-c", "import numpy as np; from vestige.subset.bits import count_ones; count_ones(np.uint64(3))"]
NOBODY = [
    *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"),
    *("--inh-caps=-all,+dac_read_search", "--ambient-caps=+dac_read_search", "--bounding-set=-all,+dac_read_search"),
]
"""A user who owns nothing and may write nowhere, but read everything, so that it finds this interpreter."""


@pytest.fixture(scope="module")
def installed() -> Iterator[Path]:
    """A folder with a copy of the package, which nobody but its owner can write."""
    folder = Path(tempfile.mkdtemp())
    shutil.copytree(Path(vestige.__file__).parent, folder / "vestige", ignore=shutil.ignore_patterns("__pycache__"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def run(installed: Path, arguments: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """As a user who has no home unless one is given."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can become somebody else, with setpriv")
    kept = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR")}
    command = [*NOBODY, sys.executable, *arguments]
    return subprocess.run(
        command,
        env=kept | {"PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1"} | environment,
        input="a\n1\n3\n",
        capture_output=True,
        text=True,
        check=False,
        cwd=installed,
    )


@pytest.fixture
def writable() -> Iterator[Path]:
    """A folder that everybody can write."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("command", "text", "said"),
    [
        pytest.param(FEW_KERNELS, "MeanEstimate(value=2.0", "", id="interpreted"),
        pytest.param(ONE_KERNEL, "", UNCACHED, id="compiled"),
        pytest.param(RUN, "All-time moments of 2 records", UNCACHED, id="a command", marks=pytest.mark.slow),
    ],
)
def test_where_nothing_can_be_written_it_runs_and_says_once_what_that_costs(
    installed: Path, command: list[str], text: str, said: str
) -> None:
    done = run(installed, command)
    assert text in done.stdout
    assert (done.returncode, done.stderr) == (0, said)


def test_with_a_folder_of_its_own_it_caches_and_says_nothing(installed: Path, writable: Path) -> None:
    done = run(installed, ONE_KERNEL, NUMBA_CACHE_DIR=str(writable))
    assert (done.returncode, done.stderr) == (0, "")
    assert list(writable.rglob("bits.count_ones*.nbc"))


def test_the_cache_of_a_user_with_a_home_is_there(installed: Path, writable: Path) -> None:
    done = run(installed, ONE_KERNEL, HOME=str(writable))
    assert (done.returncode, done.stderr) == (0, "")
    assert list((writable / ".cache" / "numba").rglob("bits.count_ones*.nbc"))


@pytest.mark.slow
def test_compiling_is_told_to_a_terminal_once_and_as_a_warning_elsewhere(tmp_path: Path) -> None:
    """What comes from the cache is not told."""
    program = """
import logging, sys
import numpy as np
import vestige._compilation, vestige._numba
vestige._compilation._PATIENCE = 0.0
vestige._numba.limit_interpretation(0.0)
from vestige.random.kernels import draw
from vestige.subset.bits import count_ones
if len(sys.argv) > 1:
    logging.basicConfig(format="logged %(message)s", stream=sys.stdout)
count_ones(np.uint64(3)), draw(np.uint64(3), 1)
"""
    command = [sys.executable, "-c", program]

    def caching_in(name: str) -> dict[str, str]:
        return os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / name)}

    ours, theirs = pty.openpty()
    done = subprocess.run(
        command, env=caching_in("terminal"), stdout=subprocess.PIPE, stderr=theirs, text=True, check=True
    )
    assert (done.stdout, os.read(ours, 10_000).decode()) == ("", f"{COMPILING}\r\n")
    for name, arguments, said in (
        ("elsewhere", ["configured"], (f"logged {COMPILING}\n", "")),
        ("elsewhere", ["configured"], ("", "")),
        ("by default", [], ("", f"{COMPILING}\n")),
    ):
        done = subprocess.run([*command, *arguments], env=caching_in(name), capture_output=True, text=True, check=True)
        assert (done.stdout, done.stderr) == said
    for descriptor in (ours, theirs):
        os.close(descriptor)


@kernel
def _add(n: int, more: int) -> int:
    return n + more


@kernel
def _add_often(n: int) -> int:
    total = 0
    for _ in range(n):
        total = _add(total, 1)
    return _add(total, n)


def test_a_constant_is_compiled_for_as_any_other_number() -> None:
    """Or the longest kernel, which is called with a count that starts at 0, would be compiled twice."""
    assert _add_often(3) == 6
    _add_often.recompile()  # type: ignore[attr-defined]  # it may come from the cache
    part = _add.get_overload.__self__  # type: ignore[attr-defined]
    assert len(part.signatures) == 1


def test_all_tests_share_one_folder_of_kernels(pytestconfig: pytest.Config) -> None:
    """The examples in the source too, which compile most of them: what is in tests/ would not be read for these."""
    assert pytestconfig.pluginmanager.has_plugin(str(pytestconfig.rootpath / "conftest.py"))


def test_a_kernel_is_compiled_again_when_one_that_it_calls_has_changed(installed: Path, tmp_path: Path) -> None:
    """As after an update in place: numba itself looks at the file of the kernel alone."""
    program = (
        "import numpy as np; from vestige._numba import limit_interpretation; limit_interpretation(0.0); "
        "from vestige.channels.residues import find_dither; print(find_dither(np.uint64(1), 0, 9))"
    )
    called = installed / "vestige" / "random" / "kernels.py"
    source = called.read_text()
    before = run(installed, ["-c", program], NUMBA_CACHE_DIR=str(tmp_path)).stdout
    called.write_text(source.replace("* 2.0**-53", "* 2.0**-54"))
    after = run(installed, ["-c", program], NUMBA_CACHE_DIR=str(tmp_path)).stdout
    called.write_text(source)
    assert source.count("* 2.0**-53") == 1
    assert float(after) == float(before) / 2.0 > 0.0


def test_every_file_that_defines_kernels_counts_as_changed() -> None:
    package = Path(vestige.__file__).parent
    defining = {
        path.relative_to(package).as_posix() for path in package.rglob("*.py") if "kernel\ndef " in path.read_text()
    }
    assert {"channels/word.py", "random/kernels.py"} <= defining <= _read_sources().keys()


def test_an_index_of_types_that_are_gone_counts_as_none() -> None:
    def load() -> dict[Any, str]:
        raise ModuleNotFoundError("No module named 'vestige.gone'")

    assert _load_index(load) == {}
    assert _load_index(lambda: {"x": "y"}) == {"x": "y"}
