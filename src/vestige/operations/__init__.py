"""Operations on a whole store, in which one stream's trouble is its own."""

from vestige.operations.inbox import process_inbox, send_request
from vestige.operations.removal import forget, remove
from vestige.operations.results import Erasure, ForgetResult, InboxResult, RemoveResult, SweepResult
from vestige.operations.retention import preview, sweep
from vestige.operations.signature import generate_key, sign_receipts, sign_report, verify_receipts, verify_report

__all__ = [
    "Erasure",
    "ForgetResult",
    "InboxResult",
    "RemoveResult",
    "SweepResult",
    "forget",
    "generate_key",
    "preview",
    "process_inbox",
    "remove",
    "send_request",
    "sign_receipts",
    "sign_report",
    "sweep",
    "verify_receipts",
    "verify_report",
]
