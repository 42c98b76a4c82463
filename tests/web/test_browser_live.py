"""Journeys of people who change a store by the pages, or look at one that is served or followed."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from browsing import CHROMIUM, FLAGS, Served, barriers, open_page, rows_in
from fakemaster import FakeLog, FakeMaster
from masterlogs import log_of
from webpages import UNIQUE, story_store

import reput
from reput_consumer import ConsumerPlugin
from reput_server import ServerConfig, serving
from reput_server.follow import FollowConfig, following, open_replica
from reput_server.follow.command.browsing import browsed
from reput_server.webpages.webconfig import WebConfig

sync_api = pytest.importorskip("playwright.sync_api", reason="the group `browser` has playwright")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not on PATH")
ANYWHERE = ("127.0.0.1", 0)
FORMS = [
    "actions",
    "action/send?topic=orders",
    "action/reset-offset?group=billing&topic=orders&to=earliest",
    "action/create-topic",
    "action/suspend?plugin=index",
]


@pytest.fixture(scope="module")
def chromium():
    with sync_api.sync_playwright() as playwright:
        # Another name than that of loopback: the browser takes its pages for plain HTTP.
        flags = [*FLAGS, "--host-resolver-rules=MAP store.example 127.0.0.1"]
        with playwright.chromium.launch(executable_path=CHROMIUM, args=flags) as browser:
            yield browser


@pytest.fixture
def root(tmp_path):
    return story_store(tmp_path / "orders-store")


@contextmanager
def served(root, **web):
    """A served store, and the address of its pages."""
    pages = WebConfig(address=ANYWHERE, **web)
    config = ServerConfig(listen=ANYWHERE, name_server=None, fast_port=False, web=pages)
    with reput.open(root) as store, serving(store, config) as server:
        yield store, server.web.rstrip("/")


def confirm(page):
    page.get_by_role("button", name="Continue").click()
    sync_api.expect(page.get_by_role("heading", name="What will happen")).to_be_visible()
    page.get_by_role("button", name="Yes").click()
    page.wait_for_url("**/actions?done=1")


@pytest.mark.parametrize("has_script", [True, False])
def test_a_message_is_followed_to_its_dead_letter_and_resent(chromium, root, has_script):
    with Served(root, can_write=True) as address:
        for page in open_page(chromium, address, java_script_enabled=has_script):
            page.goto(f"/find?q={UNIQUE}")
            rows_in(page).last.click()
            page.get_by_role("link", name="Story").click()
            page.locator("ol.story .place").last.click()
            page.get_by_role("link", name="Resend").click()
            confirm(page)
            sync_api.expect(page.locator(".verdict.good")).to_contain_text(
                "resent to group billing"
            )
            page.goto("/messages?topic=%25RETRY%25billing")
            sync_api.expect(rows_in(page)).to_have_count(3)
            rows_in(page).first.click()
            sync_api.expect(page.locator("pre.body")).to_have_text("nobody takes this")


def test_an_offset_is_reset_with_the_keyboard_alone(chromium, root):
    with Served(root, can_write=True) as address:
        for page in open_page(chromium, address):
            page.goto("/group?name=billing")
            page.get_by_role("link", name="Reset offset: orders").press("Enter")
            page.get_by_label("To", exact=True).focus()
            page.keyboard.type("earliest")
            page.keyboard.press("Enter")
            page.get_by_role("button", name="Yes").press("Enter")
            page.wait_for_url("**/actions?done=1")

    with reput.open(root, mode="r", plugins=["consumequeue", "consumer"]) as store:
        offsets = store.plugin(ConsumerPlugin).offsets()["billing"]
    assert {offset for (topic, _), offset in offsets.items() if topic == "orders"} == {0}


def test_a_question_in_chinese_is_answered_with_no(chromium, root):
    with Served(root, can_write=True) as address:
        for page in open_page(chromium, address, locale="zh-CN"):
            page.goto("/action/create-topic")
            page.get_by_label("主题", exact=True).fill("parcels")
            page.get_by_role("button", name="继续").click()
            sync_api.expect(page.locator(".question")).to_contain_text("有 4 个队列，权限为 rw")
            page.get_by_role("link", name="取消").click()
            sync_api.expect(page.locator(".empty")).to_contain_text("没有修改过")


def test_a_served_store_is_watched_while_it_is_written_and_acted_on(chromium, root):
    with served(root, can_write=True) as (store, address):
        for page in open_page(chromium, address):
            page.goto("/overview")
            rate = page.locator("#rates .tile dd").first
            sync_api.expect(rate).to_have_text("0.0 · 0.0 · 0.0")
            store.put_many([reput.Message("orders", b"live")] * 50)
            sync_api.expect(rate).not_to_have_text("0.0 · 0.0 · 0.0", timeout=30_000)
            page.goto("/tail?topic=orders")
            store.put(reput.Message("orders", b"newest of all", 0))
            sync_api.expect(page.locator("#found")).to_contain_text("newest of all")
            page.goto("/overview")
            page.locator("tr", has_text="index").get_by_role("link", name="Suspend").click()
            confirm(page)
            (state,) = [each.state for each in store.plugins() if each.name == "index"]

    assert state == "suspended"


def test_a_store_that_another_process_writes_is_not_changed_and_the_page_names_a_way(
    chromium, root
):
    with served(root), Served(root, can_write=True) as address:
        for page in open_page(chromium, address):
            page.goto("/action/send?topic=orders")
            page.get_by_role("button", name="Continue").click()
            page.get_by_role("button", name="Yes").click()
            sync_api.expect(page.locator("main")).to_contain_text("--web-write")


def test_a_followed_store_shows_its_master_and_what_comes(chromium, tmp_path):
    log = FakeLog(log_of(tmp_path / "master", 100))
    config = FollowConfig(retry_interval=0.01, settle_time=0.0)
    with FakeMaster(log) as master:
        with (
            open_replica(
                tmp_path / "store", master.address, config, plugins=["consumequeue"]
            ) as store,
            following(store, master.address, config) as follower,
            browsed(store, follower, WebConfig(address=ANYWHERE)) as address,
        ):
            assert follower.wait_caught_up(60)
            for page in open_page(chromium, address):
                page.goto("/")
                sync_api.expect(page.locator("#rates")).to_contain_text("shop/broker-a")
                page.get_by_role("link", name="Messages", exact=True).click()
                sync_api.expect(rows_in(page)).to_have_count(50)
                page.get_by_role("link", name="Server").click()
                sync_api.expect(page.locator("#rates")).to_contain_text("following")


def test_forms_work_on_a_name_of_plain_http(chromium, root, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("correct horse\n", encoding="utf-8")
    options = {"names": ("store.example",), "password_file": str(secret), "can_write": True}
    with served(root, **options) as (store, address):
        port = address.rpartition(":")[2]
        password = {"username": "ann", "password": "correct horse"}
        named = f"http://store.example:{port}"
        page = chromium.new_page(base_url=named, http_credentials=password)
        page.goto("/action/create-topic")
        assert not page.evaluate("isSecureContext")
        page.get_by_label("Topic", exact=True).fill("parcels")
        confirm(page)
        sync_api.expect(page.locator("tbody tr").first).to_contain_text("ann@127.0.0.1")
        page.close()
        assert store.plugin(ConsumerPlugin).topics.get("parcels") is not None


@pytest.mark.parametrize("site", ["http://evil.example", "http://127.0.0.1:1"])
def test_a_form_of_another_site_changes_nothing(chromium, root, site):
    with Served(root, can_write=True) as address:
        form = (
            f'<form method="post" action="{address}/action/create-topic">'
            '<input name="topic" value="parcels"><input name="token" value="x"><button>Win</button>'
            "</form>"
        )
        for page in open_page(chromium, address):
            page.route(f"{site}/", lambda route: route.fulfill(body=form, content_type="text/html"))
            page.goto(f"{site}/")
            page.get_by_role("button", name="Win").click()
            sync_api.expect(page.locator("body")).to_contain_text("Pages of other sites may not")
            page.goto("/actions")
            sync_api.expect(page.locator(".empty")).to_contain_text("have changed nothing")


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_forms_and_live_pages_fit_the_screen_and_have_no_barrier(chromium, root, mode, width):
    size = {"width": width, "height": 860}
    with served(root, can_write=True) as (_, address):
        for page in open_page(chromium, address, viewport=size, color_scheme=mode, bypass_csp=True):
            for path in [*FORMS, "server", "overview", "group?name=billing"]:
                page.goto(f"/{path}")
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                assert barriers(page) == [], path
                if path.startswith("action/reset"):
                    page.get_by_role("button", name="Continue").click()
                    sync_api.expect(page.locator(".question")).to_be_visible()
                    assert page.evaluate("document.documentElement.scrollWidth") <= width
                    assert barriers(page) == [], "question"


def test_hostile_names_are_written_into_forms_and_stay_text(chromium, root):
    evil = "<img src=x onerror=document.title='owned'>"
    with Served(root, can_write=True) as address:
        for page in open_page(chromium, address):
            page.goto("/action/send")
            page.get_by_label("Topic", exact=True).fill(evil)
            page.get_by_role("button", name="Continue").click()
            sync_api.expect(page.locator(".verdict.warning")).to_contain_text(evil)
            page.get_by_label("Topic", exact=True).fill("orders")
            page.get_by_label("Tag").fill(evil)
            page.get_by_label("Body").fill(
                f"</textarea><script>document.title='owned'</script>{evil}"
            )
            page.get_by_role("button", name="Continue").click()
            page.get_by_role("button", name="Yes").click()
            page.wait_for_url("**/actions?done=1")
            sync_api.expect(page.locator("tbody")).to_contain_text(evil)
            for path in ("/actions", "/topics", "/messages"):
                page.goto(path)
                assert "owned" not in page.title()
                assert page.locator("main img").count() == 0
