"""The commands on a store: list, estimate, retained, forget, receipts, sweep, verify.

Those that only ask take a copy and let go of the file at once, so that they never stand in the way of an erasure.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import click
import numpy as np

from vestige import origin
from vestige.cli.answers import Asked, check_strict, show_many
from vestige.cli.group import command, moment
from vestige.cli.output import announced, as_json, json_time, plain, say, show_table, shown_time
from vestige.errors import NoAnswerError, ParameterError, StoreError
from vestige.records import Records
from vestige.reporting import STATISTICS, plain_report
from vestige.store import Receipt, SqliteStore, State, Terms, read_store, verify
from vestige.store.state import wall_clock, worded
from vestige.stream import Stream, reopened, revived

_store = click.argument("store")
_streams = click.option("--stream", "names", multiple=True, help="Only this stream; may be given again.")
_json = click.option("--json", "machine", is_flag=True, help="Print JSON, for machines.")
_now = click.option(
    "--now",
    type=moment,
    metavar="TIME",
    help="The time by the clock that counts, in ISO 8601; that of the machine unless said.",
)


def _chosen(there: Sequence[str], names: tuple[str, ...], store: str) -> tuple[str, ...]:
    """The streams that were asked for; all if none was."""
    for name in names:
        if name not in there:
            known = ", ".join(list(there)[:5]) + (", ..." if len(there) > 5 else "")
            raise StoreError(f"{store}: there is no stream {name!r}; there is {known or 'none yet'}")
    return names or tuple(there)


def _copied(store: str, names: tuple[str, ...] = ()) -> dict[str, tuple[Terms, State]]:
    with announced(f"Reading {store} ..."):
        there = read_store(store)
    return {name: there[name] for name in _chosen(tuple(there), names, store)}


@command.command("list")
@_store
@_json
def list_streams(store: str, *, machine: bool) -> None:
    """Show the streams in STORE and their limits."""
    copied = _copied(store)
    facts = {name: _overview(terms, state) for name, (terms, state) in copied.items()}
    if machine:
        as_json(facts)
        return
    header = ("stream", "policy", "records", "held", "retention", "max age", "open requests")
    rows = [
        (
            name,
            str(fact["policy"]).removeprefix("vestige."),
            f"{fact['t']:,}",
            f"{fact['held']:,}",
            _or_dash(fact["retention"]),
            _or_dash(None if terms.max_age is None else worded(terms.max_age)),
            f"{fact['open_requests']}",
        )
        for (name, fact), (terms, _) in zip(facts.items(), copied.values(), strict=True)
    ]
    show_table(header, rows, words=("policy",))


def _overview(terms: Terms, state: State) -> dict[str, object]:
    return {
        "policy": terms.policy["name"],
        "parameters": terms.policy["parameters"],
        "about": dict(terms.about),
        "t": state.clock.t,
        "since": state.clock.since,
        "held": len(state.retained),
        "retention": terms.retention,
        "notice": terms.notice,
        "max_age": None if terms.max_age is None else terms.max_age.total_seconds(),
        "open_requests": sum(receipt.erased is None for receipt in state.receipts),
        "sources": {name: position.rows for name, position in state.positions.items()},
    }


def _or_dash(value: object) -> str:
    return "-" if value is None else str(value)


@command.command()
@_store
@_streams
@click.option("--strict", is_flag=True, help="Exit with status 1 where a statistic started over or has no answer.")
@_json
def estimate(store: str, names: tuple[str, ...], *, strict: bool, machine: bool) -> None:
    """Print the all-time answers in STORE."""
    copied = _copied(store, names)
    made = {name: _asked(terms, state) for name, (terms, state) in copied.items()}
    if machine:
        as_json({name: asked.facts for name, asked in made.items()})
    elif len(made) == 1:
        ((name, asked),) = made.items()
        terms, _ = copied[name]
        asked.show("no limit in records" if terms.retention is None else f"limit {terms.retention}")
    elif made:
        show_many("stream", made)
    else:
        raise NoAnswerError(f"{store}: there is no stream yet; vestige run --store {store} makes one")
    if strict:
        check_strict(made)


def _asked(terms: Terms, state: State) -> Asked:
    about = terms.about
    known = STATISTICS.get(str(about.get("statistic")))
    columns, targets = (tuple(_texts(about.get(key))) for key in ("columns", "targets"))
    return Asked.of(revived(terms, state), plain_report if known is None else known.report, columns, targets)


def _texts(value: object) -> Iterator[str]:
    yield from (str(text) for text in value) if isinstance(value, list) else ()


@command.command()
@_store
@_streams
@_json
def retained(store: str, names: tuple[str, ...], *, machine: bool) -> None:
    """Export the records that STORE holds.

    That is the whole state, as CSV, or one JSON object a line. This prints what the records hold. Subjects are
    printed as the pseudonyms that the store has of them.
    """
    copied = _copied(store, names)
    width = max((terms.columns for terms, _ in copied.values()), default=0)
    labels = {tuple(_labels(terms)) for terms, _ in copied.values()}
    header = list(labels.pop()) if len(labels) == 1 else [f"value_{i + 1}" for i in range(width)]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    on_paper = plain if sys.stdout.isatty() else str
    if not machine:
        writer.writerow(["stream", "round", "time", "subject", "leaving", *map(on_paper, header)])
    for name, (terms, state) in copied.items():
        for number, when, who, leaving, values in _records(state.retained):
            if machine:
                fields = dict(zip(_labels(terms), values, strict=True))
                as_json({"stream": name, "round": number, "time": when, "subject": who, "leaving": leaving} | fields)
            else:
                writer.writerow([on_paper(name), number, when or "", who or "", int(leaving), *map(repr, values)])


def _labels(terms: Terms) -> list[str]:
    named = [*_texts(terms.about.get("columns")), *_texts(terms.about.get("targets"))]
    return named if len(named) == terms.columns else [f"value_{i + 1}" for i in range(terms.columns)]


def _records(records: Records) -> Iterator[tuple[int, str | None, str | None, bool, list[float]]]:
    for i, number in enumerate(records.rounds.tolist()):
        when = None if np.isnat(records.times[i]) else f"{np.datetime_as_string(records.times[i])}Z"
        yield number, when, records.subjects[i], bool(records.leaving[i]), records.values[i].tolist()


@command.command()
@_store
@_streams
@click.option("--subject", help="Whose records are to go; - reads it from standard input, out of sight of others.")
@click.option("--round", "rounds", type=int, multiple=True, help="The round of a record that is to go; needs --stream.")
@click.option("--now", "at_once", is_flag=True, help="Erase at once, and pay in accuracy; else with the next update.")
@click.option("--dry-run", is_flag=True, help="Only show what would go.")
@click.option("--key", metavar="FILE", help="Where the key lies that subjects are hashed with.  [default: STORE.key]")
@_json
def forget(
    store: str,
    names: tuple[str, ...],
    subject: str | None,
    rounds: tuple[int, ...],
    *,
    at_once: bool,
    dry_run: bool,
    key: str | None,
    machine: bool,
) -> None:
    """Request that records leave STORE.

    Prints the receipts. Without --stream, the request goes to every stream that holds records of the subject.

    \b
    Examples:
      vestige forget visits.db --subject ada@example.org --dry-run
      vestige forget visits.db --subject - --now < subject.txt
      vestige forget visits.db --stream main --round 1802
    """  # noqa: D301  # the sign says to leave the lines as they are
    if (subject is None) == (not rounds):
        raise ParameterError("give --subject or --round, just one of them: whose records are to go, or which")
    if rounds and len(names) != 1:
        raise ParameterError(f"--round {rounds[0]} needs one --stream, since rounds count in each stream")
    if subject == "-":
        subject = sys.stdin.read().strip()
    _there(store)
    with announced(f"Looking through {store} ..."), SqliteStore(store, key=key) as opened:
        found = {}
        for name in _chosen(opened.names(), names, store):
            stream = reopened(opened, name)
            going = _going(stream, None if subject is None else opened.pseudonym(subject), rounds)
            if len(going) or names:
                found[name] = (stream, going)
        if dry_run:
            _show_going({name: going for name, (_, going) in found.items()}, machine=machine)
            return
        made: dict[str, list[Receipt]] = {}
        for name, (stream, _) in found.items():
            which = list(rounds) if subject is None else None
            made[name] = [stream.forget(rounds=which, subject=subject, now=at_once)]
    if not made and not machine:
        say(f"No record of this subject is held in {store}.")
    else:
        _show_receipts(made, machine=machine)


def _there(store: str) -> None:
    """Commands on a store do not make one by a slip of the finger."""
    if not Path(store).exists():
        raise StoreError(f"{store}: there is no such store; vestige run --store {store} makes one")


def _going(stream: Stream, pseudonym: str | None, rounds: tuple[int, ...]) -> Records:
    held = stream.retained
    mask = np.isin(held.rounds, rounds) if pseudonym is None else held.subjects == pseudonym
    return held.where(np.asarray(mask, np.bool_))


def _show_going(found: Mapping[str, Records], *, machine: bool) -> None:
    plain = {
        name: [{"round": number, "time": when} for number, when, *_ in _records(going)] for name, going in found.items()
    }
    if machine:
        as_json(plain)
        return
    total = sum(map(len, plain.values()))
    say(f"{total} records would go.")
    if total:
        rows = [(name, str(r["round"]), _or_dash(r["time"])) for name, going in plain.items() for r in going]
        show_table(("stream", "round", "time"), rows, words=("time",))


@command.command()
@_store
@_json
def receipts(store: str, *, machine: bool) -> None:
    """Show the removal requests in STORE.

    Those that are open, and those that were met in the last 30 days.
    """
    now = wall_clock()
    made = {
        name: [receipt for receipt in state.receipts if not receipt.expired(now)]
        for name, (_, state) in _copied(store).items()
    }
    _show_receipts(made, machine=machine)


def _show_receipts(made: Mapping[str, Sequence[Receipt]], *, machine: bool) -> None:
    if machine:
        as_json([{"stream": name, **_receipt_facts(receipt)} for name, given in made.items() for receipt in given])
        return
    rows = [
        (
            receipt.id,
            name,
            f"{shown_time(receipt.requested)}, round {receipt.requested_round:,}",
            f"round {receipt.due_round:,}" + (f", or {shown_time(receipt.due)}" if receipt.due else ""),
            "open" if receipt.erased is None else f"{shown_time(receipt.erased)}, round {receipt.erased_round:,}",
        )
        for name, given in made.items()
        for receipt in given
    ]
    show_table(
        ("receipt", "stream", "requested", "due", "erased"), rows, words=("stream", "requested", "due", "erased")
    )


def _receipt_facts(receipt: Receipt) -> dict[str, object]:
    return {
        "id": receipt.id,
        "requested": json_time(receipt.requested),
        "requested_round": receipt.requested_round,
        "due_round": receipt.due_round,
        "due": json_time(receipt.due),
        "erased": json_time(receipt.erased),
        "erased_round": receipt.erased_round,
    }


@command.command()
@_store
@_now
@_json
def sweep(store: str, now: datetime | None, *, machine: bool) -> None:
    """Erase what is due in STORE.

    Without an arrival; receipts expire, and the file is tidied. For a scheduler: run it every eighth of --max-age,
    or more often.

    \b
    Example, in a crontab:
      0 3 * * *  vestige sweep /var/lib/visits.db
    """  # noqa: D301  # the sign says to leave the lines as they are
    _there(store)
    erased = {}
    with announced(f"Sweeping {store} ..."), SqliteStore(store) as opened:
        with opened.together():
            for name in opened.names():
                erased[name] = reopened(opened, name).sweep(now)
        opened.tidy()
    if machine:
        as_json({"erased": erased})
    else:
        say(f"{sum(erased.values()):,} records erased in {len(erased):,} streams; the file is tidy.")


@command.command("verify")
@_store
@_now
@click.option("--canary", "texts", multiple=True, help="A text that must not be in any file of the store.")
@click.option("--canary-hex", "codes", multiple=True, help="The same, as bytes in hexadecimal.")
@_json
def verify_store(
    store: str, now: datetime | None, texts: tuple[str, ...], codes: tuple[str, ...], *, machine: bool
) -> None:
    """Check that nothing is left in STORE.

    The rules of retention, the file, every unused byte, canaries, and whether the sources that were read are still
    the same files; the store may be in use. Exits with status 1 if anything is found. This looks at files, not at the
    device, snapshots or backups.
    """
    try:
        canaries = [text.encode() for text in texts] + [bytes.fromhex(code) for code in codes]
    except ValueError:
        raise ParameterError("--canary-hex is no hexadecimal; write bytes such as 0f1e2d") from None
    with announced(f"Verifying {store} ..."):
        found = verify(store, now=now, canaries=canaries)
        changed, gone = _check_sources(store)
        found += changed
    if machine:
        as_json({"findings": list(found)} | ({"notes": list(gone)} if gone else {}))
    else:
        for text in found + gone:
            click.echo(plain(text))
        if not found:
            say(f"{store}: nothing found; rules, pragmas, pages and files are as they must be.")
    if found:
        sys.exit(1)


def _check_sources(store: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The sources that changed, and those that are gone; neither where the store cannot be read, as `verify` says."""
    try:
        return origin.check(read_store(store))
    except StoreError:
        return (), ()
