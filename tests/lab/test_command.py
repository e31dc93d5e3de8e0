"""`vestige lab` with a file or a package of somebody else: what it is told, and what it refuses."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from matplotlib.figure import Figure
from pyarrow import parquet

from vestige.cli import command
from vestige.lab import EXPERIMENTS, Contest, Results, Verdict, figures, grid
from vestige.lab.baselines import MEANS, error_ratio, run_stream
from vestige.lab.experiment import Parts, Point

MINE = '''
import numpy as np
from dataclasses import dataclass
from vestige import Policy
from vestige.policy import mask_arrivals

@dataclass(frozen=True)
class Newest(Policy):
    """The newest record stands for all."""
    dim: int = 1

    @property
    def columns(self):
        return self.dim

    def update(self, clock, retained, arrivals, coins):
        can = np.where(arrivals.leaving, 0, arrivals.rounds)
        return mask_arrivals(retained, (arrivals.rounds == can.max()) & ~arrivals.leaving)

    def answer(self, clock, retained):
        return retained.values.mean(axis=0)
'''
CHEAT = MINE.replace("can = np", "seen.append(arrivals.values.sum()); can = np").replace(
    "@dataclass", "seen = []\n@dataclass"
)


def run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> Mapping[str, float]:
    """The error after a few batches."""
    rows = rng.normal(size=(200, 2))
    return {"ratio": error_ratio(run_stream(parts[str(point["policy"])](2), rows, 32, rng), rows, 2.0)}


def draw_figure(results: Results, figure: Figure) -> None:
    """A curve for each policy."""
    axes = figure.add_subplot()
    for i, name in enumerate(figures.list_policies(results, MEANS)):
        figures.draw_curve(axes, name, results.series("trial", "ratio", policy=name), number=i)
    figures.draw_legend(figure, axes)


TOY = replace(
    EXPERIMENTS["drift"],
    name="toy",
    grid=grid(policy=["window", "algorithm 1"]),
    run_trial=run_trial,
    draw_figure=draw_figure,
    find_verdict=lambda results: Verdict.from_checks({"there are results": len(results) > 0}, ""),
    parts=MEANS,
    trials=2,
    quick=lambda _: True,
    quick_trials=2,
    contest=Contest(2, ({},), {"squared error": "ratio"}, 32),
)


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One experiment, in a folder of its own; what files add to the interpreter is taken away again."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr("vestige.cli.lab.EXPERIMENTS", {"toy": TOY, "descent": EXPERIMENTS["descent"]})
    monkeypatch.chdir(tmp_path)
    yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def call(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["lab", *arguments], prog_name="vestige")


def run(*arguments: str, jobs: int = 1) -> Result:
    return call("run", *arguments, "--out", "lab", "--jobs", str(jobs))


def write(source: str, name: str = "my_policy.py") -> str:
    Path(name).write_text(source)
    return name


def flat(text: str) -> str:
    return " ".join(text.split())


def test_a_policy_of_a_file_enters_what_compares_policies() -> None:
    done = run(write(MINE))
    assert done.exit_code == 0, done.output
    assert "Newest, from my_policy.py (SHA-256" in done.output
    assert "toy: held" in done.output
    assert "descent" not in done.output
    assert [line.split()[1] for line in done.output.splitlines() if line.startswith("│")] == [
        "window",
        "algorithm",
        "Newest",
    ]
    (file,) = Path("lab").glob("toy.Newest.*.parquet")
    said: dict[bytes, Any] = parquet.read_schema(file).metadata
    assert said[b"vestige.origin"] == b"my_policy.py"
    assert len(said[b"vestige.sha256"]) == 64
    assert len(list(Path("lab").glob("*.parquet"))) == 2
    assert "4 of 4" in call("list", "--out", "lab").output  # its trials are not counted with those of the experiment


def test_the_report_shows_it_and_says_where_it_comes_from() -> None:
    run(write(MINE))
    done = call("report", "my_policy.py", "--out", "lab")
    assert done.exit_code == 0, done.output
    page = Path("lab/report.html").read_text()
    assert "With Newest, from my_policy.py (SHA-256" in page
    assert "<code>vestige lab run my_policy.py toy" in page
    assert "Newest</text>" in page
    call("report", "--out", "lab", "--html", "alone.html")
    assert "Newest" not in Path("alone.html").read_text()
    write(MINE + "\n# changed\n")
    refused = call("report", "my_policy.py", "--out", "lab")
    assert refused.exit_code == 2
    assert "has no results here, and a file that has changed has results of its own" in flat(refused.output)


def test_a_policy_that_cheats_is_refused_before_it_runs() -> None:
    refused = run(write(CHEAT, "cheat.py"))
    assert refused.exit_code == 2
    assert "Error: cheat.py: Newest keeps something" in refused.output
    assert not Path("lab").exists()


def test_a_policy_that_fails_leaves_what_was_done_before() -> None:
    wide = MINE.replace("return retained.values.mean(axis=0)", "return np.zeros(3)")
    refused = run(write(wide, "wide.py"))
    assert refused.exit_code == 2
    assert "Newest, from wide.py, failed in toy, trial 0: the answer has 3 numbers" in flat(refused.output)


def test_what_cannot_enter_is_said() -> None:
    narrow = write(MINE.replace("return self.dim", "return 1"), "narrow.py")
    refused = run(narrow)
    assert refused.exit_code == 2
    assert "Newest takes records of 1 column, not of 2" in refused.output
    refused = run(narrow, "descent")
    assert "descent takes no policies from elsewhere" in refused.output
    some = run(write(MINE), "toy", "descent", "--quick")
    assert some.exit_code == 0
    assert "Note: Newest is not in descent: descent takes no policies from elsewhere" in flat(some.output)
    refused = run("nobody")
    assert "NAME='nobody' is not an experiment; use one of toy, descent; or a file that ends in .py" in flat(
        refused.output
    )
    assert "absent.py does not exist" in flat(run("absent.py").output)
    twice = run(write(MINE), write(MINE, "another.py"))
    assert "two policies have the same name, among Newest; rename one of them" in flat(twice.output)


def test_an_installed_policy_enters_by_its_name_and_a_broken_one_is_named() -> None:
    write(MINE, "shipped.py")
    facts = Path("shipped-1.2.dist-info")
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: shipped\nVersion: 1.2\n")
    (facts / "entry_points.txt").write_text(
        "[vestige.policies]\nnewest = shipped:Newest\n\n[vestige.experiments]\ntorn = shipped:nothing\n"
    )
    sys.path.insert(0, str(Path.cwd()))
    done = run("newest")
    assert done.exit_code == 0, done.output
    assert "newest, from shipped 1.2 (SHA-256" in done.output
    assert "Warning: plug-in torn (shipped:nothing, of shipped 1.2) cannot be loaded: AttributeError" in done.output
    listed = call("list", "--out", "lab").output
    assert "newest" in listed
    assert "shipped 1.2" in listed
    assert "a policy, one of newest" in flat(run("nobody").output)


def test_an_experiment_of_a_file_runs() -> None:
    source = "from dataclasses import replace\nfrom vestige.lab import EXPERIMENTS\n"
    source += "MINE = replace(EXPERIMENTS['descent'], name='mine')\n"
    done = run(write(source, "my_experiment.py"), "--quick", "--trials", "2")
    assert done.exit_code == 0, done.output
    assert "mine: not shown" in done.output
    assert Path("lab/mine.parquet").exists()
    twice = run(write(source.replace("'mine'", "'toy'"), "same_name.py"))
    assert "there are two experiments of the name toy; rename one of them" in flat(twice.output)
