"""Answers are read whole or not at all."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from vestige.client.answers import (
    HeldRecords,
    Removal,
    RemovalReceipt,
    RowsTaken,
    ServedStream,
    StreamEstimate,
    read_json,
)
from vestige.client.calls import Reply
from vestige.errors import ServiceError

ESTIMATE = {"key": "DE", "answers": [{"quantity": "spent", "value": 2.0}], "count": 2, "since": 1, "t": 2, "held": 2}
RECEIPT = {"id": "0123456789abcdef", "requested": "2024-01-01T00:00:00+00:00", "due": None, "kept_until": None}


def test_members_that_are_not_known_are_left_out() -> None:
    made = StreamEstimate.from_data(ESTIMATE | {"new": 1, "notes": ["a"]})
    assert (made.value, made.notes, made.key) == (2.0, ("a",), "DE")
    assert ServedStream.from_data({"name": "a", "keys": 1, "t": 2, "held": 2, "seed": 0}).definition == {
        "name": "a",
        "seed": 0,
    }
    receipt = Removal.from_data({"receipts": [RECEIPT], "restarted": 0, "troubles": 0}).receipts[0]
    assert receipt == RemovalReceipt("0123456789abcdef", datetime(2024, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (StreamEstimate, {name: value for name, value in ESTIMATE.items() if name != "t"}),
        (StreamEstimate, ESTIMATE | {"answers": [{"value": 1.0}]}),
        (StreamEstimate, []),
        (ServedStream, "text"),
        (ServedStream, {"name": "a"}),
        (RowsTaken, {"taken": "many", "late": 0, "skipped": 0, "failed": 0}),
        (RemovalReceipt, RECEIPT | {"requested": "yesterday"}),
        (HeldRecords, None),
    ],
)
def test_what_is_not_an_answer_is_an_error(kind: Any, data: object) -> None:
    with pytest.raises(ServiceError, match="use the same Vestige on both sides"):
        kind.from_data(data)


def test_a_body_that_is_not_json_is_an_error() -> None:
    with pytest.raises(ServiceError, match="not that of a Vestige service"):
        read_json(Reply(200, {}, b"<html>canary"))
