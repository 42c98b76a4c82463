"""What strangers put into a store does nothing, and other sites reach nothing."""

from __future__ import annotations

import base64
import random
import threading
from functools import partial

import anyio
import pytest
from webpages import PIECES, RISKY, Elements, offsets_in, pages

import reput
from reput.record import encode_properties
from reput_web import WebOptions
from reput_web.errors import BadRequestError, BusyError
from reput_web.readmodel import childsearch
from reput_web.readmodel.messagelist import MessageRequest
from reput_web.readmodel.workbudget import WorkBudget
from reput_web.server.security import CONTENT_POLICY, SecurityLayer
from reput_web.server.workers import Workers


def hostile(number: int) -> reput.Message:
    """One of many messages whose every text is hostile."""
    chance = random.Random(number)

    def text(longest: int) -> str:
        return "".join(chance.choices(PIECES, k=chance.randint(1, 3)))[:longest] or "<"

    own = text(30).replace("\x01", "").replace("\x02", "")
    pairs = {own: text(60), "TAGS": text(40), "KEYS": text(40), "UNIQ_KEY": text(40)}
    pairs |= {"REAL_TOPIC": text(20), "ORIGIN_MESSAGE_ID": text(32), "RETRY_TOPIC": text(20)}
    clean = {name: value for name, value in pairs.items() if "\x00" not in name}
    kinds = chance.randint(0, 3)
    body = text(300).encode("utf-8", "surrogatepass")
    body = [body, b'["' + body + b'"]', b'{"x":' + body + b"}", body[::-1]][kinds]
    topic = "%RETRY%" if number % 9 == 0 else "%DLQ%" if number % 11 == 0 else ""
    name = f"{topic}{number}{text(60)}"
    return reput.Message(name, body, number % 4, properties=encode_properties(clean).encode())


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    """Pages of a store in which everything is hostile, and the store's shell of an empty page."""
    root = tmp_path_factory.mktemp("attacked")
    with reput.open(root / "store", plugins=["consumequeue", "index"]) as store:
        offsets = [_put(store, number) for number in range(200)]
        store.wait_dispatched()
    with pages(root / "store") as client:
        shell = Elements(client.get("/doctor").text).tags
        yield client, offsets, [each for each in shell if each[0] in RISKY]


def _put(store: reput.Store, number: int) -> tuple[int, str]:
    message = hostile(number)
    try:
        return store.put(message).physical_offset, message.topic
    except (ValueError, reput.ReputError):  # a name that no queue can have
        safe = reput.Message(f"t{number}", message.body, 0, properties=message.properties)
        return store.put(safe).physical_offset, safe.topic


def assert_harmless(answer, shell):
    """No element, attribute or header but those of our templates."""
    page = Elements(answer.text)
    risky = [each for each in page.tags if each[0] in RISKY]
    assert risky == shell
    for tag, attributes in page.tags:
        assert not any(name.startswith("on") or name == "style" for name in attributes), tag
        for name in ("href", "src", "action", "hx-get"):
            value = attributes.get(name, "/")
            assert value.startswith(("/", "#"))
            assert not value.startswith("//")
    assert not set(answer.text) & set("\x00\x07\x1b\u202e\u2066")
    assert "x-injected" not in answer.headers
    assert "set-cookie" not in answer.headers
    assert answer.headers["content-security-policy"] == CONTENT_POLICY


@pytest.mark.proof
@pytest.mark.alike
@pytest.mark.parametrize("number", range(200))
def test_hostile_names_properties_and_bodies_do_nothing(attacked, number):
    client, offsets, shell = attacked
    offset, topic = offsets[number]

    for path, params in (
        ("/message", {"at": offset}),
        ("/story", {"at": offset}),
        ("/messages", {"at": offset + 1, "count": 2}),
        ("/messages", {"key": topic, "text": topic}),
        ("/topic", {"name": topic}),
        ("/group", {"name": topic}),
        ("/topics", {"q": topic[:200]}),
        ("/compaction", {"topic": topic, "key": topic}),
        ("/transactions", {"group": topic}),
        ("/bytes", {"file": topic}),
    ):
        assert_harmless(client.get(path, params=params), shell)
    whole = client.get("/body", params={"at": offset})
    assert whole.headers["content-type"] == "application/octet-stream"
    assert whole.headers["content-disposition"] == f'attachment; filename="message-{offset}.bin"'


@pytest.mark.costly
def test_hostile_names_are_listed_and_their_links_lead_to_them(attacked):
    client, offsets, _ = attacked
    listed = offsets_in(client.get("/messages?count=200").text)
    topics = {each["topic"] for each in client.get("/topics.json").json()["topics"]}

    assert sorted(listed) == [offset for offset, _ in offsets]
    assert topics == {topic for _, topic in offsets}
    for link in Elements(client.get("/topics").text).links():
        if link.startswith("/topic?"):
            assert client.get(link).status_code == 200


# --------------------------------------------------------------------------- requests


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8787", 200),
        ("localhost:1", 200),
        ("[::1]:8787", 200),
        ("LOCALHOST", 200),
        ("evil.example:8787", 421),
        ("127.0.0.1.evil.example", 421),
        ("10.0.0.1:8787", 421),
        ("", 421),
    ],
)
def test_only_the_servers_own_names_are_answered(story, host, status):
    assert story.get("/topics", headers={"host": host}).status_code == status


def test_a_server_on_all_addresses_takes_any_of_them_but_no_other_name(tmp_path):
    with pages(tmp_path, any_address=True, password="password") as client:
        for host, status in (("10.1.2.3:80", 401), ("[fe80::1]:80", 401), ("evil.example", 421)):
            assert client.get("/topics", headers={"host": host}).status_code == status


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),
        ("GET", {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"}, 403),
        (
            "GET",
            {
                "sec-fetch-site": "cross-site",
                "sec-fetch-mode": "navigate",
                "sec-fetch-dest": "iframe",
            },
            403,
        ),
        (
            "GET",
            {
                "sec-fetch-site": "cross-site",
                "sec-fetch-mode": "navigate",
                "sec-fetch-dest": "document",
            },
            200,
        ),
        ("POST", {"sec-fetch-site": "cross-site"}, 403),
        ("POST", {"origin": "http://evil.example"}, 403),
        ("POST", {}, 403),
        ("POST", {"origin": "http://127.0.0.1:8787"}, 303),
        ("PUT", {}, 405),
        ("OPTIONS", {}, 405),
    ],
)
def test_pages_of_other_sites_reach_nothing(story, method, headers, status):
    data = {"content": b"stop=1"} if method == "POST" else {}

    assert story.request(method, "/doctor", headers=headers, **data).status_code == status


def test_a_password_is_asked_for_and_compared(tmp_path):
    def given(password):
        return {"authorization": "Basic " + base64.b64encode(b"me:" + password).decode()}

    with pages(tmp_path, password="pass:wörd") as client:
        assert client.get("/static/browse.css").status_code == 401
        assert client.get("/doctor", headers=given(b"other")).status_code == 401
        assert client.get("/doctor", headers={"authorization": "Basic !"}).status_code == 401
        assert client.get("/doctor", headers=given("pass:wörd".encode())).status_code == 200


def test_every_answer_has_the_headers_that_protect_it(story):
    for address in ("/overview", "/overview.json", "/static/browse.js", "/nothing", "/topic"):
        headers = story.get(address).headers
        assert headers["content-security-policy"] == CONTENT_POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "unsafe" not in CONTENT_POLICY
    assert "frame-ancestors 'none'" in CONTENT_POLICY


@pytest.mark.parametrize(
    "address",
    [
        "/static/../server/options.py",
        "/static/%2e%2e/errors.py",
        "/static/..%2ferrors.py",
        "/static//etc/passwd",
    ],
)
def test_only_files_of_the_package_are_served(story, address):
    assert story.get(address).status_code == 404


@pytest.mark.parametrize(
    ("back", "place"),
    [
        ("/messages?topic=a", "/messages?topic=a"),
        ("https://evil.example", "/"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
    ],
)
def test_a_choice_of_theme_leads_back_to_these_pages_only(story, back, place):
    answer = story.get("/settings", params={"theme": "dark", "back": back})

    assert answer.headers["location"] == place
    cookie = answer.headers["set-cookie"].lower()
    assert cookie.startswith("theme=dark")
    assert "samesite=strict" in cookie
    story.cookies.clear()


def test_an_address_that_is_too_long_is_refused(story):
    assert story.get("/messages?text=" + "x" * 9_000).status_code == 414


def test_further_requests_are_refused_while_many_are_under_way():
    sent = []

    async def send(message):
        sent.append(message)

    layer = SecurityLayer(None, WebOptions(requests_max=2), under_way=2)  # type: ignore[arg-type]
    scope = {
        "type": "http",
        "method": "GET",
        "headers": [(b"host", b"localhost")],
        "query_string": b"",
    }

    anyio.run(partial(layer, scope, None, send))

    assert sent[0]["status"] == 503
    assert (b"retry-after", b"1") in sent[0]["headers"]


def test_work_is_stopped_when_its_client_leaves():
    begun = threading.Event()

    class Request:
        async def receive(self):
            await anyio.to_thread.run_sync(begun.wait)
            return {"type": "http.disconnect"}

    def work(budget):
        begun.set()
        return budget.stopped.wait(60)

    workers = Workers(1, 100.0)

    assert anyio.run(workers.run, Request(), work)


def hopeless_search(root, start_seconds):
    """Search with an expression that never ends, by a clock that each question moves."""
    with reput.open(root, plugins=[]) as store:
        store.put(reput.Message("t", b"a" * 60 + b"!"))
    request = MessageRequest(text="(a|a)+$", is_regex=True)
    ticks = iter(range(100_000))
    budget = WorkBudget(1.0, clock=lambda: next(ticks) / 2)
    return childsearch.search(str(root), False, request, 1.0, budget, start_seconds)


def test_an_expression_that_never_ends_is_killed_with_its_request(tmp_path):
    with pytest.raises(BadRequestError, match="takes too long"):
        hopeless_search(tmp_path, start_seconds=600.0)


def test_a_search_that_does_not_begin_is_not_the_fault_of_its_expression(tmp_path):
    with pytest.raises(BusyError, match="did not begin"):
        hopeless_search(tmp_path, start_seconds=0.5)
