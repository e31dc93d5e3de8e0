"""`vestige audit store`: what a store declares of itself, then whether what it holds was chosen honestly."""

from __future__ import annotations

from dataclasses import asdict

import click

from vestige.audit import Detection, Snapshot, detect
from vestige.cli.access import end_with
from vestige.cli.auditing.declaration import Declaration
from vestige.cli.auditing.group import audit, json_option, seed_option
from vestige.cli.output import SHOWN, announced, as_json, count, list_some, say
from vestige.errors import StoreError
from vestige.store.copies import Copy, copy_store


@audit.command("store")
@click.argument("stores", nargs=-1, required=True, metavar="STORE...")
@click.option("--stream", "names", multiple=True, help="Only this stream; may be given again.")
@click.option("--level", type=float, default=0.01, show_default=True, help="How often honest retention may be accused.")
@seed_option
@json_option
def audit_store(stores: tuple[str, ...], names: tuple[str, ...], level: float, seed: int, machine: bool) -> None:
    """Say what a store declares, and how improbable what it holds is under honest retention.

    First come the store's own terms: most policies of Vestige choose which records stay, and then no test can clear
    them. The test after that looks at the records alone. Honest is a window that keeps all it may, or a subsample by
    chance. One STORE shows one batch of each stream, which often proves little; several copies of it, taken at least a
    batch apart, show much more.

    \b
    Examples:
      vestige audit store delays.db
      vestige audit store monday.db tuesday.db wednesday.db --stream main
    """  # noqa: D301
    copies = [_read(store) for store in stores]
    _check_names(stores[0], copies, names)
    snapshots, declared, troubles = _gathered(copies, names)
    found = {
        name: detect(seen, seed=seed)
        for name, seen in snapshots.items()
        if any(snapshot.clock.encoded for snapshot in seen)
    }
    if machine:
        facts = {name: {"declared": asdict(declaration)} for name, declaration in declared.items()}
        tested = {name: {**asdict(one), "p": one.p, "verdict": one.verdict(level)} for name, one in found.items()}
        as_json({name: fact | tested.get(name, {}) for name, fact in facts.items()})
    else:
        _show_declared(declared)
        _show_found(found, level)
        _show_conclusion(declared)
    end_with(troubles)


def _show_declared(declared: dict[str, Declaration]) -> None:
    """What the streams say of themselves; those that say the same, together."""
    said: dict[str, list[str]] = {}
    for name, declaration in declared.items():
        said.setdefault(declaration.text, []).append(name)
    for text, names in said.items():
        who = names[0] if len(names) == 1 else f"each of {len(names):,} streams{list_some(names)}"
        say(f"By the terms of the store, {who} {text}.")


def _show_found(found: dict[str, Detection], level: float) -> None:
    """What the test says of the records, whatever was declared."""
    if not found:
        say("Nothing to test yet: no stream has closed its first batch.")
        return
    say("The test, which looks at the records alone:")
    for name, one in list(found.items())[:SHOWN]:
        batches = f"{len(one.batches)} {'batch' if len(one.batches) == 1 else 'batches'}"
        kept, rounds = (
            sum(numbers) for numbers in zip(*((b.kept, b.last - b.first + 1) for b in one.batches), strict=True)
        )
        say(f"{name}: {batches}, {kept:,} of {rounds:,} records kept. {one.verdict(level)}")
    if len(found) > SHOWN:
        say(f"... and {len(found) - SHOWN:,} more; --json prints them all.")


def _show_conclusion(declared: dict[str, Declaration]) -> None:
    """The last line, since that is what gets quoted: no test clears a stream that chooses by its own word."""
    chosen = [name for name, declaration in declared.items() if declaration.chosen]
    if chosen:
        say(
            "Conclusion: by its own terms the store chooses which records stay by what they hold, in "
            f"{len(chosen):,} of {count(len(declared), 'stream')}{list_some(chosen)}; the test does not clear that."
        )


def _read(store: str) -> Copy:
    with announced(f"Reading {store} ..."):
        return copy_store(store)


def _check_names(store: str, copies: list[Copy], names: tuple[str, ...]) -> None:
    there = sorted({name for copy in copies for name in copy.names})
    for name in names:
        if name not in there:
            raise StoreError(f"{store}: there is no stream {name!r}; there is {', '.join(there[:5]) or 'none'}")


def _gathered(
    copies: list[Copy], names: tuple[str, ...]
) -> tuple[dict[str, list[Snapshot]], dict[str, Declaration], dict[str, str]]:
    """What the copies show of each stream, what the newest of them declares, and what cannot be read."""
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
