"""The picture of the page, docs/live.png: the real page, while it shows an erased record that is still readable.

Run it with `make pictures`, or with a folder for the page at two widths in both themes. It needs Debian's chromium.
Guarantee: what is in the picture is what the demo answers; held by tests/service/test_page.py.
"""

from __future__ import annotations

import io
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path += [str(ROOT / "tests"), str(ROOT / "tests" / "service")]

from browser import MISSING, PROGRAM, Visit, open_browser, wait_for_text  # noqa: E402
from PIL import Image  # noqa: E402
from playwright.sync_api import BrowserContext, Page  # noqa: E402
from served import serve_here  # noqa: E402

SIZES = {"desktop": 1280, "phone": 360}
THEMES = ("light", "dark")
LATE = 90
"""Minutes of delay that nobody would guess without the store."""


def prepare(page: Page) -> None:
    """Ask for a removal, and wait until the record is erased."""
    page.click("[data-rate='32']")
    page.click("#ask-removal")
    wait_for_text(page, "#leak .window .verdict", "Erased")
    wait_for_text(page, "#leak .mean .verdict", "Erased, yet still readable")
    wait_for_text(page, "#removal-result", "erased at")
    page.click("[data-rate='0']")
    wait_for_text(page, "#rate", "paused")
    page.mouse.move(0, 0)
    page.wait_for_timeout(1_000)


def save(page: Page, path: Path) -> None:
    """The page down to the leak meter, in few colours, so that the file is small."""
    page.set_viewport_size({"width": 1_200, "height": 1_665})
    page.wait_for_timeout(1_000)
    taken = Image.open(io.BytesIO(page.screenshot()))
    taken.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)


def take_all(browser: BrowserContext, url: str, folder: Path) -> None:
    """The whole page at each width in each theme."""
    for theme in THEMES:
        for size, width in SIZES.items():
            visit = Visit(browser, url, theme=theme, width=width)
            page = visit.open()
            page.wait_for_timeout(1_500)
            page.screenshot(path=folder / f"{size}-{theme}.png", full_page=True)
            visit.close()


def main(folder: Path | None) -> None:
    """Take the pictures.

    Args:
        folder: where the page is saved at two widths in both themes; None for the picture of the README.
    """
    if PROGRAM is None:
        sys.exit(MISSING)
    with tempfile.TemporaryDirectory() as store, tempfile.TemporaryDirectory() as profile:  # noqa: SIM117
        with serve_here(Path(store) / "flights.db", demo_rate=0) as client, open_browser(Path(profile)) as browser:
            while client.get("/v1/demo", timeout=120).json()["watched"] is None:
                time.sleep(0.1)
            while client.get("/v1/demo").json()["candidate"]["value"] < LATE:
                client.post("/v1/demo", json={"step": True}).raise_for_status()
            url = str(client.base_url)
            visit = Visit(browser, url, width=1_200)
            prepare(visit.open())
            if folder is None:
                save(visit.page, ROOT / "docs" / "live.png")
            else:
                take_all(browser, url, folder)
            visit.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
