"""The page in a real browser: its numbers are the API's, it asks nobody else, and everybody can use it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from accessibility import find_faults, find_overflow, measure_contrast
from browser import MISSING, PROGRAM, WAIT, Visit, open_browser, wait_for_text, wait_until
from playwright.sync_api import BrowserContext, Page, Route
from served import serve_here

from vestige.service.demo import STREAMS
from vestige.store.tokens import SERVICE, create_token

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=MISSING)
KEYS = 3_000
MARKUP = "<img src=x onerror=alert(1)>"
TABLES = ("chart-table", "leak-table")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    with open_browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A demo that has taken its first flights and is paused."""
    with serve_here(tmp_path_factory.mktemp("demo") / "flights.db", demo_rate=0) as made:
        end = time.monotonic() + 120
        while made.get("/v1/demo", timeout=120).json()["watched"] is None:
            assert time.monotonic() < end
            time.sleep(0.05)
        yield made


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    file = tmp_path_factory.mktemp("tokens") / "visits.tokens"
    made = {scope: create_token(file, scope, scope, kind=SERVICE) for scope in ("admin", "read")}
    return made | {"file": str(file)}


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory: pytest.TempPathFactory, tokens: dict[str, str]) -> Iterator[httpx.Client]:
    """A store of thousands of keys, without a demo, which asks for a token."""
    path = tmp_path_factory.mktemp("visits") / "visits.db"
    with serve_here(path, tokens=Path(tokens["file"])) as made:
        made.headers["Authorization"] = f"Bearer {tokens['admin']}"
        definition = {"name": "visits", "columns": ["spent"], "by": "country", "retention": 96, "subject": "who"}
        made.post("/v1/streams", json=definition | {"max_age": "30d"}).raise_for_status()
        made.post("/v1/streams", json={"name": "empty", "columns": ["spent"], "retention": 96}).raise_for_status()
        rows = [{"spent": i % 7, "country": f"k{i:05}", "who": f"p{i}"} for i in range(KEYS)]
        rows += [{"spent": 1, "country": MARKUP, "who": "p"}]
        made.post("/v1/streams/visits/rows", json=rows, headers={"Idempotency-Key": "a"}).raise_for_status()
        yield made


@pytest.fixture
def visit(browser: BrowserContext) -> Iterator[Callable[..., Visit]]:
    made: list[Visit] = []

    def open_visit(client: httpx.Client, **looks: Any) -> Visit:
        made.append(Visit(browser, str(client.base_url), **looks))
        return made[-1]

    yield open_visit
    for each in made:
        each.close()


def read_values(page: Page, selector: str, attribute: str) -> list[float]:
    return [float(each.get_attribute(attribute) or "nan") for each in page.query_selector_all(selector)]


def read_count(page: Page, name: str) -> int:
    return int(page.inner_text(f"#{name}").replace(",", ""))


def use_token(page: Page, token: str) -> None:
    page.wait_for_selector("#token-dialog[open]")
    page.fill("#token", token)
    page.keyboard.press("Enter")


def test_numbers_are_those_of_the_api(demo: httpx.Client, visit: Callable[..., Visit]) -> None:
    opened = visit(demo)
    page = opened.open()
    shown = demo.get("/v1/demo").json()
    answers = [demo.get(f"/v1/streams/{STREAMS[kind]}/estimate").json() for kind in ("mean", "window", "private")]
    assert read_values(page, "#numbers b", "data-value") == [
        *(each["answers"][0]["value"] for each in answers),
        shown["truth"]["mean"],
    ]
    wait_until(page, "/[0-9]/.test(document.querySelector('#held').textContent)")
    assert (read_count(page, "arrived"), read_count(page, "held")) == (answers[0]["t"], answers[0]["held"])
    assert read_values(page, "#leak .guess", "data-guess") == [each["guess"] for each in shown["leak"]]
    assert page.inner_text("#leak .private .verdict") == "Erased, and hidden by noise"  # epsilon leaves a little
    page.wait_for_selector("#keys tbody tr")
    keyed = demo.get(f"/v1/streams/{STREAMS['keys']}/estimates").json()
    assert [each.inner_text() for each in page.query_selector_all("#keys td:first-child")] == [
        each["key"] for each in keyed["estimates"]
    ]
    assert page.inner_text("#numbers .truth .label") == page.inner_text("#leak-title + .label")[:12] == "shadow truth"
    opened.check()


def test_an_answer_is_compared_with_the_truth_of_its_moment(demo: httpx.Client, visit: Callable[..., Visit]) -> None:
    page = visit(demo).open()
    waiting: list[Route] = []
    page.route("**/v1/demo/truth*", hold(waiting))
    answer = demo.post("/v1/demo", json={"step": True}).json()
    wait_for(page, waiting)
    demo.post("/v1/demo", json={"step": True}).raise_for_status()
    for route in waiting:
        assert route.request.url.endswith(f"?t={answer['t']}")
        route.continue_()
    page.unroute("**/v1/demo/truth*")
    rows = (
        "[...document.querySelectorAll('#chart-table tbody tr')].map((row) => [...row.cells].map((c) => c.textContent))"
    )
    wait_until(page, f"{rows}.some(([t]) => t === '{answer['t']:,}')")
    shown = {row[0]: row[3] for row in page.evaluate(rows)}
    assert shown[f"{answer['t']:,}"] == f"{answer['truth']['mean']:.4f}"


def test_what_comes_for_a_stream_that_is_not_shown_any_more_is_left_out(
    demo: httpx.Client, visit: Callable[..., Visit]
) -> None:
    page = visit(demo).open()
    waiting: list[Route] = []
    page.route("**/estimate", hold(waiting))
    demo.post("/v1/demo", json={"step": True}).raise_for_status()
    wait_for(page, waiting)
    page.select_option("#stream", STREAMS["private"])
    for route in waiting:
        route.continue_()
    page.unroute("**/estimate")
    wait_until(page, "document.querySelector('#numbers .number')?.classList.contains('private')")
    value = demo.get(f"/v1/streams/{STREAMS['private']}/estimate").json()["answers"][0]["value"]
    page.click("summary >> text=The chart as a table")
    assert [each.inner_text() for each in page.query_selector_all("#chart-table td:nth-child(2)")] == [f"{value:.4f}"]


def hold(waiting: list[Route]) -> Callable[[Route], None]:
    """What holds requests back; Playwright takes no method of a list."""

    def note(route: Route) -> None:
        waiting.append(route)

    return note


def wait_for(page: Page, waiting: list[Route]) -> None:
    """Wait until a request is held back."""
    end = time.monotonic() + WAIT / 1_000
    while not waiting:
        assert time.monotonic() < end
        page.wait_for_timeout(50)


def test_a_removal_erases_a_record_that_is_still_readable(demo: httpx.Client, visit: Callable[..., Visit]) -> None:
    opened = visit(demo)
    page = opened.open()
    page.click("#ask-removal")
    page.wait_for_selector("#receipts td .state[data-met='false']")
    watched = demo.get("/v1/demo").json()["watched"]
    wait_for_text(page, "#leak-story", watched["subject"])
    assert page.inner_text("#leak .mean .verdict") == "Not erased yet"
    assert f"{watched['subject']}: asked for" in page.inner_text("#removal-result")
    page.click("[data-step]")
    wait_for_text(page, "#leak .mean .verdict", "Erased, yet still readable")
    page.click("[data-rate='2000']")  # a request is met once each airport has had an update
    page.wait_for_selector("#receipts td .state[data-met='true']")
    page.click("[data-rate='0']")
    wait_for_text(page, "#removal-result", f"{watched['subject']}: erased at")
    held = demo.get(f"/v1/streams/{STREAMS['mean']}/records").json()["rounds"]
    assert watched["round"] not in held
    receipt = demo.get("/v1/receipts", params={"newest": True}).json()["receipts"][0]
    assert receipt["erased"]
    assert page.inner_text("#receipts code") == receipt["id"][:8]
    assert abs(read_values(page, "#leak .mean .guess", "data-guess")[0] - watched["value"]) < 1.0
    page.click("#verify")
    assert "Nothing was found" in page.inner_text("#findings [data-ok=true]")
    opened.check()


def test_replay_runs_and_pauses_and_any_record_can_be_watched(demo: httpx.Client, visit: Callable[..., Visit]) -> None:
    opened = visit(demo)
    page = opened.open()
    before = demo.get("/v1/demo").json()["t"]
    page.click("[data-rate='2000']")
    wait_until(page, f"Number(document.querySelector('#arrived').textContent.replace(',', '')) > {before + 64}")
    page.click("[data-rate='0']")
    wait_for_text(page, "#rate", "paused")
    page.fill("#watch", "12")
    page.press("#watch", "Enter")
    wait_for_text(page, "#leak-story", "number 12,")
    page.select_option("#stream", STREAMS["window"])
    page.wait_for_selector("#numbers .window:first-child b")
    opened.check()


def test_keys_are_paged_and_their_text_is_never_markup(
    ordinary: httpx.Client, visit: Callable[..., Visit], tokens: dict[str, str]
) -> None:
    opened = visit(ordinary)
    opened.page.goto(opened.url)
    use_token(opened.page, "not-a-token")
    opened.page.wait_for_selector("#token-refused:not([hidden])")
    use_token(opened.page, tokens["admin"])
    page = opened.page
    page.wait_for_selector("#keys tbody tr")

    def list_keys() -> list[str]:
        return [each.inner_text() for each in page.query_selector_all("#keys td:first-child")]

    def wait_for(first: str) -> None:
        wait_until(page, "(key) => document.querySelector('#keys td').textContent === key", first)

    assert list_keys()[:2] == [MARKUP, "k00000"]
    assert not page.query_selector("#keys img")
    assert page.inner_text("#keys-text") == f"25 of {KEYS + 1:,} keys shown"
    page.click("#next-keys")
    wait_for("k00024")
    page.click("#next-keys")
    wait_for("k00049")
    page.click("#back-keys")
    wait_for("k00024")
    page.fill("#key", "k02999")
    page.press("#key", "Enter")
    wait_for("k02999")
    assert page.is_disabled("#next-keys")
    page.click("#keys button")
    wait_for_text(page, "#numbers h3", "visits, k02999")
    estimate = ordinary.get("/v1/streams/visits/estimate", params={"key": "k02999"}).json()
    assert read_values(page, "#numbers b", "data-value") == [estimate["answers"][0]["value"]]
    assert all("limit=25" in url or "limit=1" in url for url in opened.asked if "/estimates" in url)
    assert "must be gone, the first at" in page.inner_text("#deadline-text")
    page.select_option("#stream", "empty")
    wait_for_text(page, "#chart-caption", "No record has arrived yet.")
    assert page.query_selector("#numbers b") is None
    assert (read_count(page, "arrived"), page.inner_text("#deadline-text")) == (0, "")
    assert page.is_hidden("#leak-section")
    assert "shadow truth" not in page.inner_text("body")
    assert not any("/v1/demo" in url for url in opened.asked)
    assert find_faults(page) == []
    opened.check("401")


def test_a_token_without_audit_shows_answers_and_no_records(
    ordinary: httpx.Client, visit: Callable[..., Visit], tokens: dict[str, str]
) -> None:
    opened = visit(ordinary, width=360)
    opened.page.goto(opened.url)
    use_token(opened.page, tokens["read"])
    wait_for_text(opened.page, "#strip-text", "the scope audit")
    opened.page.wait_for_selector("#keys tbody tr")
    assert find_overflow(opened.page) == []
    opened.page.fill("#subject", "p1")
    opened.page.press("#subject", "Enter")
    opened.page.wait_for_selector("#problem:not([hidden])")
    assert tokens["read"] not in opened.page.content()
    assert opened.page.evaluate("sessionStorage.length + localStorage.length + document.cookie.length") == 0


def test_a_lost_connection_is_seen_and_comes_back(demo: httpx.Client, visit: Callable[..., Visit]) -> None:
    opened = visit(demo)
    opened.page.route("**/v1/events", lambda route: route.abort())
    opened.page.goto(opened.url)
    opened.page.wait_for_selector("#health[data-state='lost']")
    assert opened.page.inner_text("#health") == "Disconnected, trying again"
    opened.page.unroute("**/v1/events")
    opened.page.wait_for_selector("#health[data-state='live']")
    opened.check("ERR_FAILED")


def test_everything_works_from_the_keyboard(demo: httpx.Client, visit: Callable[..., Visit]) -> None:
    opened = visit(demo)
    page = opened.open()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.dataset.rate || ''"))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
        if "first-keys" in reached:
            break
    wanted = {
        "theme",
        "stream",
        "0",
        "32",
        "2000",
        "ask-removal",
        "subject",
        "reference",
        "now",
        "watch",
        "watch-other",
    }
    assert wanted | {"keyed", "key", "first-keys", "verify"} <= reached
    page.focus("#theme")
    page.keyboard.press("Space")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.focus("#subject")
    page.keyboard.type("N14228")
    page.keyboard.press("Enter")
    wait_for_text(page, "#removal-result", "N14228: asked for")
    opened.check()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_page_is_accessible(demo: httpx.Client, visit: Callable[..., Visit], theme: str, width: int) -> None:
    opened = visit(demo, theme=theme, width=width)
    page = opened.open()
    page.wait_for_selector("#keys tbody tr")
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert page.evaluate("document.documentElement.dataset.theme") == theme
    assert find_faults(page) == []
    assert find_overflow(page) == []
    texts = measure_contrast(page)
    assert len(texts) > 100
    assert [each for each in texts if each["contrast"] < each["needed"]] == []
    for table in TABLES:
        assert page.query_selector(f"#{table} tbody tr")
    opened.check()
