"""One self-contained page that shows each claim, its figure, its verdict and the command that repeats it.

Figures are inline and take the text colour of the page, so that they are legible on a phone, on paper, in light and in
dark mode.
Guarantee: the page refers to nothing outside itself, and the same results give the same page; held by
tests/lab/test_report.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from pathlib import Path

from vestige.errors import ParameterError
from vestige.lab import figures
from vestige.lab.experiment import CONSTANTS, HELD, INCOMPLETE, NOT_SHOWN, Experiment, Verdict
from vestige.lab.results import Results, make_metadata, read_rows, read_seed
from vestige.lab.submission import Submission

_MARKS = {HELD: ("✓", "held"), CONSTANTS: ("✓", "held"), NOT_SHOWN: ("…", "open"), INCOMPLETE: ("…", "open")}


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """An experiment with its results.

    Attributes:
        experiment: the experiment.
        verdict: verdict on the results.
        results: all trials.
        seed: seed of the run.
        submissions: the policies from elsewhere that have results too.
    """

    experiment: Experiment
    verdict: Verdict
    results: Results
    seed: int
    submissions: tuple[Submission, ...] = ()


def collect_findings(
    experiments: Iterable[Experiment], folder: Path, submissions: Sequence[Submission] = ()
) -> list[Finding]:
    """Read the results in a folder and judge them.

    Args:
        experiments: experiments to look for; those without results are left out.
        folder: folder of the results.
        submissions: policies from elsewhere, whose results are shown and judged with the others where there are any.

    Returns:
        The findings, in the order of the experiments.

    Raises:
        MissingExtraError: pyarrow is not installed.
        StoreError: results are of another version of Vestige or of the experiment.

    Example:
        >>> import tempfile
        >>> from vestige.lab import EXPERIMENTS, run
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run([EXPERIMENTS["descent"]], Path(folder), trials=2, quick=True)
        ...     collect_findings(EXPERIMENTS.values(), Path(folder))[0].verdict.outcome
        'not shown'
    """
    findings = []
    for experiment in experiments:
        path = folder / experiment.file_name
        rows = read_rows(path, make_metadata(experiment.digest))
        if not rows:
            continue
        seed = read_seed(path)
        entered = []
        for mine in list_entries(experiment, submissions):
            theirs = read_rows(folder / mine.file_name, make_metadata(mine.digest, seed))
            rows += theirs
            entered += [mine.submission] if theirs and mine.submission is not None else []
        results = Results.from_rows(rows)
        findings.append(Finding(experiment, experiment.judge(results), results, seed, tuple(entered)))
    return findings


def list_entries(experiment: Experiment, submissions: Iterable[Submission]) -> list[Experiment]:
    """List the experiment once for each policy from elsewhere that can enter it.

    Args:
        experiment: the experiment.
        submissions: the policies.

    Returns:
        What `Experiment.submit` returns, for those that it does not refuse.
    """
    entries = []
    for submission in submissions:
        with suppress(ParameterError):
            entries.append(experiment.submit(submission))
    return entries


def tabulate(finding: Finding) -> tuple[tuple[str, ...], list[tuple[str, ...]], str]:
    """Tabulate the policies of an experiment that policies from elsewhere can enter.

    Args:
        finding: an experiment with a contest, and its results.

    Returns:
        The header, a row for each policy, and a sentence that says what the numbers are.

    Raises:
        ParameterError: no policy from elsewhere can enter the experiment.
    """
    contest, results = finding.experiment.contest, finding.results
    if contest is None:
        raise ParameterError(f"{finding.experiment.name} takes no policies from elsewhere; it has no table of policies")
    names = figures.list_policies(results, finding.experiment.parts)
    along = next(iter(contest.places[0]), None)
    if along is None:
        header = ("policy", *contest.measures)
        rows = [
            (name, *(_format_number(results.where(policy=name).mean(each)) for each in contest.measures.values()))
            for name in names
        ]
        return header, rows, "Averages over all trials:"
    label, measure = next(iter(contest.measures.items()))
    values = list(dict.fromkeys(place[along] for place in contest.places))
    shown = [value for value in values if len(results.where(**{along: value}))]
    rows = [
        (name, *(_format_cell(results.where(policy=name, **{along: value}), measure) for value in shown))
        for name in names
    ]
    return (
        ("policy", *(str(value) for value in shown)),
        rows,
        f"{label.capitalize()}, by {along}, with two standard errors:",
    )


def _format_cell(trials: Results, measure: str) -> str:
    """An average and two standard errors; a dash where nothing was run."""
    if not len(trials):
        return "-"
    return f"{_format_number(trials.mean(measure))} ± {_format_number(2.0 * trials.standard_error(measure), 1)}"


def _format_number(number: float, digits: int = 3) -> str:
    text = f"{number:.{digits}g}"
    return f"{number:,.0f}" if number >= 100.0 or "e+" in text else text


def render_page(findings: Sequence[Finding], command: str) -> str:
    """Render the page.

    Args:
        findings: what the page shows.
        command: the command that runs an experiment, without its name.

    Returns:
        The page as HTML.

    Raises:
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> render_page([], "vestige lab run")[:15]
        '<!DOCTYPE html>'
    """
    contents = "\n".join(
        f'<tr><td><a href="#{finding.experiment.name}">{finding.experiment.name}</a></td>'
        f"<td>{escape(finding.experiment.source)}</td><td>{_render_badge(finding.verdict)}</td></tr>"
        for finding in findings
    )
    sections = "\n".join(_render_section(finding, command) for finding in findings)
    trials = sum(len(finding.results) for finding in findings)
    return (
        _PAGE.replace("{style}", _STYLE)
        .replace("{trials}", f"{trials:,}")
        .replace("{version}", escape(version("vestige")))
        .replace("{contents}", contents)
        .replace("{sections}", sections)
    )


def _render_badge(verdict: Verdict) -> str:
    mark, kind = _MARKS.get(verdict.outcome, ("✗", "not"))
    return f'<span class="{kind}">{mark} {verdict.outcome}</span>'


def _render_section(finding: Finding, command: str) -> str:
    experiment, verdict = finding.experiment, finding.verdict
    svg = ""
    if verdict.outcome != INCOMPLETE:
        svg = figures.inline_svg(figures.render(experiment.draw_figure, finding.results, "svg"), experiment.name)
    constants = "; ".join(f"{key} = {value:.3g}" for key, value in verdict.constants.items())
    return f"""<section id="{experiment.name}">
<h2>{escape(experiment.claim)}</h2>
<p class="source">{escape(experiment.source)}</p>
<p>{_render_badge(verdict)}{f": {escape(constants)}" if constants else ""}</p>
<figure role="img" aria-label="{escape(experiment.claim, quote=True)}">{svg}
<figcaption>Bars show two standard errors, where there are any; {_describe_trials(finding)}.</figcaption></figure>
<p>{escape(verdict.reason)}</p>
{_render_submissions(finding)}<pre><code>{escape(command)} {_name_entries(finding)}{_list_options(finding)}</code></pre>
</section>"""


def _render_submissions(finding: Finding) -> str:
    """Where the policies from elsewhere come from."""
    said = "; ".join(submission.describe() for submission in finding.submissions)
    return f'<p class="from">With {escape(said)}.</p>\n' if said else ""


def _name_entries(finding: Finding) -> str:
    """What to give the command: files of policies from elsewhere, names of installed ones, and the experiment."""
    names = {each.name if each.origin.path is None else each.origin.name for each in finding.submissions}
    return escape(" ".join([*sorted(names), finding.experiment.name]))


def _count_trials(finding: Finding) -> int:
    """The largest number of trials at a point."""
    return int(finding.results["trial"].max()) + 1


def _list_options(finding: Finding) -> str:
    """The options with which the command gives these results."""
    count = _count_trials(finding)
    trials = f" --trials {count}" if count != finding.experiment.trials else ""
    return trials + (f" --seed {finding.seed}" if finding.seed else "")


def _describe_trials(finding: Finding) -> str:
    """The number of trials at each point, and what a trial is."""
    count, total = _count_trials(finding), len(finding.results)
    unit = f", each {finding.experiment.trial_unit}" if finding.experiment.trial_unit else ""
    entries = [finding.experiment, *list_entries(finding.experiment, finding.submissions)]
    if total == sum(len(each.grid) for each in entries) * count:
        return f"{count} trials at each point{unit}"
    return f"{total:,} trials, not all points of the grid{unit}"


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
figure { margin: 0.5rem 0; } figure svg { width: 100%; max-width: 30rem; height: auto; display: block; }
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
<title>Limited data retention: every claim, tested</title>
<style>{style}</style>
</head>
<body>
<h1>Limited data retention: every claim, tested</h1>
<p>The claims of <em>Online Algorithms with Limited Data Retention</em> (Immorlica, Lucier, Mobius, Siderius, 2024), and
some of ours, each tested by an experiment. A verdict is computed from the results and
could have been <em>refuted</em>. {trials} trials, Vestige {version}.</p>
<table><tr><th>experiment</th><th>source</th><th>verdict</th></tr>
{contents}
</table>
{sections}
</body>
</html>
"""
