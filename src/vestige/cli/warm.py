"""`vestige warm`: compiles the kernels ahead of the first run, as when an image or a machine is set up.

Guarantee: a run afterwards compiles nothing; held by tests/test_cli_warm.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import click

from vestige.cli.group import command
from vestige.cli.output import format_count, say, show_progress
from vestige.errors import MissingExtraError, ParameterError, VestigeError
from vestige.keyed.rehearsal import rehearse
from vestige.policies import STATISTICS, Bundle, Mean, NamedPolicy, Private
from vestige.policy import Policy
from vestige.random.generators import make_generator
from vestige.random.keys import AuditSeed
from vestige.stream import Stream


@command.command()
@click.option(
    "--statistic",
    "statistics",
    type=click.Choice(list(STATISTICS)),
    multiple=True,
    help="Statistic to compile for; repeat it for others.  [default: all, metrics and private answers included]",
)
def warm(statistics: tuple[str, ...]) -> None:
    """Compile the kernels ahead of the first run.

    Kernels are compiled once per installation and kept in a cache. This does it now, so that no run has to: when an
    image is built, after an installation or an update, or before a job with a time limit. What is in the cache already
    is not compiled again. Commands that simulate, such as plan and audit, compile more when they are first used.

    \b
    Examples:
      vestige warm
      vestige warm --statistic mean --statistic quantiles
    """  # noqa: D301  # \b keeps the lines as they are
    from vestige import _numba  # noqa: PLC0415  # it takes long to import, also where only help is shown
    from vestige.sources.boundaries import CsvBoundary  # noqa: PLC0415

    if not _numba.is_cacheable():
        raise VestigeError(
            "no cache folder is writable, so that compiled kernels would be lost; set NUMBA_CACHE_DIR to a folder that "
            "can be written, here and where vestige runs"
        )
    _numba.limit_interpretation(0.0)
    started, missing = time.perf_counter(), []
    tasks = _list_tasks(statistics)
    with show_progress("Compiling") as report:
        for i, (name, make) in enumerate(tasks):
            try:
                _rehearse(make())
            except MissingExtraError:
                missing.append(name)
            report((i + 1) / len(tasks))
    CsvBoundary().find_last(b'"1"\n')
    seconds = time.perf_counter() - started
    say(f"Ready: the kernels of {format_count(len(tasks) - len(missing), 'statistic')} in {seconds:.0f} s.")
    if missing:
        say(f"Left out, since its extra is not installed: {', '.join(missing)}.")


def _list_tasks(statistics: tuple[str, ...]) -> list[tuple[str, Callable[[], Policy]]]:
    """Make the policies to compile for, by name; each is made only when its turn comes."""
    names = statistics or tuple(STATISTICS)
    tasks: list[tuple[str, Callable[[], Policy]]] = [(name, partial(make_smallest, STATISTICS[name])) for name in names]
    if not statistics:
        tasks.append(("means", lambda: Mean(2)))
        tasks.append(("metrics", lambda: Bundle({"x": [Mean()], "y": [Mean()]})))
        tasks.append(("private", lambda: Private(bound=1.0, epsilon=1.0, delta=1e-6)))
        bundle = Bundle({"x": Mean()})
        tasks.append(("private metrics", lambda: Private(bundle, bounds={"x": 1.0}, epsilon=1.0, delta=1e-6)))
    return tasks


def make_smallest(kind: type[NamedPolicy]) -> NamedPolicy:
    """Make a policy of the fewest columns, with two edges or categories where it needs them.

    Args:
        kind: the kind of policy.

    Returns:
        the policy.

    Example:
        >>> make_smallest(Mean).columns
        1
    """
    try:
        return kind.from_columns(kind.min_columns, kind.min_targets, "auto", None)
    except ParameterError:
        return kind.from_options(("0", "1"), 1, None)


def _rehearse(policy: Policy) -> None:
    """Do with streams what runs do: batches, a request, an update that meets it, and an answer; the same by key."""
    stream = Stream(policy, retention=2 * policy.min_batch, seed=AuditSeed(0))
    rows = make_generator(0).integers(0, 2, (5 * stream.batch, policy.columns)).astype(float)
    stream.extend(rows[: stream.batch])
    stream.extend(rows[stream.batch : 3 * stream.batch + 1])  # from what is encoded, many batches at once
    stream.forget(rounds=[stream.t])
    stream.extend(rows[3 * stream.batch + 1 :])
    stream.estimate()
    rehearse(policy, 2 * policy.min_batch)
