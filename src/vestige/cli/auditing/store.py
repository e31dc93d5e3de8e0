"""`vestige audit store`: whether what a store holds was chosen honestly."""

from __future__ import annotations

from dataclasses import asdict

import click

from vestige.audit import Snapshot, detect
from vestige.cli.auditing.group import audit, json_option, seed_option
from vestige.cli.output import announced, as_json, say
from vestige.errors import StoreError
from vestige.store import read_store

_SHOWN = 20


@audit.command("store")
@click.argument("stores", nargs=-1, required=True, metavar="STORE...")
@click.option("--stream", "names", multiple=True, help="Only this stream; may be given again.")
@click.option("--level", type=float, default=0.01, show_default=True, help="How often honest retention may be accused.")
@seed_option
@json_option
def audit_store(stores: tuple[str, ...], names: tuple[str, ...], level: float, seed: int, machine: bool) -> None:
    """Say how improbable what a store holds is under honest retention.

    Honest is a window that keeps all it may, or a subsample by chance. One STORE shows one batch of each stream, which
    often proves little; several copies of it, taken at least a batch apart, show much more.

    \b
    Examples:
      vestige audit store delays.db
      vestige audit store monday.db tuesday.db wednesday.db --stream main
    """  # noqa: D301
    found = {}
    for name, snapshots in _snapshots(stores, names).items():
        if any(snapshot.clock.encoded for snapshot in snapshots):
            found[name] = detect(snapshots, seed=seed)
    if machine:
        as_json({name: {**asdict(one), "p": one.p, "verdict": one.verdict(level)} for name, one in found.items()})
        return
    if not found:
        say("Nothing to look at yet: no stream has closed its first batch.")
    for name, one in list(found.items())[:_SHOWN]:
        batches = f"{len(one.batches)} {'batch' if len(one.batches) == 1 else 'batches'}"
        kept, rounds = (
            sum(numbers) for numbers in zip(*((b.kept, b.last - b.first + 1) for b in one.batches), strict=True)
        )
        say(f"{name}: {batches}, {kept:,} of {rounds:,} records kept. {one.verdict(level)}")
    if len(found) > _SHOWN:
        say(f"... and {len(found) - _SHOWN:,} more; --json prints them all.")


def _snapshots(stores: tuple[str, ...], names: tuple[str, ...]) -> dict[str, list[Snapshot]]:
    """What the copies show of each stream."""
    made: dict[str, list[Snapshot]] = {}
    for store in stores:
        with announced(f"Reading {store} ..."):
            there = read_store(store)
        for name, (_, state) in there.items():
            made.setdefault(name, []).append(Snapshot(state.retained, state.clock))
    for name in names:
        if name not in made:
            raise StoreError(
                f"{stores[0]}: there is no stream {name!r}; there is {', '.join(list(made)[:5]) or 'none'}"
            )
    return {name: snapshots for name, snapshots in made.items() if not names or name in names}
