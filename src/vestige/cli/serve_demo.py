"""`vestige serve --demo`: a store for a while, and a browser that shows it.

Guarantee: the address is printed whether or not a browser opens; held by tests/test_cli_serve_demo.py.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import webbrowser
from pathlib import Path

import click

_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


class DemoFolder:
    """A temporary folder with the store of a demo."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="vestige-demo-")

    @property
    def store(self) -> str:
        """The address of the store."""
        return str(Path(self._folder.name) / "flights.db")

    def remove(self) -> None:
        """Remove the folder."""
        self._folder.cleanup()


def show_page(url: str) -> None:
    """Print the address of the page, and open it where there is a display.

    Args:
        url: the address.
    """
    click.echo(f"The flights of New York are replayed at {url} (Ctrl-C ends it)")
    if sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in _DISPLAYS):
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
