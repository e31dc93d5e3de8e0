"""Act on a store directly, or through the inbox of the process that holds it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import click

from vestige.cli.access import report_anyway
from vestige.cli.group import parse_duration
from vestige.cli.output import announce_if_slow, warn
from vestige.cli.store_options import StoreOptions
from vestige.errors import StoreBusyError
from vestige.operations import ForgetResult, InboxResult, RemoveResult, SweepResult, process_inbox, send_request
from vestige.store import Store
from vestige.store.inbox import Request

Done = TypeVar("Done", ForgetResult, SweepResult, RemoveResult)

wait_option = click.option(
    "--wait",
    type=parse_duration,
    default="10s",
    show_default=True,
    metavar="DURATION",
    help="Time to wait for a reply if another process holds the store.",
)


def perform(
    store: StoreOptions,
    kind: type[Done],
    act: Callable[[Store], Done],
    request: Callable[[], Request],
    *,
    wait: timedelta,
    create: bool = False,
) -> tuple[Done, InboxResult]:
    """Act on a store, or ask the process that holds it to; the result, and that of other requests on the way.

    A store without an inbox is one whose streams are lent by those who hold them, which are waited for.
    """
    try:
        opened = store.open(create=create, wait=wait)
    except StoreBusyError:
        if store.open_reader().inbox is None:
            raise
        return _ask_holder(store, kind, request(), wait)
    with announce_if_slow(f"Reading {store} ..."), opened:
        attended = process_inbox(opened)
        with report_anyway(attended.troubles):
            return act(opened), attended


def _ask_holder(store: StoreOptions, kind: type[Done], request: Request, wait: timedelta) -> tuple[Done, InboxResult]:
    seconds, others = wait.total_seconds(), dict[str, str]()
    warn(f"{store}: asking the process that holds it; waiting {seconds:g} s for its reply ...")
    with report_anyway(others):
        done = send_request(
            store.address,
            request,
            key=store.key,
            keyring=store.keyring,
            patience=seconds,
            tell=lambda attended: others.update(attended.troubles),
        )
        if done is None:
            raise StoreBusyError(
                f"{store}: the process that holds it did not reply within {seconds:g} s. Request {request.id} remains "
                f"for it, or for the next command that changes the store; vestige receipts {store} shows the result"
            )
    assert isinstance(done, kind)  # noqa: S101  # a reply is of the kind that was asked for
    return done, InboxResult(troubles=others)
