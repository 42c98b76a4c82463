"""Each page shows what the store holds, as HTML and as JSON."""

from __future__ import annotations

import re

import pytest
from webpages import HOUR_MS, UNIQUE, Elements, offsets_in, pages, story_store

import reput
from reput.files import system_clock
from reput_testing import ManualClock

GOLDEN = ["basic", "batch", "delay", "transaction", "ext", "v6", "trimmed"]
DAMAGED = [
    "crash-bit-flip",
    "crash-garbage-tail",
    "crash-log-behind-queues",
    "crash-no-derived",
    "crash-torn-properties",
    "crash-torn-record",
]
ALL_PAGES = ["/overview", "/topics", "/messages", "/groups", "/delayed", "/doctor"]
ALL_PAGES += ["/transactions", "/compaction"]


def rows_of(client, address):
    answer = client.get(address)
    assert answer.status_code == 200, answer.text
    return answer.json()["rows"]


def every_row(client, address):
    """The rows of all pages, one behind the other."""
    found = []
    while address is not None:
        document = client.get(address).json()
        found += document["rows"]
        address = document["next"]
    return found


@pytest.mark.proof
@pytest.mark.parametrize("case", [*GOLDEN, *DAMAGED])
@pytest.mark.costly
def test_every_page_of_a_recorded_store_can_be_read(golden_store, case):
    root = golden_store(case)

    with pages(root) as client:
        for address in ALL_PAGES:
            assert client.get(address).status_code == 200
            assert client.get(f"{address}.json").status_code == 200
        for topic in client.get("/topics.json").json()["topics"]:
            answer = client.get("/topic", params={"name": topic["topic"]})
            assert answer.status_code == 200
            listed = every_row(client, f"/messages.json?count=500&topic={topic['topic']}")
            assert len([each for each in listed if not each["hole"]]) <= topic["message_count"]
        for offset in offsets_in(client.get("/messages?count=20").text):
            for page in ("/message", "/story"):
                assert client.get(page, params={"at": offset}).status_code == 200


@pytest.mark.costly
def test_the_whole_log_is_the_same_in_both_directions_and_pages_of_any_size(golden_store, tmp_path):
    small = story_store(tmp_path / "small")
    for root, counts in ((golden_store("basic"), (97, 500)), (small, (1,))):
        with reput.open(root, mode="r", plugins=[]) as store:
            expected = [int(each) for batch in store.scan() for each in batch.physical_offset]

        assert expected
        with pages(root) as client:
            for count in counts:
                for order in ("newest", "oldest"):
                    rows = every_row(client, f"/messages.json?count={count}&order={order}")
                    found = [each["physical_offset"] for each in rows]
                    assert found == (expected if order == "oldest" else expected[::-1])


@pytest.mark.parametrize("order", ["newest", "oldest"])
@pytest.mark.parametrize("queue", ["", "&queue=1"])
def test_pages_of_a_topic_follow_the_log_and_miss_nothing(story, order, queue):
    whole = every_row(story, f"/messages.json?count=500&order=oldest{queue}")
    expected = [
        each["physical_offset"]
        for each in whole
        if each["topic"] == "orders" and (not queue or each["queue_id"] == 1)
    ]

    rows = every_row(story, f"/messages.json?topic=orders&count=13&order={order}{queue}")

    found = [each["physical_offset"] for each in rows]
    assert found == (expected if order == "oldest" else expected[::-1])
    assert len(found) > 13


def test_a_time_bounds_messages_in_queues_and_in_the_log(story):
    whole = every_row(story, "/messages.json?count=500&order=oldest")
    start = whole[0]["store_timestamp"] + 3 * HOUR_MS

    for scope in ("", "&topic=orders"):
        for order in ("newest", "oldest"):
            rows = every_row(
                story,
                f"/messages.json?since=@{start}&until=@{start + HOUR_MS}&count=9"
                f"&order={order}{scope}",
            )
            expected = [
                each["physical_offset"]
                for each in whole
                if start <= each["store_timestamp"] <= start + HOUR_MS
                and (not scope or each["topic"] == "orders")
            ]
            found = [each["physical_offset"] for each in rows]
            assert sorted(found) == expected
            assert len(expected) > 9


@pytest.mark.parametrize(
    ("conditions", "count"),
    [
        ("text=nobody", 6),
        ("text=NOBODY&ignorecase=1", 6),
        ("text=n[o]body&regex=1", 6),
        ('text="id": 1&topic=orders', 84),
        ("tag=paid&topic=orders", 100),
        ("where=amount > 190&topic=orders", 7),
        ("key=order-7", 1),
        ("key=order-7&topic=orders", 1),
        ("key=order-7&topic=payments", 0),
        (f"key={UNIQUE}", 6),
    ],
)
def test_conditions_choose_messages(story, conditions, count):
    params = dict(each.split("=", 1) for each in conditions.split("&"))

    answer = story.get("/messages.json", params={**params, "count": 500})

    assert answer.status_code == 200
    assert len(answer.json()["rows"]) == count


def test_a_search_ends_when_its_time_is_over_and_goes_on_from_its_cursor(story, tmp_path):
    with reput.open(tmp_path, plugins=[], clock=ManualClock()) as store:
        store.put_many([reput.Message("t", b"%d" % each * 100) for each in range(20_000)])

    with pages(tmp_path, request_seconds=1e-9) as client:
        first = client.get("/messages.json?text=99&count=500").json()
        found = every_row(client, "/messages.json?text=99&count=500")
        page = client.get("/messages?text=99&count=500").text

    assert first["is_unfinished"]
    assert first["left_size"] > 0
    expected = [each for each in range(20_000) if "99" in str(each) * 100]
    assert len({each["physical_offset"] for each in found}) == len(found) == len(expected)
    assert "data-goes-on" in page


@pytest.mark.parametrize(
    "query",
    [
        "queue=x",
        "at=-1",
        "since=yesterday",
        "order=random",
        "topic=orders&where=amount >",
        "text=(&regex=1",
        "topic=" + "t" * 2_000,
        "topic=orders&offset=3",
        "count=501",
        "at=" + "9" * 30,
    ],
)
def test_what_means_nothing_is_refused_with_a_reason(story, query):
    answer = story.get(f"/messages.json?{query}")

    assert answer.status_code == 400
    error = answer.json()["error"]
    assert len(error) > 10
    assert not re.search(r"(^|\s)--?[A-Za-z]|PATTERN", error)  # no option of a command
    for name in ("where", "text"):
        if f"{name}=" in query:
            assert error.startswith(f"{name}: ")
    assert story.get(f"/messages?{query}").status_code == 400


@pytest.mark.parametrize(
    "address",
    ["/topic?name=nothing", "/message?at=1", "/message", "/group?name=no", "/messages?topic=no"],
)
def test_what_is_not_there_says_so(story, address):
    assert story.get(address).status_code == 404
    assert story.get("/nothing").status_code == 404


def test_the_page_of_a_message_has_its_fields_its_neighbours_and_what_leads_to_it(story):
    row = rows_of(story, "/messages.json?key=order-7")[0]
    document = story.get("/message.json", params={"at": row["physical_offset"]}).json()
    page = Elements(story.get("/message", params={"at": row["physical_offset"]}).text)

    assert document["body"]["tree"] == {"id": 7, "customer": {"region": "eu"}}
    assert [each["leads_here"] for each in document["leads"]] == [True, True, True]
    assert sum(each["size"] for each in document["fields"]) == row["size"]
    assert document["message"]["queue_offset"] == row["queue_offset"]
    for name in ("before_in_queue", "after_in_queue", "before_in_log", "after_in_log"):
        near = story.get("/message.json", params={"at": document[name]}).json()
        step = 1 if name.startswith("after") else -1
        if name.endswith("queue"):
            assert near["queue_offset"] == row["queue_offset"] + step
        assert f"/message?at={document[name]}" in page.links()
    assert '"eu"' in page.text


@pytest.mark.parametrize(
    ("body", "forms"),
    [
        (b'{"a": [1, {"b": null}]}', ["json", "text", "hex"]),
        (b"plain text", ["text", "hex"]),
        (bytes(range(256)), ["hex"]),
        (b"", ["text", "hex"]),
        (b"[" * 5_000, ["text", "hex"]),
        (b"[" * 500 + b"]" * 500, ["text", "hex"]),
        (b"[" * 90 + b"]" * 90, ["json", "text", "hex"]),
        ("é".encode() * 70_000, ["text", "hex"]),
        (b"x" * 4_000_000, ["text", "hex"]),
    ],
)
def test_a_body_has_the_forms_that_fit_it_and_its_beginning_is_shown(tmp_path, body, forms):
    with reput.open(tmp_path, plugins=[]) as store:
        offset = store.put(reput.Message("t", body)).physical_offset

    with pages(tmp_path) as client:
        found = client.get("/message.json", params={"at": offset}).json()["body"]
        for form in forms:
            page = client.get("/message", params={"at": offset, "body": form})
            assert page.status_code == 200
            assert len(page.content) < 700_000
        whole = client.get("/body", params={"at": offset})

    assert found["forms"] == forms
    assert found["is_cut"] == (len(body) > 64 << 10)
    assert whole.content == body
    assert whole.headers["content-disposition"].startswith("attachment")


def test_a_story_has_every_copy_of_a_message(story):
    rows = rows_of(story, f"/messages.json?key={UNIQUE}&order=oldest")

    for row in rows:
        document = story.get("/story.json", params={"at": row["physical_offset"]}).json()
        kinds = [each["kind"] for each in document["chapters"]]
        assert kinds == ["stored", "delayed", "retry", "delayed", "retry", "dead letter"]
        (asked,) = [each for each in document["chapters"] if each["is_asked"]]
        assert asked["physical_offset"] == row["physical_offset"]
        assert document["ending"] == "The group billing has given it up after 3 retries."


def test_groups_show_lag_and_dead_letters(story):
    (group,) = story.get("/groups.json").json()["groups"]

    assert (group["group"], group["lag"], group["dead_letter_count"]) == ("billing", 0, 1)
    page = Elements(story.get("/group?name=billing").text)
    assert "/messages?topic=%25DLQ%25billing" in page.links()
    (reader,) = story.get("/topic.json?name=orders").json()["groups"]
    assert reader == {"group": "billing", "lag": 0}


def test_a_chart_counts_every_message_and_leads_to_those_of_a_time(story):
    document = story.get("/topic.json?name=orders").json()
    links = Elements(story.get("/topic?name=orders").text).links()

    assert sum(document["activity"]["counts"]) == document["message_count"]
    columns = [each for each in links if each.startswith("/messages") and "since=" in each]
    shown = [rows_of(story, each.replace("?", ".json?count=500&", 1)) for each in columns]
    assert sum(map(len, shown)) == document["message_count"]


@pytest.mark.parametrize(
    ("words", "address"),
    [
        ("orders", "/topic?name=orders"),
        ("billing", "/group?name=billing"),
        ("order-7", "/messages?key=order-7"),
        (UNIQUE, f"/messages?key={UNIQUE}"),
        ("", "/messages"),
    ],
)
def test_the_search_leads_to_what_a_word_names(story, words, address):
    answer = story.get("/find", params={"q": words})

    assert (answer.status_code, answer.headers["location"]) == (303, address)


def test_the_search_finds_a_message_by_its_id(story):
    row = rows_of(story, "/messages.json?key=order-7")[0]
    document = story.get("/message.json", params={"at": row["physical_offset"]}).json()

    answer = story.get("/find", params={"q": document["msg_id"]})

    assert answer.headers["location"] == f"/message?at={row['physical_offset']}"


def test_the_doctor_checks_when_asked_and_lists_findings(golden_store):
    with pages(golden_store("crash-bit-flip")) as client:
        assert client.get("/doctor.json").json()["state"] == "never run"
        started = client.post("/doctor", headers={"sec-fetch-site": "same-origin"})
        jobs = client.app.inner.state.jobs
        assert jobs.last["verify"].over.wait(60)
        document = client.get("/doctor.json").json()
        page = client.get("/doctor").text

    assert started.headers["location"] == "/doctor"
    assert document["error"] is None
    kinds = {each["kind"] for each in document["report"]["findings"]}
    assert kinds
    assert all(each in page for each in kinds)


def test_messages_are_counted_as_in_info_without_lost_ones(golden_store, run, tmp_path):
    root = tmp_path / "repaired"
    run("repair", golden_store("crash-bit-flip"), root)
    facts = run("info", root, "--json").json
    assert facts["losses"]["message_count"]
    counts = {each["topic"]: each["message_count"] for each in facts["topics"]}

    with pages(root) as client:
        for _ in range(2):  # the second time from what is kept
            overview = client.get("/overview.json").json()
            assert overview["message_count"] == sum(counts.values())
            shown = client.get("/topics.json").json()["topics"]
            assert {each["topic"]: each["message_count"] for each in shown} == counts


@pytest.mark.costly
def test_the_overview_names_open_transactions_and_overdue_messages(golden_store, run):
    root = golden_store("../rocketmq-5.5.0/default")
    report = run("report", root, "--json").json
    bars = run("schedule", root, "--json").json["histogram"]
    overdue = sum(each["message_count"] for each in bars if each["start_timestamp"] is None)

    with pages(root) as client:
        texts = [each["text"] for each in client.get("/overview.json").json()["notices"]]
        page = Elements(client.get("/overview").text).text

    open_count = report["transactions"]["open_count"]
    assert open_count > 1
    assert overdue > 1
    begins = f"{open_count} transactions are neither committed nor rolled back, the oldest for "
    assert any(each.startswith(begins) for each in texts)
    assert f"{overdue} delayed messages are overdue." in texts
    assert all(each in page for each in texts)


def test_a_store_that_is_written_meanwhile_shows_what_was_put_since(tmp_path):
    with reput.open(tmp_path) as store:
        store.put(reput.Message("t", b"first"))
        store.wait_dispatched()
        with pages(tmp_path) as client:
            assert len(rows_of(client, "/messages.json?topic=t")) == 1
            store.put(reput.Message("t", b"second"))
            store.wait_dispatched()
            assert [each["preview"] for each in rows_of(client, "/messages.json")] == [
                "second",
                "first",
            ]
            assert client.get("/overview.json").json()["is_open"]


def test_new_messages_come_after_the_cursor_each_once_and_by_condition(tmp_path):
    with reput.open(tmp_path) as store:
        store.put_many([reput.Message("t", b"old %d" % each) for each in range(40)])
        store.wait_dispatched()
        with pages(tmp_path) as client:
            first = client.get("/tail.json").json()
            chosen = client.get("/tail.json?text=5&topic=t").json()
            store.put_many([reput.Message("tu"[each % 2], b"new %d" % each) for each in range(9)])
            at, seen = first["next_at"], []
            for _ in range(4):
                found = client.get("/tail.json", params={"at": at, "count": 4}).json()
                at = found["next_at"]
                seen += [each["preview"] for each in reversed(found["rows"])]
            params = {"at": chosen["next_at"], "text": "5", "topic": "u"}
            later = client.get("/tail.json", params=params).json()["rows"]
            page = client.get("/tail?topic=t").text

    assert [each["preview"] for each in first["rows"]][:2] == ["old 39", "old 38"]
    assert len(first["rows"]) == 30
    assert [each["preview"] for each in chosen["rows"]] == [
        f"old {each}" for each in (35, 25, 15, 5)
    ]
    assert seen == [f"new {each}" for each in range(9)]
    assert [each["preview"] for each in later] == ["new 5"]
    assert 'hx-trigger="every 1s"' in page


def test_pages_of_a_key_have_every_message_once(story):
    whole = rows_of(story, f"/messages.json?key={UNIQUE}")

    for order in ("newest", "oldest"):
        found = every_row(story, f"/messages.json?key={UNIQUE}&count=2&order={order}")
        expected = whole if order == "newest" else whole[::-1]
        assert found == expected


def test_delayed_messages_are_shown_by_level_and_due_time(tmp_path):
    clock = ManualClock(system_clock())
    plugins = ["consumequeue", "schedule"]
    with reput.open(tmp_path, plugins=plugins, clock=clock, threads=False) as store:
        for level in ("3", "18", "18"):
            store.put(reput.Message("t", b"later", properties={"DELAY": level}))
        store.wait_dispatched()

    with pages(tmp_path) as client:
        found = client.get("/delayed.json").json()["delayed"]
        page = Elements(client.get("/delayed").text)

    assert found["message_count"] == 3
    assert [(each["level"], each["message_count"]) for each in found["levels"]] == [(3, 1), (18, 2)]
    assert sum(each["message_count"] for each in found["bars"]) == 3
    assert any("queue=17" in link for link in page.links())


def test_an_empty_store_and_one_that_is_gone_have_pages(tmp_path):
    with reput.open(tmp_path / "empty"):
        pass

    with pages(tmp_path / "empty") as client:
        for address in ALL_PAGES:
            assert client.get(address).status_code == 200
    with pages(tmp_path / "gone") as client:
        answer = client.get("/overview")
        assert answer.status_code == 503
        assert "gone" in answer.text
