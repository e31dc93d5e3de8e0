"""A service for the page whose examples use one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def service(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Serve a store at the address in VESTIGE_URL while the examples of the client's guide run."""
    if request.path.name != "client.md":
        yield
        return
    from served import serve_here  # noqa: PLC0415

    with serve_here(request.getfixturevalue("tmp_path") / "visits.db") as plain:
        monkeypatch.setenv("VESTIGE_URL", str(plain.base_url))
        yield
