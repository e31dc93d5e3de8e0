"""A client of `vestige serve`, whose retries cannot count a row twice; `AsyncClient` is the same for asyncio."""

from vestige.client.answers import (
    Answer,
    Event,
    HeldRecords,
    Removal,
    RemovalReceipt,
    RowsTaken,
    ServedStream,
    StreamEstimate,
    Sweep,
    Verification,
)
from vestige.client.clients import AsyncClient, Client

__all__ = [
    "Answer",
    "AsyncClient",
    "Client",
    "Event",
    "HeldRecords",
    "Removal",
    "RemovalReceipt",
    "RowsTaken",
    "ServedStream",
    "StreamEstimate",
    "Sweep",
    "Verification",
]
