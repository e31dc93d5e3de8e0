"""Debian's chromium for tests: a profile that is thrown away, and a page that notes what it complains of and asks."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Page, sync_playwright

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
PROGRAM = shutil.which("chromium")
MISSING = "chromium is not installed; install the package chromium to run this"
WAIT = 20_000.0
"""Milliseconds after which something that does not come has failed."""


@contextmanager
def open_browser(folder: Path) -> Iterator[BrowserContext]:
    """A browser with an empty profile."""
    with sync_playwright() as programs:
        browser = programs.chromium.launch_persistent_context(
            folder, executable_path=PROGRAM, args=list(FLAGS), headless=True, viewport={"width": 1280, "height": 900}
        )
        browser.set_default_timeout(WAIT)
        yield browser
        browser.close()


def wait_until(page: Page, condition: str, arg: object = None) -> None:
    """Wait until an expression is true; Playwright's own way evaluates texts in the page, which its policy forbids."""
    end = time.monotonic() + WAIT / 1_000
    while not page.evaluate(condition, arg):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(50)


def wait_for_text(page: Page, selector: str, part: str) -> None:
    """Wait until an element has a text in it."""
    wait_until(page, "([s, part]) => document.querySelector(s)?.textContent.includes(part)", [selector, part])


class Visit:
    """A page of a service, its complaints, and the addresses that it asked."""

    def __init__(self, browser: BrowserContext, url: str, *, theme: str = "light", width: int = 1280) -> None:
        self.page: Page = browser.new_page()
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda problem: self.complaints.append(str(problem)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.emulate_media(color_scheme="dark" if theme == "dark" else "light", reduced_motion="reduce")
        self.page.set_viewport_size({"width": width, "height": 900})
        self.url = url

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def open(self) -> Page:
        """Open the page, and wait until it shows the first answer."""
        self.page.goto(self.url)
        self.page.wait_for_selector("#numbers b")
        self.page.wait_for_selector("#health[data-state='live']")
        return self.page

    def check(self, allowed: str = "\0") -> None:
        """Check that nothing was complained of but what is allowed, and that no other host was asked."""
        assert not [text for text in self.complaints if allowed not in text]
        assert {urlsplit(url).netloc for url in self.asked} == {urlsplit(self.url).netloc}

    def close(self) -> None:
        """Close it."""
        self.page.close()
