"""Commands dump no core, and those with a keyring are not swapped where the system lets them say so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")

PROGRAM = """
import resource, sys
from pathlib import Path
from click.testing import CliRunner
from vestige.cli import command
hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
resource.setrlimit(resource.RLIMIT_MEMLOCK, (min(hard, 65536) if sys.argv[1] == "little" and hard >= 0 else
    65536 if sys.argv[1] == "little" else hard, hard))
unlimited = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY
result = CliRunner().invoke(command, sys.argv[2:])
assert result.exit_code == 0, result.output
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(resource.getrlimit(resource.RLIMIT_CORE)[0], int(status["VmLck"].split()[0]) > 0, unlimited)
"""


def ask(*arguments: str) -> list[str]:
    run = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True)
    return run.stdout.split()


def test_commands_dump_no_core_and_lock_what_they_may(tmp_path: Path) -> None:
    keyring = str(tmp_path / "a.keyring")
    core, locked, unlimited = ask("all", "keyring", "init", keyring)
    assert core == "0"
    assert unlimited in (locked, "True")  # a container may forbid it all the same
    assert ask("little", "keyring", "verify", keyring)[:2] == ["0", "False"]
