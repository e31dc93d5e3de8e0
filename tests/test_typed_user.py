"""A typed user of Vestige passes mypy strict: the examples of README and of the first guide are checked."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("page", ["README.md", "docs/guides/start.md"])
def test_examples_are_typed(page: str, tmp_path: Path) -> None:
    examples = doctest.DocTestParser().get_examples((ROOT / page).read_text())
    program = tmp_path / "user.py"
    program.write_text("".join(example.source for example in examples))
    settings = tmp_path / "mypy.ini"  # not ours: what a user would have, with libraries that have no types
    settings.write_text("[mypy]\n[mypy-scipy.*,pyarrow.*]\nignore_missing_imports = true\n")
    options = ["--strict", f"--config-file={settings}", f"--cache-dir={ROOT / '.cache' / 'mypy'}"]
    printed, problem, status = api.run([*options, str(program)])
    assert status == 0, printed + problem
