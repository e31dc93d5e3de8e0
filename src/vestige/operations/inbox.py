"""Requests from other processes: the process that holds a store carries them out, or the next one that opens it.

Guarantee: a request is carried out once, whichever side crashes at whichever step; held by
tests/operations/test_inbox.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from vestige.errors import ParameterError, StoreBusyError, StoreError
from vestige.operations.entry import check_open
from vestige.operations.removal import forget_lines, forget_pseudonyms, remove
from vestige.operations.results import ForgetResult, InboxResult, RemoveResult, SweepResult
from vestige.operations.retention import sweep
from vestige.store import Keyring, Store, open_reader, open_store
from vestige.store.address import show_address
from vestige.store.inbox import Request
from vestige.validation import check_float, show_value

Outcome = ForgetResult | SweepResult | RemoveResult
_KINDS: dict[str, type[Outcome]] = {"forget": ForgetResult, "sweep": SweepResult, "remove": RemoveResult}
_LOOK = 0.1
"""Seconds between two looks for a reply, and at whether the store is free."""


def process_inbox(store: Store) -> InboxResult:
    """Carry out the requests in the inbox of a store.

    This is cheap if no request is waiting: call it every second while you hold a store, and when you open one for
    writing. A stream that was removed by a request cannot write any more; `Store.live` then returns None.

    Args:
        store: the store; streams that are open in it are used as they are.

    Returns:
        The requests that were processed, and what could not be carried out; a request that cannot be read is named and
        left as it is.

    Raises:
        StoreError: the store cannot be written; the requests stay.

    Example:
        >>> from vestige import open_store
        >>> process_inbox(open_store("memory:")).requests
        ()
    """
    check_open(store)
    store.lend()
    inbox = store.inbox
    if inbox is None:
        return InboxResult()
    try:
        requests, troubles = inbox.requests()
    except StoreError as problem:  # somebody else may have created the folder: its requests are not trusted
        return InboxResult(troubles={str(inbox.folder): str(problem)})
    for request in requests:
        facts = _carry_out(store, request)
        troubles |= _name_troubles(request, facts)
        store.flush()  # a request is only confirmed once it is durable
        inbox.reply(request.id, facts)
    inbox.clean()
    return InboxResult(tuple(request.id for request in requests), troubles)


def _carry_out(store: Store, request: Request) -> dict[str, Any]:
    """The result of a request as plain data; the reason if it cannot be carried out."""
    try:
        return _act(store, request).to_dict()
    except ParameterError as problem:
        return {"problem": str(problem)}


def _name_troubles(request: Request, facts: Mapping[str, Any]) -> dict[str, str]:
    """What could not be carried out, because whoever left the request may not collect its reply."""
    if "problem" in facts:
        return {f"request {request.id} ({request.kind})": f"{facts['problem']}; nothing of it was carried out"}
    return {f"request {request.id} ({request.kind}), stream {name!r}": text for name, text in facts["troubles"].items()}


def _act(store: Store, request: Request) -> Outcome:
    if request.kind == "sweep":
        return sweep(store, request.at)
    if request.kind == "remove":
        return remove(store, request.streams or ())
    if request.marks is not None:
        return forget_lines(
            store,
            request.pseudonyms,
            request.marks,
            request.references or (None,) * len(request.marks),
            is_last=request.is_last,
            keep_receipts=request.keep_receipts,
        )
    return forget_pseudonyms(
        store,
        request.pseudonyms,
        rounds=request.rounds,
        streams=request.streams,
        now=request.now,
        request=request.id,
        references=request.references,
        keep_receipts=request.keep_receipts,
    )


def send_request(
    address: str | Path,
    request: Request,
    *,
    key: str | Path | None = None,
    keyring: str | Path | Keyring | None = None,
    patience: float,
    tell: Callable[[InboxResult], object] = lambda _: None,
) -> Outcome | None:
    """Leave a request for the process that holds a store, and wait for its reply.

    If that process ends meanwhile, the request is carried out here.

    Args:
        address: the address of the store.
        request: what to do.
        key: the file with the key of the subjects; default: beside the store.
        keyring: the keyring that the store is sealed with, or its address; default: none.
        patience: seconds to wait.
        tell: called with the results of other requests that were processed here on the way.

    Returns:
        The result; None if there is no reply yet: the request stays for whoever holds the store next.

    Raises:
        ParameterError: the request is not valid, for example because it names a stream that does not exist.
        StoreError: there is no such store; or it cannot be opened or written, and then the request stays.

    Example:
        >>> import tempfile
        >>> from vestige import open_store
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     open_store(folder + "/visits.db").close()
        ...     print(send_request(folder + "/visits.db", Request("sweep"), patience=10.0).erased)
        0
    """
    if not isinstance(request, Request):
        raise ParameterError(f"request={show_value(request)} is not a request; pass a vestige.store.inbox.Request")
    patience = check_float("patience", patience, lambda seconds: 0.0 <= seconds < inf, "seconds, 0 or more")
    inbox, until = open_reader(address, key=key, keyring=keyring).inbox, time.monotonic() + patience
    if inbox is None:
        raise StoreError(f"{show_address(address)}: has no inbox, so that no other process can be asked")
    inbox.leave(request)
    while (facts := inbox.collect(request.id)) is None:
        if time.monotonic() > until:
            return None
        with suppress(StoreBusyError), open_store(address, key=key, keyring=keyring, create=False) as store:
            others = process_inbox(store)
            tell(replace(others, troubles={k: v for k, v in others.troubles.items() if request.id not in k}))
        time.sleep(_LOOK)
    if "problem" in facts:
        raise ParameterError(facts["problem"])
    return _KINDS[request.kind].from_dict(facts)
