"""A stranger's file: what it has is found, and what is wrong with it is said."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from vestige.errors import CheckError, ParameterError
from vestige.lab import load_file

POLICY = '''
from dataclasses import dataclass
from vestige import Mean, Policy, Window

@dataclass(frozen=True)
class Mine(Policy):
    """Keeps nothing."""
    share: float{default}

    def update(self, clock, retained, arrivals, coins):
        raise NotImplementedError

    def answer(self, clock, retained):
        raise NotImplementedError
'''
WHOLE = POLICY.format(default=" = 0.5")


@pytest.fixture(autouse=True)
def _forget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What files add to the interpreter is taken away again."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def write(folder: Path, source: str, name: str = "strangers_file.py") -> Path:
    path = folder / name
    path.write_text(source)
    return path


def test_policies_are_those_of_the_file_and_those_with_a_name(tmp_path: Path) -> None:
    source = WHOLE + "small = Mine(0.1)\ncoarse = Mean(tolerance=1.0)\n_hidden = Mine(0.2)\n"
    found = load_file(write(tmp_path, source))
    assert [(each.name, repr(each.policy)) for each in found.submissions] == [
        ("Mine", "Mine(share=0.5)"),
        ("small", "Mine(share=0.1)"),
        ("coarse", repr(found.submissions[2].policy)),
    ]
    assert {each.origin.digest for each in found.submissions} == {hashlib.sha256(source.encode()).hexdigest()}
    assert found.submissions[0].origin.name == "strangers_file.py"
    assert not found.experiments


def test_a_class_that_needs_arguments_counts_through_its_policies(tmp_path: Path) -> None:
    source = POLICY.format(default="")
    assert [each.name for each in load_file(write(tmp_path, source + "some = Mine(0.1)\n")).submissions] == ["some"]
    with pytest.raises(ParameterError, match=r"Mine cannot be made without arguments .*share.*such as: mine = Mine"):
        load_file(write(tmp_path, source, "needs_more.py"))


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    first = load_file(write(tmp_path, WHOLE)).submissions[0]
    second = load_file(write(tmp_path, WHOLE.replace("0.5", "0.6"))).submissions[0]
    assert (repr(first.policy), repr(second.policy)) == ("Mine(share=0.5)", "Mine(share=0.6)")
    assert first.digest != second.digest


def test_an_experiment_of_ones_own_is_found(tmp_path: Path) -> None:
    source = (
        "from dataclasses import replace\nfrom vestige.lab import EXPERIMENTS\n"
        "MINE = replace(EXPERIMENTS['descent'], name='mine')\n"
    )
    assert [each.name for each in load_file(write(tmp_path, source)).experiments] == ["mine"]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = 1\n", "strangers_file.py has no policy and no experiment; define a class derived from vestige.Policy"),
        (WHOLE.replace("def answer", "def reply"), "no policy and no experiment: Mine does not define answer"),
        ("x = 1\nclass Mine(\n", r"cannot be imported: SyntaxError in line 2"),
        ("\nimport no_such_module\n", "cannot be imported: ModuleNotFoundError in line 2: No module named"),
        ("def f():\n    return 1 / 0\nf()\n", "cannot be imported: ZeroDivisionError in line 2: division by zero"),
        ("import sys\nsys.exit(3)\n", "cannot be imported: SystemExit in line 2: 3"),
        ("from vestige import Mean\n", "has no policy and no experiment"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, source: str, said: str) -> None:
    with pytest.raises((ParameterError, CheckError), match=said):
        load_file(write(tmp_path, source))


@pytest.mark.parametrize("name", ["random.py", "numpy.py", "no-name.py", "class.py", "notes.txt"])
def test_a_name_that_others_have_or_nobody_can_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ParameterError, match=r"has the name of another module|cannot be imported by this name"):
        load_file(write(tmp_path, WHOLE, name))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="does not exist, or is not a file"):
        load_file(tmp_path / "absent.py")
    with pytest.raises(ParameterError, match="does not exist, or is not a file"):
        load_file(tmp_path)
