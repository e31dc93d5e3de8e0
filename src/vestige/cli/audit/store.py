"""`vestige audit store`: what a store declares about itself, then whether its records were chosen honestly.

Guarantee: the declaration comes first and the conclusion repeats it; held by tests/test_cli_audit.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

import click

from vestige.audit import Detection, Snapshot, detect
from vestige.cli.access import exit_with
from vestige.cli.audit.declaration import Declaration
from vestige.cli.audit.group import audit, json_option, seed_option
from vestige.cli.exit_status import end
from vestige.cli.output import SHOWN, announce_if_slow, format_count, list_some, print_json, say, show_progress, warn
from vestige.cli.store_options import StoreOptions, keyring_option
from vestige.errors import StoreError
from vestige.operations.entry import FEW
from vestige.random.generators import make_generator
from vestige.store import StoreSnapshot, Terms
from vestige.store.stored_streams import StoredStreams

SAMPLE = 1_000
"""Number of streams that are tested of many."""
_UNTESTED = "Nothing to test yet"


@audit.command("store")
@click.argument("stores", nargs=-1, required=True, metavar="STORE...")
@keyring_option
@click.option("--stream", "names", multiple=True, help="Audit only this stream; may be repeated.")
@click.option(
    "--level",
    type=float,
    default=0.01,
    show_default=True,
    help="Significance level: largest share of honest streams that may be rejected.",
)
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    metavar="N",
    help="Test only N streams, chosen at random.  "
    f"[default: all, or {SAMPLE:,} in a store of more than {FEW:,} streams]",
)
@seed_option
@json_option
def audit_store(
    stores: tuple[str, ...],
    keyring: str | None,
    names: tuple[str, ...],
    level: float,
    sample: int | None,
    seed: int,
    machine: bool,
) -> None:
    """Test whether records were kept honestly.

    The report begins with the store's own terms: most policies of Vestige choose which records to keep, and then no
    test can clear them. The test uses the records alone. A sliding window or a random subsample is honest. One STORE
    shows one batch of each stream, which often proves little; several copies of it, taken at least a batch apart, show
    much more. The exit status is 1 if the test rejects a stream as not honest; a stream that chooses by its own terms
    may pass the test, and --json shows which do (declared.chosen).

    The test takes some milliseconds for a stream. Of many streams a sample is tested, and the report says so.

    \b
    Examples:
      vestige audit store delays.db
      vestige audit store monday.db tuesday.db wednesday.db --stream main
      vestige audit store shops.db --sample 10000
    """  # noqa: D301
    opened = [StoreOptions(store, keyring=keyring) for store in stores]
    copies = [_read(store) for store in opened]
    there = sorted({name for copy in copies for name in copy.streams})
    _check_names(opened[0], copies, names)
    wanted = [name for name in there if not names or name in names]
    tested = _choose(wanted, sample, seed)
    declared = _read_declarations(copies, set(wanted))
    found, repeated = _test(copies, tested, seed)
    rejected = [name for name, one in found.items() if one.rejects(level)]
    if machine:
        if len(tested) < len(wanted):
            warn(_describe_sample(len(tested), len(wanted)))
        _print_facts({name: declared[name] for name in tested}, found, repeated, level)
    else:
        _print_declared(declared)
        if len(tested) < len(wanted):
            say(_describe_sample(len(tested), len(wanted)))
        _print_tests(found, repeated, level)
        _print_untested([name for name in tested if name not in found])
        _print_conclusion(declared, rejected)
    exit_with({name: text for copy in copies for name, text in copy.troubles.items() if not names or name in names})
    end(has_finding=bool(rejected))


def _choose(names: list[str], sample: int | None, seed: int) -> list[str]:
    """The streams to test: all, or some that are chosen at random."""
    size = (SAMPLE if len(names) > FEW else len(names)) if sample is None else sample
    if size >= len(names):
        return names
    chosen = make_generator(seed).choice(len(names), size, replace=False)
    return [names[place] for place in sorted(chosen.tolist())]


def _describe_sample(tested: int, streams: int) -> str:
    return f"Tested: {tested:,} of {streams:,} streams, chosen at random; --sample tests more."


def _test(copies: list[StoreSnapshot], names: list[str], seed: int) -> tuple[dict[str, Detection], dict[str, int]]:
    """Test streams that have closed a batch, one after the other; and how many copies of each add nothing."""
    found, repeated = dict[str, Detection](), dict[str, int]()
    with show_progress("Testing") as tell:
        for place, name in enumerate(names):
            known = [copy.streams[name][1] for copy in copies if name in copy.streams]
            closed = sum(bool(state.clock.encoded) for state in known)
            if closed:
                found[name] = detect([Snapshot(state.retained, state.clock) for state in known], seed=seed)
                repeated[name] = closed - len(found[name].batches)
            tell((place + 1) / len(names))
    return found, repeated


def _print_facts(
    declared: dict[str, Declaration], found: dict[str, Detection], repeated: dict[str, int], level: float
) -> None:
    facts = {name: {"declared": asdict(declaration)} for name, declaration in declared.items()}
    untested = {"p_value": None, "verdict": f"{_UNTESTED}: it has not closed its first batch."}
    tested = {
        name: {**asdict(one), "p_value": one.p_value, "verdict": one.verdict(level), "repeated": repeated[name]}
        for name, one in found.items()
    }
    print_json({name: fact | tested.get(name, untested) for name, fact in facts.items()})


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
    agreed = [name for name in rejected if declared[name].chosen]
    if chosen:
        verdict = "the test does not clear that"
        if agreed:
            some = f" in {len(agreed):,} of them{list_some(agreed)}, and does not clear the others"
            verdict = f"the test agrees{some if len(agreed) < len(chosen) else ''}"
        say(
            "Conclusion: by its own terms the store chooses which records to keep by their values, in "
            f"{len(chosen):,} of {format_count(len(declared), 'stream')}{list_some(chosen)}; {verdict}."
        )


def _read(store: StoreOptions) -> StoreSnapshot:
    with announce_if_slow(f"Reading {store} ..."):
        return store.open_reader().snapshot()


def _check_names(store: StoreOptions, copies: list[StoreSnapshot], names: tuple[str, ...]) -> None:
    there = sorted({name for copy in copies for name in copy.names})
    for name in names:
        if name not in there:
            raise StoreError(f"{store}: there is no stream {name!r}; the store has {', '.join(there[:5]) or 'none'}")


def _read_declarations(copies: list[StoreSnapshot], wanted: set[str]) -> dict[str, Declaration]:
    """What the newest copy of each stream declares, in the order of names."""
    declared: dict[str, Declaration] = {}
    for copy in copies:
        for terms, names in _list_families(copy):
            said = Declaration.read(terms)
            declared |= {name: said for name in names if name in wanted}
    return dict(sorted(declared.items()))


def _list_families(copy: StoreSnapshot) -> Iterator[tuple[Terms, Sequence[str]]]:
    """Terms, and the streams that have them."""
    if isinstance(copy.streams, StoredStreams):
        yield from copy.streams.list_families()
    else:
        yield from ((terms, [name]) for name, (terms, _) in copy.streams.items())
