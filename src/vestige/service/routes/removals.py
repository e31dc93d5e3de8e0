"""Paths of the whole store: removal requests and their receipts, sweeps, verification.

Guarantee: a receipt is the same whether records were held or not, and a request that is sent again with its
Idempotency-Key is carried out once; held by tests/service/test_removals.py.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request

from vestige.errors import ParameterError
from vestige.operations import ForgetResult, sweep
from vestige.operations.removal import check_references, forget_pseudonyms
from vestige.service import models
from vestige.service.access import allow, find_holder
from vestige.service.engine import Engine
from vestige.service.events import Events
from vestige.service.problems import RefusalError
from vestige.store import Receipt
from vestige.times import wall_clock

PAGE = 1_000
"""Largest number of receipts in one page."""


def make_removal_routes(engine: Engine, events: Events) -> APIRouter:
    """Make the routes.

    Args:
        engine: the engine.
        events: where removals are told of.

    Returns:
        The routes.
    """
    routes, verification = APIRouter(prefix="/v1"), asyncio.Lock()

    @routes.post("/removals", response_model=models.Removals, **allow("erase"))
    async def request_removals(
        body: models.RemovalRequest,
        request: Request,
        idempotency_key: Annotated[
            str | None,
            Header(
                min_length=1,
                max_length=255,
                pattern="^[!-~]+$",
                description="A new text for each request; the same request that is sent again with it has the same "
                "receipts, and another one has its own.",
            ),
        ] = None,
    ) -> dict[str, Any]:
        """Request that the records of people leave all streams; a receipt for each of them."""
        references = _list_references(body)
        done = await asyncio.wrap_future(engine.submit(lambda: _forget(engine, body, references, idempotency_key)))
        events.tell("removal", {"receipts": len(done.receipts), "now": body.now})
        return {
            "receipts": [show_receipt(None, receipt) for receipt in done.receipts],
            "restarted": len(done.restarted),
            "troubles": len(done.troubles),
            "unknown": list(done.unknown) if find_holder(request).allows("audit") else None,
        }

    @routes.get("/receipts", response_model=models.Receipts, **allow("read", "erase", "audit"))
    def list_receipts(
        after: Annotated[str | None, Query(pattern="^[0-9a-f]{16}$", description="Id of the receipt before.")] = None,
        limit: Annotated[int, Query(ge=1, le=PAGE)] = 100,
        *,
        newest: Annotated[bool, Query(description="Whether the newest request comes first.")] = False,
    ) -> dict[str, Any]:
        """List receipts in the order of the requests, a page at a time."""
        with engine.read():
            given = engine.store.read_receipts().find_receipts(wall_clock())
        given = given[::-1] if newest else given
        start = 0
        if after is not None:
            start = next((place for place, (_, each) in enumerate(given, 1) if each.id == after), -1)
            if start < 0:
                raise RefusalError(404, "after is not the id of a receipt that is kept; begin with the first page")
        page = given[start : start + limit]
        has_more = start + limit < len(given)
        return {
            "receipts": [show_receipt(*each) for each in page],
            "total": len(given),
            "next": page[-1][1].id if has_more else None,
        }

    @routes.post("/sweep", response_model=models.Sweep, **allow("erase"))
    async def sweep_store(*, dry_run: bool = False) -> dict[str, Any]:
        """Erase what is due now; the service itself does so all the time."""
        done = await asyncio.wrap_future(engine.submit(lambda: sweep(engine.store, dry_run=dry_run)))
        if done.erased and not dry_run:
            events.tell("erased", {"records": done.erased})
        return {
            "dry_run": dry_run,
            "erased": done.erased,
            "undecided": done.undecided,
            "restarted": len(done.restarted),
            "closed": sum(erasure.closed for erasure in done.streams.values()),
            "troubles": len(done.troubles),
            "tidy": done.tidy,
        }

    @routes.post("/verify", response_model=models.Verification, **allow("audit"))
    async def verify_store() -> dict[str, Any]:
        """Check that nothing is left in the store that should be gone; rows are taken meanwhile."""
        async with verification:  # each copies the store
            findings = await asyncio.to_thread(engine.verify)
        return {"ok": not findings, "findings": list(findings)}

    return routes


def _list_references(body: models.RemovalRequest) -> tuple[str | None, ...]:
    if body.reference is not None and body.references is not None:
        raise RefusalError(422, "reference and references are both given; give one of them")
    given = body.references if body.reference is None else [body.reference] * len(body.subjects)
    try:
        return check_references(given, body.subjects)
    except ParameterError as problem:
        raise RefusalError(422, f"{problem}; nothing was requested") from None


def _forget(
    engine: Engine, body: models.RemovalRequest, references: tuple[str | None, ...], key: str | None
) -> ForgetResult:
    store = engine.store
    pseudonyms = [store.pseudonym(subject) for subject in body.subjects]
    parts = ("removal", key or "", str(body.now), *(reference or "" for reference in references), *pseudonyms)
    request = None if key is None else store.pseudonym("\0".join(parts))  # else another's receipt would answer
    return forget_pseudonyms(store, pseudonyms, now=body.now, request=request, references=references)


def show_receipt(stream: str | None, receipt: Receipt) -> dict[str, object]:
    """Show a receipt.

    Args:
        stream: the stream that has given it; None for one of the whole store.
        receipt: the receipt.

    Returns:
        Plain data.
    """
    return {**receipt.to_dict(), "stream": stream}
