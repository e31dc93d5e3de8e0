"""The terms of a store as the default: what a run does not say is what the streams in its store were made with.

They are asked for only if the columns or all limits are left out, which would be an error otherwise, so that a command
that is complete means the same with every store.
Guarantee: a run under the terms of its store ends in the same state as one that gives them all; held by
tests/test_cli_store_terms.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import click
from click.core import ParameterSource

from vestige.cli.run_options import RunOptions
from vestige.cli.store_options import StoreOptions
from vestige.errors import NoStoreError, ParameterError, StoreError
from vestige.ingest.names import read_by
from vestige.policies import NamedPolicy
from vestige.serialization import from_dict
from vestige.store import Store, Terms
from vestige.store.terms import DEFAULTS
from vestige.times import format_duration

_LIMITS = ("retention", "notice", "max_age")
_KEPT = ("columns", "metrics")
_BESIDE = {*_LIMITS, *RunOptions.remembered, "sources", "time_column", "subject", "by", "hash_keys", "path", "name"}
_BESIDE |= {"key", "keyring", "if_replaced", "if_moved", "seed", "strict", "machine"}
_BESIDE |= {"query", "cursor", "settle", "follow", "trim"}
"""Options that do not say which statistic is kept, so that they may be given beside that of a store."""


def complete_options(ctx: click.Context, given: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Take what a run does not say from the streams in its store.

    Args:
        ctx: the context of the command.
        given: its options, by parameter.

    Returns:
        The options, with those of the store; and a sentence that names these, empty if there are none.

    Raises:
        ParameterError: the streams of the store do not agree, or an option is given that the store's would override.
        StoreError: the store cannot be read.
    """
    options = dict(given)
    said = {name for name in options if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    is_complete = said.intersection(_KEPT) and said.intersection(_LIMITS)
    if options["path"] is None and "keyring" not in said:
        options["keyring"] = None  # the one of the environment belongs to a store
    if options["path"] is None or is_complete:
        return options, ""
    store = StoreOptions(options["path"], options["key"], options["keyring"])
    streams = _select(_read_terms(store), options["name"])
    if not streams:
        return options, ""
    terms = _find_common(store, streams)
    found = _list_common(store, streams, terms, said)
    if not said.intersection(_KEPT):
        found |= _find_statistic(ctx, store, terms, said)
    added = {name: value for name, value in found.items() if name not in said and value not in (None, (), False)}
    return options | added, _describe(ctx, store, added)


def check_keyed(store: Store, now: Terms) -> None:
    """Check that a run keeps new keys as the runs before it kept theirs, so that none is without its limits or noise.

    Args:
        store: the store.
        now: the terms of this run.

    Raises:
        StoreError: the store has streams of the same columns of keys, and all of them have other terms.
    """
    different = None
    for name, terms in store.iterate_terms():
        if all(terms.about.get(part) == now.about.get(part) for part in ("by", "stream")):
            try:
                terms.check(name, now)
            except StoreError as problem:
                different = different or str(problem)
            else:
                return
    if different is not None:
        raise StoreError(f"{different}; with --by, --stream gives new streams a prefix")


def check_by(store: Store, about: Mapping[str, object], prefix: str | None) -> None:
    """Check that a run has the columns of keys of the runs before it, so that no row is counted in other streams too.

    Args:
        store: the store.
        about: what the streams of this run are made with.
        prefix: what --stream says.

    Raises:
        StoreError: the store has streams of the same --stream with other columns of keys, or without.
    """
    by, name = about.get("by"), prefix or "main"
    prefixes = {prefix} if by is not None else {prefix, None if name == "main" else name}
    keyed = [terms.about for terms in store.list_terms() if terms.about.get("by") is not None]
    known = [told["by"] for told in keyed if told.get("stream") in prefixes]
    with suppress(StoreError):  # a damaged one is reported when it is opened
        known += [None] if store.has(name) and store.terms(name).about.get("by", name) is None else []
    if known and by not in known:
        raise StoreError(
            f"the store was filled {_describe_by(known[0])}, and this run is {_describe_by(by)}, which would count its "
            "rows in other streams once more; run it as before, or give the new streams a name with --stream, or "
            "another store"
        )


def _describe_by(by: object) -> str:
    """The columns of keys as options."""
    columns = [by] if isinstance(by, str) else by if isinstance(by, list) else []
    return f"with {' '.join(f'--by {column}' for column in columns)}" if columns else "without --by"


def _read_terms(store: StoreOptions) -> dict[str, Terms]:
    """The terms of all streams; a damaged one is reported when it is opened."""
    try:
        opened = store.open()
    except NoStoreError:
        return {}
    with opened:
        return dict(opened.iterate_terms())


def _select(streams: Mapping[str, Terms], wanted: str | None) -> dict[str, Terms]:
    """The streams that --stream means: one of that name, or those of keys with that prefix."""
    if wanted is None:
        return dict(streams)
    return {
        name: terms
        for name, terms in streams.items()
        if (name if terms.about.get("by") is None else terms.about.get("stream")) == wanted
    }


def _find_common(store: StoreOptions, streams: Mapping[str, Terms]) -> Terms:
    """The terms that all streams have."""
    (first, terms), *others = streams.items()
    remedy = "name one with --stream, or give --column or --metric and a limit"
    for name, other in others:
        try:
            terms.check(first, other)
        except StoreError:
            raise ParameterError(
                f"{store}: its streams {first!r} and {name!r} have different terms, so there is no default; {remedy}"
            ) from None
    if len(streams) > 1 and terms.about.get("by") is None:
        raise ParameterError(f"{store}: has several streams, {first!r} and {others[0][0]!r} among them; {remedy}")
    return terms


def _list_common(store: StoreOptions, streams: Mapping[str, Terms], terms: Terms, said: set[str]) -> dict[str, Any]:
    """The options of the streams, besides their statistic."""
    about = terms.about
    found = {name: getattr(terms, name) for name in _LIMITS}
    found |= {"time_column": about.get("time"), "subject": about.get("subject")}
    if "by" not in said:
        name = next(iter(streams)) if about.get("by") is None else about.get("stream")
        by = read_by(about)
        found |= {"by": (by,) if isinstance(by, str) else by, "hash_keys": bool(about.get("hash_keys")), "name": name}
    for option in RunOptions.remembered:
        values = [_read_default(each, option) for each in streams.values()]
        if option not in said and values.count(values[0]) < len(values):
            raise ParameterError(
                f"{store}: its streams were made with different values of --{option.replace('_', '-')}; give one"
            )
        found[option] = values[0]
    return found


def _read_default(terms: Terms, option: str) -> object:
    defaults = terms.about.get(DEFAULTS)
    value = defaults.get(option) if isinstance(defaults, Mapping) else None
    return timedelta(seconds=value) if isinstance(value, float) else value


def _find_statistic(ctx: click.Context, store: StoreOptions, terms: Terms, said: set[str]) -> dict[str, Any]:
    """The policy of the streams, and the columns that it is about."""
    for name in sorted(said - _BESIDE):
        option = next(max(param.opts, key=len) for param in ctx.command.params if param.name == name)
        raise ParameterError(f"{option} needs --column or --metric; without, the statistic is that of {store}")
    about, policy = terms.about, from_dict(terms.policy)
    columns, targets = about.get("columns"), about.get("targets")
    if not isinstance(policy.unwrap(), NamedPolicy) or not isinstance(columns, list) or not isinstance(targets, list):
        raise ParameterError(
            f"{store}: its streams were not made by vestige run, so that their columns are not known; give --column or "
            "--metric"
        )
    return {"policy": policy, "columns": tuple(columns), "targets": tuple(targets), "statistic": about["statistic"]}


def _describe(ctx: click.Context, store: StoreOptions, added: Mapping[str, Any]) -> str:
    names = {param.name: max(param.opts, key=len).lstrip("-") for param in ctx.command.params}
    parts = [f"{names[name]} {_format(value)}" for name, value in added.items() if name in names]
    return f"From {store}: {'; '.join(parts)}." if parts else ""


def _format(value: object) -> str:
    if isinstance(value, timedelta):
        return format_duration(value)
    return ", ".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)
