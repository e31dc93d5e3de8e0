"""One page that shows each claim, its figure, the verdict and the command that tries it again; it needs nothing else.

Figures are inline and take the page's ink, so that they read on a phone, on paper, on white and on black.
Guarantee: the page refers to nothing outside itself, and the same results give the same page; held by
tests/lab/test_report.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from pathlib import Path

from vestige.lab import figures
from vestige.lab.experiment import CONSTANTS, HELD, UNFINISHED, Experiment, Verdict
from vestige.lab.results import Results, made_by, read, seed_of

_MARKS = {HELD: ("✓", "held"), CONSTANTS: ("✓", "held"), UNFINISHED: ("…", "open")}


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """An experiment with what was found.

    Attributes:
        experiment: which.
        verdict: on its results.
        results: all trials.
        seed: of their draws.
    """

    experiment: Experiment
    verdict: Verdict
    results: Results
    seed: int


def findings(experiments: Iterable[Experiment], folder: Path) -> list[Finding]:
    """What the results in a folder say; experiments that were not run are left out."""
    made = []
    for experiment in experiments:
        path = folder / f"{experiment.name}.parquet"
        results = Results.of(read(path, made_by(experiment.digest)))
        if len(results):
            made.append(Finding(experiment, experiment.judged(results), results, seed_of(path)))
    return made


def page(found: Iterable[Finding], command: str) -> str:
    """The whole page; `command` is what runs the experiments, without their names."""
    found = list(found)
    contents = "\n".join(
        f'<tr><td><a href="#{one.experiment.name}">{one.experiment.name}</a></td>'
        f"<td>{escape(one.experiment.source)}</td><td>{_badge(one.verdict)}</td></tr>"
        for one in found
    )
    sections = "\n".join(_section(one, command) for one in found)
    trials = sum(len(one.results) for one in found)
    return (
        _PAGE.replace("{style}", _STYLE)
        .replace("{trials}", f"{trials:,}")
        .replace("{version}", escape(version("vestige")))
        .replace("{contents}", contents)
        .replace("{sections}", sections)
    )


def _badge(verdict: Verdict) -> str:
    mark, kind = _MARKS.get(verdict.outcome, ("✗", "not"))
    return f'<span class="{kind}">{mark} {verdict.outcome}</span>'


def _section(one: Finding, command: str) -> str:
    name, verdict = one.experiment.name, one.verdict
    drawn = verdict.outcome != UNFINISHED
    svg = figures.inline(figures.rendered(one.experiment.figure, one.results, "svg"), name) if drawn else ""
    constants = "; ".join(f"{key} = {value:.3g}" for key, value in verdict.constants.items())
    return f"""<section id="{name}">
<h2>{escape(one.experiment.claim)}</h2>
<p class="source">{escape(one.experiment.source)}</p>
<p>{_badge(verdict)}{f": {escape(constants)}" if constants else ""}</p>
<figure role="img" aria-label="{escape(one.experiment.claim, quote=True)}">{svg}
<figcaption>Bars are two standard errors, unless said; {_count(one)}.</figcaption></figure>
<p>{escape(verdict.because)}</p>
<pre><code>{escape(command)} {name}{_options(one)}</code></pre>
</section>"""


def _trials(one: Finding) -> int:
    """How many trials there are at each point, at most."""
    return int(one.results["trial"].max()) + 1


def _options(one: Finding) -> str:
    """What the command must be told to come to these results."""
    trials = f" --trials {_trials(one)}" if _trials(one) != one.experiment.trials else ""
    return trials + (f" --seed {one.seed}" if one.seed else "")


def _count(one: Finding) -> str:
    """How many trials there are at each point."""
    whole = len(one.results) == len(one.experiment.grid) * _trials(one)
    each = f", each {one.experiment.each}" if one.experiment.each else ""
    where = (
        f"{_trials(one)} trials at each point" if whole else f"{len(one.results):,} trials, not all points of the grid"
    )
    return f"{where}{each}"


_STYLE = """
:root { color-scheme: light dark; --ink: #222; --paper: #fff; --soft: #666; --line: #ddd;
  --yes: #00664a; --no: #a63c00; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ddd; --paper: #16181a; --soft: #999; --line: #3a3d40; --yes: #3fc79b; --no: #ff9a5c; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 44rem; font: 1rem/1.55 Georgia, 'Times New Roman', serif;
  color: var(--ink); background: var(--paper); }
h1, h2 { line-height: 1.25; text-wrap: balance; }
h1 { font-size: 1.7rem; } h2 { font-size: 1.15rem; margin-top: 0; }
section { border-top: 1px solid var(--line); padding: 1.5rem 0 0.5rem; margin-top: 1.5rem; break-inside: avoid; }
.source { color: var(--soft); margin: -0.6rem 0 0.6rem; font-style: italic; }
.held { color: var(--yes); font-weight: bold; } .not { color: var(--no); font-weight: bold; }
figure { margin: 0.5rem 0; } figure svg { width: 100%; max-width: 38rem; height: auto; display: block; }
figcaption { color: var(--soft); font-size: 0.85rem; }
table { border-collapse: collapse; width: 100%; font-size: 0.95rem; }
td, th { text-align: left; padding: 0.25rem 0.6rem 0.25rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
pre { background: color-mix(in srgb, var(--ink) 7%, var(--paper)); padding: 0.5rem 0.7rem; overflow-x: auto;
  font-size: 0.85rem; }
a { color: inherit; }
@media (max-width: 30rem) { figure { margin: 0.5rem -0.75rem; } figcaption { margin: 0 0.75rem; } }
@page { margin: 1.5cm; }
@media print {
  :root { --ink: #000; --paper: #fff; --soft: #444; --line: #bbb; --yes: #000; --no: #000; }
  body { font-size: 9pt; max-width: none; padding: 0; }
  section { padding-top: 0.7rem; margin-top: 0.7rem; }
  figure svg { max-width: 9cm; }
  h2 { font-size: 1.1em; } p, pre, table { font-size: 1em; margin-block: 0.4em; }
}
"""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Limited data retention: each claim, run</title>
<style>{style}</style>
</head>
<body>
<h1>Limited data retention: each claim, run</h1>
<p>The claims of <em>Online Algorithms with Limited Data Retention</em> (Immorlica, Lucier, Mobius, Siderius, 2024), and
some of ours, each tried by an experiment. A verdict is computed from the results and could have been <em>did
not hold</em>. {trials} trials, Vestige {version}.</p>
<table><tr><th>experiment</th><th>of</th><th>verdict</th></tr>
{contents}
</table>
{sections}
</body>
</html>
"""
