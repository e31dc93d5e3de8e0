"""Requests from other processes: the one that holds a store carries them out, or the next one that opens it.

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
from vestige.operations.outcome import Attended, Forgotten, Removed, Swept
from vestige.operations.removal import forget_pseudonyms, remove
from vestige.operations.retention import sweep
from vestige.store import Store, open_reader, open_store
from vestige.store.inbox import Request
from vestige.validation import check_float, show_value

Outcome = Forgotten | Swept | Removed
_KINDS: dict[str, type[Outcome]] = {"forget": Forgotten, "sweep": Swept, "remove": Removed}
_LOOK = 0.1
"""Seconds between two looks for a reply, and at whether the store is free."""


def attend(store: Store) -> Attended:
    """Carry out what other processes have asked for in the inbox of a store.

    Cheap where nothing waits: call it every second while you hold a store, and when you open one for writing. A stream
    that was removed on request cannot write any more; `Store.live` is None then.

    Args:
        store: the store; streams that are open in it are used as they are.

    Returns:
        which requests were attended to, and what of them could not be carried out; a request that cannot be read is
            named and left.

    Raises:
        StoreError: the file cannot be written; the requests stay.
    """
    check_open(store)
    inbox = store.inbox
    if inbox is None:
        return Attended()
    try:
        requests, troubles = inbox.requests()
    except StoreError as problem:  # the folder may be somebody else's: nothing in it is obeyed
        return Attended(troubles={str(inbox.folder): str(problem)})
    for request in requests:
        facts = _carry_out(store, request)
        troubles |= _name_troubles(request, facts)
        store.flush()  # nothing is said to be done that a failed write has left to do
        inbox.reply(request.id, facts)
    inbox.clean()
    return Attended(tuple(request.id for request in requests), troubles)


def _carry_out(store: Store, request: Request) -> dict[str, Any]:
    """What became of a request, as plain data; one that cannot be carried out as it is says why."""
    try:
        return _act(store, request).facts
    except ParameterError as problem:
        return {"problem": str(problem)}


def _name_troubles(request: Request, facts: Mapping[str, Any]) -> dict[str, str]:
    """What could not be carried out of a request, since whoever left it may not come back for its reply."""
    if "problem" in facts:
        return {f"request {request.id} ({request.kind})": f"{facts['problem']}; nothing of it was carried out"}
    return {f"request {request.id} ({request.kind}), stream {name!r}": text for name, text in facts["troubles"].items()}


def _act(store: Store, request: Request) -> Outcome:
    if request.kind == "sweep":
        return sweep(store, request.at)
    if request.kind == "remove":
        return remove(store, request.streams or ())
    return forget_pseudonyms(
        store,
        request.pseudonyms,
        rounds=request.rounds,
        streams=request.streams,
        now=request.now,
        request=request.id,
    )


def ask(
    address: str | Path,
    request: Request,
    *,
    key: str | Path | None = None,
    patience: float,
    tell: Callable[[Attended], object] = lambda _: None,
) -> Outcome | None:
    """Leave a request for the process that holds a store, and wait for its reply.

    If that process ends meanwhile, the request is carried out here.

    Args:
        address: of the store.
        request: what to do.
        key: where the key of the subjects lies.
        patience: seconds to wait.
        tell: called with what became of requests of others that were attended to here on the way.

    Returns:
        what was done; None if nobody has answered yet: the request stays for whoever holds the store next.

    Raises:
        ParameterError: the request cannot be carried out as it is, such as for a stream that is not there.
        StoreError: there is no such store; or it cannot be opened or written, and then the request stays.
    """
    if not isinstance(request, Request):
        raise ParameterError(f"request={show_value(request)} is not a request; pass a vestige.store.inbox.Request")
    patience = check_float("patience", patience, lambda seconds: 0.0 <= seconds < inf, "seconds, 0 or more")
    inbox, until = open_reader(address).inbox, time.monotonic() + patience
    if inbox is None:
        raise StoreError(f"{address}: has no inbox, so that no other process can be asked")
    inbox.leave(request)
    while (facts := inbox.collect(request.id)) is None:
        if time.monotonic() > until:
            return None
        with suppress(StoreBusyError), open_store(address, key=key, create=False) as store:
            others = attend(store)
            tell(replace(others, troubles={k: v for k, v in others.troubles.items() if request.id not in k}))
        time.sleep(_LOOK)
    if "problem" in facts:
        raise ParameterError(facts["problem"])
    return _KINDS[request.kind].parse(facts)
