"""Journeys of people through the pages, in Chromium."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest
from browsing import CHROMIUM, FLAGS, Served, barriers, open_page, rows_in
from webpages import UNIQUE, kept_store, story_store

import reput

sync_api = pytest.importorskip("playwright.sync_api", reason="the group `browser` has playwright")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not on PATH")
PICTURES = os.environ.get("REPUT_PICTURES")
"""Directory into which the pictures of the pages are written."""
SHOWN = {"browse-overview-light.png", "browse-story-dark.png", "browse-compaction-light.png"}
RECORDED = Path(__file__).resolve().parents[1] / "golden"
GOLDEN = sorted(
    each.parent.relative_to(RECORDED).as_posix() for each in RECORDED.rglob("store.tar.gz")
)


@pytest.fixture(scope="module")
def chromium():
    with sync_api.sync_playwright() as playwright:
        with playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS) as browser:
            yield browser


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with Served(story_store(tmp_path_factory.mktemp("web") / "orders-store")) as found:
        yield found


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    with Served(kept_store(tmp_path_factory.mktemp("web") / "prices-store")) as found:
        yield found


@pytest.fixture
def page(chromium, address):
    """A page of the store with a story; the test fails at an error in the console."""
    yield from open_page(chromium, address)


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
    for page in open_page(chromium, address, viewport=size, color_scheme=mode, bypass_csp=True):
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
            assert barriers(page) == [], path
            name = f"browse-{path.partition('?')[0]}-{mode}.png"
            if PICTURES is not None and width == 1280 and name in SHOWN:
                if path == "overview":  # whose heading is a path of this machine
                    page.evaluate("document.querySelector('h1').textContent = '/srv/orders-store'")
                page.screenshot(path=Path(PICTURES) / name)


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_pages_of_derived_files_fit_the_screen_and_have_no_barrier(chromium, kept, mode, width):
    size = {"width": width, "height": 860}
    for page in open_page(chromium, kept, viewport=size, color_scheme=mode, bypass_csp=True):
        paths = ["transactions", "compaction", "compaction?topic=prices", "delayed"]
        paths += ["compaction?topic=prices&key=SKU-4", "message?topic=prices&queue=0&offset=29"]
        paths += ["bytes?file=commitlog/00000000000000000000&at=4&size=4", "messages?topic=prices"]
        for path in paths:
            page.goto(f"/{path}")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert barriers(page) == [], path
            name = f"browse-{path}-{mode}.png".replace("?topic=prices&key=SKU-4", "")
            if PICTURES is not None and width == 1280 and name in SHOWN:
                page.screenshot(path=Path(PICTURES) / name)


def test_a_time_is_drawn_in_the_chart_with_a_pointer(page):
    page.goto("/overview")
    box = page.locator("#chart svg").bounding_box()
    scale = box["width"] / 900
    y = box["y"] + 100 * scale
    left, step = (
        float(page.locator("#chart").get_attribute(f"data-{n}")) for n in ("left", "width")
    )
    page.mouse.move(box["x"] + (left + 2.5 * step) * scale, y)
    page.mouse.down()
    page.mouse.move(box["x"] + (left + 4.5 * step) * scale, y, steps=4)
    page.mouse.up()

    assert page.url.endswith("/overview")
    assert page.locator("rect.brush").count() == 1
    chosen = int(page.locator("#selected").inner_text())
    page.get_by_role("button", name="Messages").click()
    page.wait_for_url("**/messages?since=*&until=*")
    sync_api.expect(rows_in(page)).to_have_count(min(chosen, 50))


@pytest.mark.parametrize("has_script", [True, False])
def test_a_time_is_selected_by_keyboard_and_zoomed_with_and_without_scripts(
    chromium, address, has_script
):
    for page in open_page(chromium, address, java_script_enabled=has_script):
        page.goto("/topic?name=orders")
        page.get_by_label("From").focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        page.get_by_role("button", name="Zoom in").press("Enter")
        page.wait_for_url("**/topic?name=orders&*since=*")
        page.get_by_role("link", name="earlier").click()
        page.get_by_role("link", name="whole time").click()
        page.wait_for_url("**/topic?name=orders")


def test_an_open_transaction_is_followed_to_its_half_message(chromium, kept):
    for page in open_page(chromium, kept):
        page.goto("/")
        page.get_by_role("link", name="Transactions").click()
        page.get_by_role("link", name="producers-1").click()
        sync_api.expect(page.locator("table tbody tr")).to_have_count(1)
        page.locator("table tbody a").first.click()
        sync_api.expect(page.locator("pre.body")).to_have_text("half 3")
        page.get_by_role("link", name="Story").click()
        sync_api.expect(page.locator("ol.story li.half")).to_have_count(1)


def test_versions_of_a_key_are_found_by_a_search_in_a_compacted_topic(chromium, kept):
    for page in open_page(chromium, kept):
        page.goto("/topic?name=prices")
        page.get_by_role("link", name="Keys and versions").click()
        page.get_by_label("Key", exact=True).fill("SKU-4")
        page.get_by_role("button", name="Show").click()
        sync_api.expect(page.locator("table").first.locator("tbody tr")).to_have_count(4)
        page.locator("table a.open").nth(2).click()
        sync_api.expect(page.locator("h1")).to_have_text("prices/0@26")
        page.get_by_role("link", name="next").click()
        page.get_by_role("link", name="Versions of the key").click()
        superseded = page.locator("section", has_text="Superseded")
        superseded.locator("a.open").first.click()
        sync_api.expect(page.locator("ul.plain")).to_contain_text("has superseded it")


def test_a_repair_is_planned_and_a_finding_leads_to_its_bytes(chromium, golden_store):
    with Served(golden_store("crash-bit-flip")) as address:
        for page in open_page(chromium, address):
            page.goto("/doctor")
            page.get_by_role("button", name="Plan a repair").click()
            shown = page.get_by_role("heading", name="Plan of a repair")
            sync_api.expect(shown).to_be_visible(timeout=60_000)
            sync_api.expect(page.locator("#job")).to_contain_text("NEW_DIRECTORY")
            page.get_by_role("button", name="Check the store").click()
            page.get_by_role("link", name="The bytes").first.click(timeout=60_000)
            sync_api.expect(page.locator("mark").first).to_be_visible()


def test_the_lag_of_a_group_leads_to_the_oldest_message_that_it_has_not_consumed(
    chromium, tmp_path
):
    with reput.open(tmp_path, plugins=["consumequeue", "consumer"]) as store:
        store.put_many([reput.Message("t", b"%d" % n, n % 3) for n in range(90)])
        store.wait_dispatched()
        plugin = store.plugin("consumer")
        plugin.reset_offsets("slow", "t", "earliest")
    with Served(tmp_path) as address:
        for page in open_page(chromium, address):
            page.goto("/groups")
            page.get_by_role("link", name="slow").click()
            page.locator(".chart a").first.click(force=True)
            page.wait_for_url("**/messages?topic=t&queue=0&order=oldest&offset=0")
            sync_api.expect(rows_in(page)).to_have_count(30)


def test_a_large_body_shows_its_beginning_and_is_downloaded_whole(chromium, tmp_path):
    with reput.open(tmp_path / "store") as store:
        offset = store.put(reput.Message("t", b"x" * 4_000_000)).physical_offset
    with Served(tmp_path / "store") as address:
        for page in open_page(chromium, address):
            page.goto(f"/message?at={offset}")
            assert len(page.locator("pre.body").inner_text()) == 64 << 10
            with page.expect_download() as saved:
                page.get_by_role("link", name="Download the whole body").click()
            saved.value.save_as(tmp_path / "body")
    assert (tmp_path / "body").stat().st_size == 4_000_000


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


@pytest.mark.parametrize("case", GOLDEN)
def test_every_recorded_store_is_clicked_through(chromium, tmp_path, case):
    with tarfile.open(RECORDED / case / "store.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    with Served(tmp_path / "store", request_seconds=20.0) as address:
        for page in open_page(chromium, address):
            page.goto("/overview")
            page.get_by_role("link", name="Topics").click()
            topics = page.locator("table a.name")
            if topics.count():
                topics.first.click()
                page.get_by_role("link", name="Newest messages").click()
            else:  # files of queues that only a broker reads, or none
                page.get_by_role("link", name="Read the log").click()
            rows_in(page).first.click()
            sync_api.expect(page.get_by_role("heading", name="Body")).to_be_visible()
            for name in ("Groups", "Delayed", "Transactions", "Compaction", "Doctor"):
                page.get_by_role("navigation").get_by_role("link", name=name).click()
                sync_api.expect(page.locator("h1")).to_be_visible()
                assert not page.get_by_role("heading", name="503").count()


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
