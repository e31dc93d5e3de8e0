"""What `vestige run` prints: answers, counts, and the rows that were not taken.

Guarantee: a message says what was taken, and how to take the rest; held by tests/ingest/test_ingest.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import click

from vestige.cli.answers import StreamAnswer
from vestige.cli.exit_status import Finding
from vestige.cli.keyed_answers import KeyedAnswers
from vestige.cli.output import escape, format_count, print_json, say
from vestige.errors import NoAnswerError, SourceError
from vestige.ingest import Ingest
from vestige.sources.comparison import explain_uncompared
from vestige.sources.keys import By
from vestige.sources.protocol import KEEP_NUMBERS
from vestige.store.names import explain_name, show_name
from vestige.times import format_duration

Answers = Mapping[str, StreamAnswer] | KeyedAnswers
"""The answer of the single stream, under the empty key; or those of all keys."""
_MAX_NAMED = 20
"""Maximum number of streams that are named if their rows were not taken; JSON names them all."""


def show_answers(by: By, made: Answers, limit: str) -> None:
    """Print the answers of a run, for people.

    Args:
        by: column of keys, or several; None for one stream.
        made: the answers.
        limit: how long records are held, in words.
    """
    if not isinstance(made, KeyedAnswers):
        made[""].show(limit)
    elif by is not None:
        made.show(by)


def print_facts(statistic: str, by: By, made: Answers, run_facts: dict[str, Any], passed: str) -> None:
    """Print the answers of a run as JSON.

    Args:
        statistic: name of the statistic.
        by: column of keys, or several; None for one stream.
        made: the answers.
        run_facts: what else to print of the run.
        passed: clause about the rows that were read before, for errors.

    Raises:
        NoAnswerError: the only stream has no answer.
    """
    if not isinstance(made, KeyedAnswers):
        asked = made[""]
        if asked.estimate is None:
            raise NoAnswerError(f"{asked.problem}{passed}")
        print_json({"statistic": statistic, **asked.facts, **run_facts})
    else:
        streams = {key: asked.facts for key, asked in made.each.items()}
        restarted = sum(asked.restarted for asked in made.each.values())
        print_json({"statistic": statistic, "by": by, "streams": streams, "restarted": restarted, **run_facts})


def collect_facts(ingest: Ingest) -> dict[str, object]:
    """Collect the counts and troubles of a run.

    Args:
        ingest: run that has ended.

    Returns:
        The facts, by name.
    """
    troubles = {
        key: {"rows": trouble.rows, "row": trouble.row, "reason": trouble.reason}
        for key, trouble in ingest.troubles.items()
    }
    counts = {
        "skipped": ingest.skipped,
        "keyless": ingest.keyless,
        "before": ingest.before,
        "compared": ingest.compared,
        "taken": ingest.taken,
        "late": ingest.late,
        "removed": ingest.removed,
        "unfinished": bool(ingest.unfinished),
    }
    return counts | ({"troubles": troubles} if troubles else {})


def print_notes(ingest: Ingest, lateness: timedelta | None, files: int) -> None:
    """Print what happened to the rows, for people.

    Args:
        ingest: run that has ended.
        lateness: how late rows may be.
        files: number of files.
    """
    if ingest.store is not None:
        several = f" of {format_count(ingest.grown, 'file')}" if files > 1 and ingest.grown else ""
        say(f"Taken: {format_count(ingest.taken, 'row')}{several}{explain_before(ingest, files)}.")
    if ingest.skipped > ingest.keyless:
        say(f"Skipped: {format_count(ingest.skipped - ingest.keyless, 'row')} with a missing value.")
    if ingest.keyless:
        say(f"Skipped: {explain_keyless(ingest)}.")
    if ingest.late and lateness is not None:
        were = "was" if ingest.late == 1 else "were"
        late = format_count(ingest.late, "row")
        later = "" if ingest.store is None else ", nor will be by a later run"
        say(f"Late: {late} came more than {format_duration(lateness)} late and {were} not taken{later}.")
    if ingest.removed:
        say(f"Removed: another process removed {format_count(ingest.removed, 'stream')} meanwhile.")
    for source in ingest.unfinished[:_MAX_NAMED]:
        say(f"The last line of {source} has no line break yet; it is left for the next run.")


def explain_keyless(ingest: Ingest) -> str:
    """Say how many rows have no key.

    Args:
        ingest: run that has ended.

    Returns:
        A clause.
    """
    by = ingest.names.by or ()
    columns = (by,) if isinstance(by, str) else by
    return f"{format_count(ingest.keyless, 'row')} without a key in {' or '.join(columns)}"


def explain_before(ingest: Ingest, files: int) -> str:
    """Say which rows were read before.

    Args:
        ingest: run that has ended.
        files: number of files.

    Returns:
        A clause; empty if there are none.
    """
    if not ingest.before:
        return ""
    if files > 1:
        return f"; {format_count(ingest.before, 'row')} of {format_count(ingest.known, 'file')} were read before"
    if not ingest.compared:
        return f"; {explain_uncompared(ingest.before)}"
    return "; row 1 was read before" if ingest.before == 1 else f"; rows 1 to {ingest.before:,} were read before"


def check_late(ingest: Ingest) -> None:
    """Check that no row came too late.

    Args:
        ingest: run that has ended.

    Raises:
        Finding: some did; it says how many.
    """
    if ingest.late:
        raise Finding(
            f"{format_count(ingest.late, 'row')} came too late and will not be taken; a longer --lateness takes such "
            "rows in future"
        )


def check_troubles(source: str, ingest: Ingest) -> None:
    """Name the streams whose rows were not taken.

    Args:
        source: the source, or how many files there are.
        ingest: run that has ended.

    Raises:
        SourceError: rows of some streams were not taken.
    """
    if not ingest.troubles:
        return
    for key, trouble in list(ingest.troubles.items())[:_MAX_NAMED]:
        of = "" if trouble.source == source else f" of {trouble.source}"
        rows = f", {format_count(trouble.rows, 'row')} from row {trouble.row:,}{of} on not taken"
        where = rows if trouble.rows else ""
        shown = show_name(key) if explain_name(key) else repr(key)
        click.echo(escape(f"Trouble with {shown}{where}: {trouble.reason}"), err=True)
    number = sum(trouble.rows for trouble in ingest.troubles.values())
    were = "was" if number == 1 else "were"
    again = ingest.store is not None and ingest.source.resumable
    later = f". {_explain_remedy(ingest)}" if again else ""
    raise SourceError(
        f"{source}: {format_count(number, 'row')} of {format_count(len(ingest.troubles), 'stream')} {were} not taken; "
        f"all others were{later}"
    )


def _explain_remedy(ingest: Ingest) -> str:
    """Say how a later run takes the rows that this one did not."""
    if not any(trouble.of_row for trouble in ingest.troubles.values()):
        return "Once that is corrected, the same command takes them"
    if ingest.source.remedy:
        return f"To go on without them, {ingest.source.remedy}"
    return (
        f"To take them, {KEEP_NUMBERS}, and run this again, with --if-replaced continue if that saved a new file "
        "or a shorter one. Do not drop or sort rows, since they are identified by their numbers; --if-replaced restart "
        "would count the other rows again"
    )
