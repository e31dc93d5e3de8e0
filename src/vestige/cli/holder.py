"""Act on a store, or ask the process that holds it to act: through its inbox, and by its reply."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import click

from vestige.cli.access import named_anyway
from vestige.cli.group import duration
from vestige.cli.output import announced, warn
from vestige.errors import StoreBusyError
from vestige.operations import Attended, Forgotten, Removed, Swept, ask, attend
from vestige.store import Store, open_store
from vestige.store.inbox import Request

Done = TypeVar("Done", Forgotten, Swept, Removed)

wait_option = click.option(
    "--wait",
    type=duration,
    default="10s",
    show_default=True,
    metavar="DURATION",
    help="How long to wait for the reply of another process that holds the store.",
)


def perform(
    store: str,
    kind: type[Done],
    act: Callable[[Store], Done],
    request: Callable[[], Request],
    *,
    wait: timedelta,
    key: str | None = None,
) -> tuple[Done, Attended]:
    """Act on a store, or have the process act that holds it; and what else was carried out on the way."""
    try:
        opened = open_store(store, key=key, create=False)
    except StoreBusyError:
        return _ask_holder(store, kind, request(), wait, key)
    with announced(f"Looking through {store} ..."), opened:
        attended = attend(opened)
        with named_anyway(attended.troubles):
            return act(opened), attended


def _ask_holder(
    store: str, kind: type[Done], request: Request, wait: timedelta, key: str | None
) -> tuple[Done, Attended]:
    seconds, others = wait.total_seconds(), dict[str, str]()
    warn(f"{store}: another process holds it and is asked to do this; waiting {seconds:g} s for its reply ...")
    with named_anyway(others):
        done = ask(store, request, key=key, patience=seconds, tell=lambda attended: others.update(attended.troubles))
        if done is None:
            raise StoreBusyError(
                f"{store}: the process that holds it has not answered in {seconds:g} s. Request {request.id} is left "
                f"for it, or for the next command that changes the store; vestige receipts {store} shows what was "
                "carried out"
            )
    assert isinstance(done, kind)  # noqa: S101  # a reply is of the kind that was asked for
    return done, Attended(troubles=others)
