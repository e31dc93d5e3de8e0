"""`vestige audit store`: what a store declares about itself, then whether its records were chosen honestly.

Guarantee: the declaration comes first and the conclusion repeats it; held by tests/test_cli_audit.py.
"""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from vestige.audit import Detection, Snapshot, detect
from vestige.cli.access import exit_with
from vestige.cli.audit.declaration import Declaration
from vestige.cli.audit.group import audit, json_option, seed_option
from vestige.cli.output import SHOWN, announce_if_slow, format_count, list_some, print_json, say
from vestige.errors import StoreError
from vestige.store import StoreSnapshot, open_reader

_UNTESTED = "Nothing to test yet"


@audit.command("store")
@click.argument("stores", nargs=-1, required=True, metavar="STORE...")
@click.option("--stream", "names", multiple=True, help="Audit only this stream; may be repeated.")
@click.option(
    "--level",
    type=float,
    default=0.01,
    show_default=True,
    help="Significance level: largest share of honest streams that may be rejected.",
)
@seed_option
@json_option
def audit_store(stores: tuple[str, ...], names: tuple[str, ...], level: float, seed: int, machine: bool) -> None:
    """Test whether records were kept honestly.

    The report begins with the store's own terms: most policies of Vestige choose which records to keep, and then no
    test can clear them. The test uses the records alone. A sliding window or a random subsample is honest. One STORE
    shows one batch of each stream, which often proves little; several copies of it, taken at least a batch apart, show
    much more. The exit status is 1 if the test rejects a stream as not honest; a stream that chooses by its own terms
    may pass the test, and --json shows which do (declared.chosen).

    \b
    Examples:
      vestige audit store delays.db
      vestige audit store monday.db tuesday.db wednesday.db --stream main
    """  # noqa: D301
    copies = [_read(store) for store in stores]
    _check_names(stores[0], copies, names)
    snapshots, declared, troubles = _gather_snapshots(copies, names)
    counts = {name: sum(bool(snapshot.clock.encoded) for snapshot in seen) for name, seen in snapshots.items()}
    found = {name: detect(seen, seed=seed) for name, seen in snapshots.items() if counts[name]}
    repeated = {name: counts[name] - len(one.batches) for name, one in found.items()}
    rejected = [name for name, one in found.items() if one.rejects(level)]
    if machine:
        facts = {name: {"declared": asdict(declaration)} for name, declaration in declared.items()}
        untested = {"p_value": None, "verdict": f"{_UNTESTED}: it has not closed its first batch."}
        tested = {
            name: {**asdict(one), "p_value": one.p_value, "verdict": one.verdict(level), "repeated": repeated[name]}
            for name, one in found.items()
        }
        print_json({name: fact | tested.get(name, untested) for name, fact in facts.items()})
    else:
        _print_declared(declared)
        _print_tests(found, repeated, level)
        _print_untested([name for name in declared if name not in found])
        _print_conclusion(declared, rejected)
    exit_with(troubles)
    if rejected:
        sys.exit(1)


def _print_declared(declared: dict[str, Declaration]) -> None:
    """Print what the streams declare; those that declare the same, together."""
    said: dict[str, list[str]] = {}
    for name, declaration in declared.items():
        said.setdefault(declaration.text, []).append(name)
    for text, names in said.items():
        who = names[0] if len(names) == 1 else f"each of {len(names):,} streams{list_some(names)}"
        say(f"By the terms of the store, {who} {text}.")


def _print_untested(names: list[str]) -> None:
    """Print the streams that cannot be tested yet."""
    if names:
        what = "it has not closed its" if len(names) == 1 else "they have not closed their"
        say(f"{format_count(len(names), 'stream')}{list_some(names)}: {_UNTESTED.lower()}, since {what} first batch.")


def _print_tests(found: dict[str, Detection], repeated: dict[str, int], level: float) -> None:
    """Print the result of the test, whatever was declared."""
    if not found:
        return
    say("The test, which uses the records alone:")
    for name, one in list(found.items())[:SHOWN]:
        batches = f"{len(one.batches)} {'batch' if len(one.batches) == 1 else 'batches'}"
        kept, rounds = (
            sum(numbers) for numbers in zip(*((b.kept, b.last - b.first + 1) for b in one.batches), strict=True)
        )
        say(f"{name}: {batches}, {kept:,} of {rounds:,} records kept. {one.verdict(level)}")
        if repeated[name]:
            copies = "1 copy" if repeated[name] == 1 else f"{repeated[name]:,} copies"
            say(
                f"{name}: {copies} added nothing, since other copies show these rounds; take copies at least a batch "
                "apart."
            )
    if len(found) > SHOWN:
        say(f"... and {len(found) - SHOWN:,} more; --json prints them all.")


def _print_conclusion(declared: dict[str, Declaration], rejected: list[str]) -> None:
    """Print the last line, which gets quoted: no test clears a stream that chooses by its own terms."""
    chosen = [name for name, declaration in declared.items() if declaration.chosen]
    agreed = [name for name in chosen if name in rejected]
    if chosen:
        verdict = "the test does not clear that"
        if agreed:
            some = f" in {len(agreed):,} of them{list_some(agreed)}, and does not clear the others"
            verdict = f"the test agrees{some if len(agreed) < len(chosen) else ''}"
        say(
            "Conclusion: by its own terms the store chooses which records to keep by their values, in "
            f"{len(chosen):,} of {format_count(len(declared), 'stream')}{list_some(chosen)}; {verdict}."
        )


def _read(store: str) -> StoreSnapshot:
    with announce_if_slow(f"Reading {store} ..."):
        return open_reader(store).snapshot()


def _check_names(store: str, copies: list[StoreSnapshot], names: tuple[str, ...]) -> None:
    there = sorted({name for copy in copies for name in copy.names})
    for name in names:
        if name not in there:
            raise StoreError(f"{store}: there is no stream {name!r}; the store has {', '.join(there[:5]) or 'none'}")


def _gather_snapshots(
    copies: list[StoreSnapshot], names: tuple[str, ...]
) -> tuple[dict[str, list[Snapshot]], dict[str, Declaration], dict[str, str]]:
    """Return the snapshots of each stream, what the newest declares, and what cannot be read."""
    snapshots: dict[str, list[Snapshot]] = {}
    declared: dict[str, Declaration] = {}
    troubles: dict[str, str] = {}
    for copy in copies:
        troubles |= {name: text for name, text in copy.troubles.items() if not names or name in names}
        for name, (terms, state) in copy.streams.items():
            if not names or name in names:
                snapshots.setdefault(name, []).append(Snapshot(state.retained, state.clock))
                declared[name] = Declaration.read(terms)
    return snapshots, declared, troubles
