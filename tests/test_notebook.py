"""The notebook of the docs: its outputs are those of its cells, and its policy is that of the guide."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOK = ROOT / "docs" / "guides" / "bench.ipynb"


def read_outputs(path: Path) -> list[object]:
    """What each cell shows, without the bytes of figures, which depend on the version of matplotlib."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [
        [
            ["a figure"] if "image/png" in output.get("data", {}) else output.get("data", output.get("text"))
            for output in cell.get("outputs", [])
        ]
        for cell in cells
    ]


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The notebook, run anew."""
    copy = tmp_path_factory.mktemp("notebook") / NOTEBOOK.name
    shutil.copy(NOTEBOOK, copy)
    command = [sys.executable, str(ROOT / "docs" / "notebook.py"), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
    return copy


def test_outputs_are_those_of_the_cells(executed: Path) -> None:
    """Run `make notebook` where they are not."""
    assert read_outputs(executed) == read_outputs(NOTEBOOK)
    assert any(shown for shown in read_outputs(NOTEBOOK))


def test_the_policy_is_that_of_the_guide() -> None:
    guide = (NOTEBOOK.parent / "policy.md").read_text(encoding="utf-8")
    (typed,) = re.findall(r"^\$ cat > lottery\.py <<'END'\n((?:>.*\n)*?)> END$", guide, re.M)
    cells = ["".join(cell["source"]) for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]]
    (written,) = (cell for cell in cells if cell.startswith("%%writefile lottery.py\n"))
    assert written.partition("\n")[2].rstrip() == re.sub(r"^> ?", "", typed, flags=re.M).rstrip()
