"""Journeys of people through the pages, in Chromium."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest
from webpages import UNIQUE, story_store

import reput
from reput_web import WebOptions, application

sync_api = pytest.importorskip("playwright.sync_api", reason="the group `browser` has playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not on PATH")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PICTURES = os.environ.get("REPUT_PICTURES")
"""Directory into which the pictures of the pages are written."""
SHOWN = {"browse-overview-light.png", "browse-story-dark.png"}
AXE = os.environ.get("REPUT_AXE")
"""Path of axe.min.js, of the package axe-core of npm."""


class Served:
    """Pages on a port of this machine, until the block is left."""

    def __init__(self, root: Path, **options: float) -> None:
        import uvicorn

        app = application(root, WebOptions(**options))
        config = uvicorn.Config(app, port=0, log_level="error", lifespan="on", ws="none")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run)

    def __enter__(self) -> str:
        self.thread.start()
        while not self.server.started:
            assert self.thread.is_alive()
            self.thread.join(0.01)
        port = self.server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}"

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join()


@pytest.fixture(scope="module")
def chromium():
    with sync_api.sync_playwright() as playwright:
        with playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS) as browser:
            yield browser


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with Served(story_store(tmp_path_factory.mktemp("web") / "orders-store")) as found:
        yield found


@pytest.fixture
def page(chromium, address):
    """A page of the store with a story; the test fails at an error in the console."""
    yield from open_page(chromium, address)


def open_page(chromium, address, **options):
    context = chromium.new_context(base_url=address, **options)
    page = context.new_page()
    complaints = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda line: line.type == "error" and complaints.append(line.text))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    try:
        yield page
        assert [each for each in complaints if "status of 40" not in each] == []
    finally:
        context.close()


def rows_in(page):
    return page.locator("#found a.open")


def test_a_message_is_found_by_its_key_with_the_keyboard_alone(page):
    page.goto("/")
    page.keyboard.press("/")
    page.keyboard.type("order-42")
    page.keyboard.press("Enter")
    page.wait_for_url("**/messages?key=order-42")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/message?at=*")

    sync_api.expect(page.locator(".json")).to_contain_text("42")
    page.keyboard.press("?")
    sync_api.expect(page.locator("dialog")).to_contain_text("this help")


def test_messages_are_found_by_time_and_text(page):
    page.goto("/topic?name=orders")
    page.locator(".chart a").nth(2).click(force=True)
    page.wait_for_url("**/messages?topic=orders&since=*")
    before = rows_in(page).count()
    page.get_by_label("Text in the body").fill('"id": 4')
    page.get_by_role("button", name="Show").click()

    page.wait_for_url("**text=*")
    assert 0 < rows_in(page).count() < before


def test_a_message_is_followed_to_its_dead_letter(page):
    page.goto(f"/find?q={UNIQUE}")
    rows_in(page).last.click()
    page.get_by_role("link", name="Story").click()
    sync_api.expect(page.locator("ol.story li")).to_have_count(6)
    page.locator("ol.story .place").last.click()

    sync_api.expect(page.locator("h1")).to_contain_text("%DLQ%billing/0@0")
    sync_api.expect(page.locator("pre.body")).to_have_text("nobody takes this")


def test_two_queues_are_compared(page):
    page.goto("/topic?name=orders")
    counts = []
    for queue in ("0", "1"):
        page.locator("table").last.get_by_role("link", name=queue, exact=True).first.click()
        page.wait_for_url(f"**queue={queue}")
        counts.append(page.locator("#found td.number", has_text=f"{queue}@").count())
        page.go_back()

    assert all(counts)


def test_older_messages_are_added_below_and_a_link_has_them_without_javascript(chromium, address):
    for has_script in (True, False):
        for page in open_page(chromium, address, java_script_enabled=has_script):
            page.goto("/messages?topic=orders")
            assert rows_in(page).count() == 50
            page.get_by_role("link", name="Older messages").click()
            sync_api.expect(rows_in(page)).to_have_count(100 if has_script else 50)
            assert ("at=" in page.url) is not has_script


def test_a_search_goes_on_by_itself_and_can_be_stopped(chromium, tmp_path):
    with reput.open(tmp_path / "store", plugins=[]) as store:
        for _ in range(40):
            store.put_many([reput.Message("t", b"%d" % each * 300) for each in range(1_000)])
    with Served(tmp_path / "store", request_seconds=1e-9) as address:
        for page in open_page(chromium, address):
            page.goto("/messages?text=never&order=oldest")
            page.get_by_role("button", name="Stop").click()
            sync_api.expect(page.get_by_role("button", name="Stop")).to_be_hidden()
            left = page.locator("#more .soft").inner_text()
            page.get_by_role("link", name="Search on").click()
            sync_api.expect(page.locator("#more .soft")).not_to_have_text(left)


def test_sql_is_written_drawn_and_saved_as_parquet(page, tmp_path):
    pytest.importorskip("duckdb")
    page.goto("/sql")
    page.get_by_role("textbox", name="Query").fill(
        "SELECT topic, count(*) FROM messages GROUP BY 1"
    )
    page.keyboard.press("Control+Enter")
    page.wait_for_url("**/sql?q=*")
    sync_api.expect(page.locator("table.cells tbody tr")).to_have_count(5)
    assert page.locator(".chart svg").count() == 1
    with page.expect_download() as saved:
        page.get_by_role("link", name="PARQUET").click()
    saved.value.save_as(tmp_path / "rows.parquet")

    assert (tmp_path / "rows.parquet").read_bytes()[:4] == b"PAR1"


def test_dark_is_chosen_and_kept_and_the_language_too(page):
    page.goto("/topics")
    ground = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(ground)
    page.get_by_role("link", name="dark", exact=True).click()
    page.get_by_role("link", name="orders", exact=True).click()

    assert page.evaluate(ground) != before
    page.get_by_role("link", name="中文").click()
    sync_api.expect(page.locator("nav").first).to_contain_text("消息")
    assert page.url.endswith("/topic?name=orders")


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_pages_fit_the_screen_and_have_no_barrier(chromium, address, mode, width):
    size = {"width": width, "height": 860}
    for page in open_page(
        chromium, address, viewport=size, color_scheme=mode, bypass_csp=AXE is not None
    ):
        page.goto(f"/messages?key={UNIQUE}")
        dead = rows_in(page).first.get_attribute("href").partition("?")[2]
        paths = [
            "overview",
            "topics",
            "topic?name=orders",
            "messages?topic=orders",
            "groups",
            "delayed",
        ]
        paths += ["group?name=billing", "doctor", "sql", f"message?{dead}", f"story?{dead}", "nope"]
        for path in paths:
            page.goto(f"/{path}")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            if AXE is not None:
                page.evaluate(Path(AXE).read_text(encoding="utf-8"))
                found = page.evaluate("axe.run()")["violations"]
                assert [(each["id"], each["nodes"][0]["html"]) for each in found] == [], path
            name = f"browse-{path.partition('?')[0]}-{mode}.png"
            if PICTURES is not None and width == 1280 and name in SHOWN:
                if path == "overview":  # whose heading is a path of this machine
                    page.evaluate("document.querySelector('h1').textContent = '/srv/orders-store'")
                page.screenshot(path=Path(PICTURES) / name)


def test_a_body_that_is_a_script_does_nothing(chromium, tmp_path):
    script = "<script>document.title='owned'</script><img src=x onerror=alert(1)>"
    with reput.open(tmp_path / "store") as store:
        message = reput.Message("t", script.encode(), tags=script, keys="k<b>")
        offset = store.put(message).physical_offset
        store.wait_dispatched()
    with Served(tmp_path / "store") as address:
        for page in open_page(chromium, address):
            for path in ("/messages", f"/message?at={offset}", f"/message?at={offset}&body=text"):
                page.goto(path)
                assert "owned" not in page.title()
                assert page.locator("img").count() == 0
            sync_api.expect(page.locator("pre.body")).to_have_text(script)


def test_a_damaged_store_is_checked_and_its_finding_leads_to_the_log(chromium, golden_store):
    with Served(golden_store("crash-bit-flip")) as address:
        for page in open_page(chromium, address):
            page.goto("/doctor")
            page.get_by_role("button", name="Check the store").click()
            sync_api.expect(page.locator(".finding").first).to_be_visible(timeout=60_000)
            page.get_by_role("link", name="The log from there on").first.click()
            page.wait_for_url("**/messages?order=oldest&at=*")


@pytest.mark.parametrize("case", ["basic", "delay", "transaction", "trimmed"])
def test_the_directory_of_a_broker_is_clicked_through(chromium, golden_store, case):
    with Served(golden_store(case)) as address:
        for page in open_page(chromium, address):
            page.goto("/topics")
            page.locator("table a.name").first.click()
            page.get_by_role("link", name="Newest messages").click()
            rows_in(page).first.click()
            sync_api.expect(page.get_by_role("heading", name="Body")).to_be_visible()


def test_a_store_that_is_empty_and_then_written_shows_its_first_message(chromium, tmp_path):
    with reput.open(tmp_path / "store") as store, Served(tmp_path / "store") as address:
        for page in open_page(chromium, address):
            page.goto("/messages")
            sync_api.expect(page.locator("#more")).to_contain_text("No message")
            store.put(reput.Message("t", b"first"))
            store.wait_dispatched()
            page.get_by_role("link", name="Live").click()
            sync_api.expect(rows_in(page)).to_have_count(1)
            store.put(reput.Message("t", b"second"))
            sync_api.expect(rows_in(page)).to_have_count(2)
            page.get_by_role("link", name="Pause").click()
            page.wait_for_url("**/messages")
