"""What the commands on a store share: options, the streams that were asked for, and reports of problems with streams.

A command that only reads looks up the streams that were named, or takes a snapshot of all, and releases the store at
once, so that it never delays an erasure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice

import click

from vestige.cli.exit_status import end
from vestige.cli.group import parse_time
from vestige.cli.output import SHOWN, announce_if_slow, warn
from vestige.cli.store_options import StoreOptions
from vestige.errors import StoreBusyError, StoreError, VestigeError
from vestige.ingest.names import find_hashed
from vestige.operations import InboxResult
from vestige.store import Ledger, Reader, State, StoreSnapshot, Terms
from vestige.store.snapshot import UNNAMED
from vestige.store.stored_streams import StoredStreams

streams_option = click.option(
    "--stream", "names", multiple=True, help="Name of a stream to use; may be repeated.  [default: all]"
)
json_option = click.option("--json", "machine", is_flag=True, help="Print JSON instead of text.")
at_option = click.option(
    "--at",
    type=parse_time,
    metavar="TIME",
    help="Time as of which limits in time are checked, in ISO 8601.  [default: the machine's clock]",
)

_SUGGESTED = 5
"""Number of streams that are named when another was asked for."""
_MANY = 1_000
"""Number of streams from which a copy of all of them is faster than one look-up for each."""

dry_run_option = click.option("--dry-run", is_flag=True, help="Only show what would be erased; change nothing.")


def hash_names(reader: Reader, names: Sequence[str]) -> tuple[str, ...]:
    """The names as they are in the store: hashed, if it keeps keys as hashes."""
    known = reader.list_terms() if names else ()
    if not any(terms.about.get("hash_keys") for terms in known):
        return tuple(names)
    others = [name for name in names if _has(reader, name)]  # such as damaged ones
    hashed = find_hashed(known, partial(_has, reader), reader.pseudonym, [name for name in names if name not in others])
    return (*others, *hashed)


def _has(reader: Reader, name: str) -> bool:
    """Whether there is a stream, or a row that is described so; not known, and so not there, if its row is damaged."""
    try:
        return reader.has(name)
    except StoreBusyError:
        raise
    except StoreError:
        return False


def choose_streams(reader: Reader, names: Sequence[str], store: StoreOptions) -> tuple[str, ...]:
    """The streams that were asked for, each looked up by its name."""
    chosen = tuple(dict.fromkeys(hash_names(reader, names)))
    for name in chosen:
        if not _has(reader, name):
            there, unnamed = reader.survey(limit=_SUGGESTED + 1)
            known = ", ".join(there[:_SUGGESTED]) + (", ..." if len(there) > _SUGGESTED else "")
            lost = f"; and {', '.join(map(repr, unnamed))}, which may be this one" if unnamed else ""
            raise StoreError(f"{store}: there is no stream {name!r}; there is {known or 'none yet'}{lost}")
    return chosen


def read_snapshot(store: StoreOptions, names: Sequence[str] = (), *, has_ledger: bool = False) -> StoreSnapshot:
    """The streams that were asked for, without reading others; all at one moment if none was."""
    reader = store.open_reader()
    with announce_if_slow(f"Reading {store} ..."):
        if not names:
            return reader.snapshot()
        copy = read_streams(reader, choose_streams(reader, names, store))
        return add_ledger(reader, copy) if has_ledger else copy


def read_streams(reader: Reader, names: Sequence[str]) -> StoreSnapshot:
    """These streams, of which those that are there no more are left out; without the ledger."""
    if len(names) > _MANY:
        return replace(reader.snapshot().select(tuple(names)), ledger=Ledger(), ledger_trouble="")
    streams, troubles = dict[str, tuple[Terms, State]](), dict[str, str]()
    for name in names:
        try:
            found = reader.read_stream(name)
        except StoreBusyError:
            raise
        except StoreError as problem:
            troubles[name] = str(problem)
        else:
            if found is not None:
                streams[name] = found
            elif _has(reader, name):
                troubles[name] = UNNAMED
    return StoreSnapshot(streams, troubles)


def add_ledger(reader: Reader, copy: StoreSnapshot) -> StoreSnapshot:
    """The same streams with the ledger, or with what is wrong with it."""
    try:
        return replace(copy, ledger=reader.read_ledger())
    except StoreBusyError:
        raise
    except StoreError as problem:
        return replace(copy, ledger_trouble=str(problem))


def list_terms(copy: StoreSnapshot) -> list[Terms]:
    """The different terms of the streams of a snapshot."""
    if isinstance(copy.streams, StoredStreams):
        return [terms for terms, _ in copy.streams.list_families()]
    return list({terms.text: terms for terms, _ in copy.streams.values()}.values())


def exit_with(troubles: Mapping[str, str], attended: InboxResult | None = None) -> None:
    """Report problems with streams and requests, and end the command if there are any."""
    for name, text in islice(troubles.items(), SHOWN):
        warn(f"stream {name!r}: {text}")
    if len(troubles) > SHOWN:
        warn(f"... and {len(troubles) - SHOWN:,} more streams cannot be read or have problems")
    _name(attended.troubles if attended else {})
    end(has_error=bool(troubles or (attended and attended.troubles)))


@contextmanager
def report_anyway(requests: Mapping[str, str]) -> Iterator[None]:
    """If an error follows, first report which requests of other processes failed: nobody else would."""
    try:
        yield
    except VestigeError:
        _name(requests)
        raise


def _name(requests: Mapping[str, str]) -> None:
    for name, text in requests.items():
        warn(f"{name}: {text}")
