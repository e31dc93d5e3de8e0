"""Refusals of the service, as problem details (RFC 9457) that name a parameter, a limit and a remedy, never a value.

Guarantee: no answer has a value of a row, a key of a request or a subject; held by tests/service/test_app.py.
"""

from __future__ import annotations

from http import HTTPStatus

RETRY_SECONDS = 1
"""Seconds after which a request that was refused for a while should be sent again."""


class RefusalError(Exception):
    """A request that is refused.

    Args:
        status: the status of HTTP.
        detail: a sentence without values.
        headers: more headers of the answer.
    """

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers or {}
        if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
            self.headers.setdefault("Retry-After", str(RETRY_SECONDS))

    def to_data(self) -> dict[str, object]:
        """Return the refusal as plain data.

        Returns:
            The members of problem details.
        """
        title = HTTPStatus(self.status).phrase
        return {"type": "about:blank", "title": title, "status": self.status, "detail": self.detail}
