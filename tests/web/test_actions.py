"""Pages that change the store: forms, questions, refusals, and the log of actions."""

from __future__ import annotations

import json
import os
import re
import threading

import pytest
from webpages import ADDRESS, PIECES, RISKY, UNIQUE, Elements, pages, story_store

import reput
from reput_consumer import ConsumerPlugin
from reput_web.actions import actionlog
from reput_web.actions.actionlog import ActionLog
from reput_web.actions.performing import ACTIONS, StorePerformer
from reput_web.errors import BadRequestError
from reput_web.server.confirmations import Confirmations

OWN = {"origin": ADDRESS}


@pytest.fixture
def root(tmp_path):
    return story_store(tmp_path / "store")


def field(page, name):
    return re.search(f'name="{name}" value="([^"]*)"', page)[1]


def asked(client, action, **values):
    """The answer to a form that is filled in: the question whether to do it."""
    token = field(client.get(f"/action/{action}").text, "token")
    return client.post(f"/action/{action}", data={**values, "token": token}, headers=OWN)


def confirmed(client, action, question, **headers):
    data = {"token": field(question, "token"), "confirmed": field(question, "confirmed")}
    return client.post(f"/action/{action}", data=data, headers=headers or OWN)


def done(client, action, **values):
    """The log's newest entry, after an action was asked for and confirmed."""
    question = asked(client, action, **values)
    assert question.status_code == 200, question.text
    answer = confirmed(client, action, question.text)
    assert answer.status_code == 303, Elements(answer.text).text
    return client.get("/actions.json").json()["actions"][0]


def letter_of(client):
    (row,) = client.get(f"/messages.json?key={UNIQUE}&topic=%25DLQ%25billing").json()["rows"]
    return row["physical_offset"]


def groups_in(root):
    with reput.open(root, mode="r", plugins=["consumequeue", "consumer"]) as store:
        plugin = store.plugin(ConsumerPlugin)
        return {each: plugin.progress(each) for each in plugin.groups()}


# --------------------------------------------------------------------------- what is done


@pytest.mark.costly
def test_a_test_message_is_stored_with_all_its_fields(root):
    values = {"topic": "orders", "queue": "2", "tag": "paid", "keys": "a b", "body": "<b>\n中"}

    with pages(root, can_write=True) as client:
        entry = done(client, "send", **values, properties="region=eu\nx=1=2")
        row = client.get("/messages.json?count=1").json()["rows"][0]

    with reput.open(root, mode="r", plugins=[]) as store:
        view = store.get(row["physical_offset"])
        assert (view.topic, view.queue_id, view.tags, view.keys) == (
            "orders",
            2,
            "paid",
            ("a", "b"),
        )
        assert view.body == "<b>\n中".encode()
        assert {"region": "eu", "x": "1=2"}.items() <= view.properties.items()
    assert entry["state"] == "done"
    assert entry["values"] == {**values, "properties": "region=eu\nx=1=2"}
    assert str(row["physical_offset"]) in entry["text"]


def test_a_dead_letter_goes_to_its_group_again_and_stays(root):
    before = groups_in(root)["billing"]

    with pages(root, can_write=True) as client:
        at = letter_of(client)
        page = client.get("/group?name=billing").text
        assert f"/action/resend?at={at}&amp;group=billing" in page
        done(client, "resend", at=str(at), group="billing")

    after = groups_in(root)["billing"]
    assert after.retry_lag == before.retry_lag + 1
    assert after.dead_letter_count == before.dead_letter_count


def test_a_group_goes_on_where_the_question_has_shown(root):
    with pages(root, can_write=True) as client:
        question = asked(client, "reset-offset", group="billing", topic="orders", to="latest")
        with reput.open(root) as store:
            for queue_id in range(3):
                store.put(reput.Message("orders", b"after the question", queue_id))
        confirmed(client, "reset-offset", question.text)

    queues = [each for each in groups_in(root)["billing"].queues if each.topic == "orders"]
    cells = re.findall(r'<td class="number">([^<]*)</td>', question.text)
    assert [int(each) for each in cells[2::4]] == [each.offset for each in queues]
    assert {each.max_offset - each.offset for each in queues} == {1}


def test_a_group_goes_on_within_the_queues_that_there_are_when_it_is_reset(root):
    before = {each.queue_id: each for each in groups_in(root)["billing"].queues}
    values = {"group": "billing", "topic": "orders", "to": "latest"}

    with reput.open(root) as store:
        action = ACTIONS["reset-offset"].of(values, {"0": 10**6, "1": 7, "9": 7})
        StorePerformer(store).perform(action, "")

    queues = {each.queue_id: each for each in groups_in(root)["billing"].queues}
    assert [queues[each].offset for each in range(3)] == [
        queues[0].max_offset,
        7,
        before[2].offset,
    ]


def test_a_topic_is_created_once(root):
    values = {"topic": "parcels", "queues": "3", "perm": "r"}
    with pages(root, can_write=True) as client:
        done(client, "create-topic", **values)
        again = asked(client, "create-topic", **values)

    with reput.open(root, mode="r", plugins=["consumequeue", "consumer"]) as store:
        settings = store.plugin(ConsumerPlugin).topics.get("parcels")
    assert (settings.read_queue_nums, settings.perm) == (3, 4)
    assert again.status_code == 409
    assert "exists already" in again.text


def test_a_plugin_is_suspended_and_resumed_also_in_a_process_that_writes(root):
    with pages(root, can_write=True) as client:
        done(client, "suspend", plugin="index")
        assert 'href="/action/resume?plugin=index"' in client.get("/overview").text
        done(client, "resume", plugin="index")
        with reput.open(root) as store:
            done(client, "suspend", plugin="index")
            (state,) = [each for each in store.plugins() if each.name == "index"]

    assert state.state == "suspended"


# --------------------------------------------------------------------------- what is refused


def test_pages_offer_no_action_without_the_option(root):
    with pages(root) as client:
        texts = [client.get(path).text for path in ("/overview", "/topics", "/group?name=billing")]
        answers = [client.get("/action/send"), client.post("/action/send", headers=OWN)]
        log = client.get("/actions")

    assert not any("/action" in text for text in texts)
    assert [each.status_code for each in answers] == [404, 404]
    assert "--write" in log.text


@pytest.mark.parametrize(
    ("headers", "change", "status"),
    [
        ({"origin": "http://evil.example"}, {}, 403),
        ({"origin": "http://evil.example", "sec-fetch-site": "same-origin"}, {}, 403),
        ({"origin": "null"}, {}, 403),
        ({}, {}, 403),
        ({"sec-fetch-site": "cross-site"}, {}, 403),
        ({"sec-fetch-site": "none"}, {}, 403),
        ({**OWN, "sec-fetch-site": "same-site"}, {}, 403),
        ({**OWN, "host": "evil.example"}, {}, 421),
        (OWN, {"token": ""}, 403),
        (OWN, {"token": "0" * 43}, 403),
        (OWN, {"token": "é"}, 403),
        (OWN, {"confirmed": "0" * 43}, 400),
        ({**OWN, "content-type": "text/plain"}, {}, 400),
        ({"sec-fetch-site": "same-origin", "origin": "null"}, {}, 303),
        (OWN, {}, 303),
    ],
)
def test_only_a_form_of_these_pages_changes_anything(root, headers, change, status):
    with pages(root, can_write=True) as client:
        question = asked(client, "create-topic", topic="parcels", perm="rw").text
        data = {name: field(question, name) for name in ("token", "confirmed")} | change
        answer = client.post("/action/create-topic", data=data, headers=headers)
        count = len(client.get("/actions.json").json()["actions"])

    assert (answer.status_code, count) == (status, int(status == 303))


def test_a_question_is_answered_once_and_for_its_own_action(root):
    with pages(root, can_write=True) as client:
        question = asked(client, "create-topic", topic="parcels", perm="rw").text
        assert confirmed(client, "create-topic", question).status_code == 303
        again = confirmed(client, "create-topic", question)
        other = confirmed(client, "send", asked(client, "suspend", plugin="index").text)

    assert (again.status_code, other.status_code) == (400, 400)
    assert "answered already" in again.text


@pytest.mark.costly
def test_only_so_many_questions_are_kept(root):
    with pages(root, can_write=True) as client:
        first = asked(client, "suspend", plugin="index").text
        for _ in range(100):
            last = asked(client, "suspend", plugin="index").text
        answers = [confirmed(client, "suspend", each).status_code for each in (first, last)]

    assert answers == [400, 303]


def test_a_question_is_kept_for_ten_minutes():
    now = [0.0]
    kept = Confirmations(clock=lambda: now[0])
    action = ACTIONS["suspend"]({"plugin": "index"})
    words = [kept.ask(action), kept.ask(action)]

    now[0] = 600.0
    assert kept.take(words[0]) is action
    now[0] = 600.1
    with pytest.raises(BadRequestError, match="too old"):
        kept.take(words[1])


@pytest.mark.parametrize(
    ("action", "values"),
    [
        ("send", {"topic": ""}),
        ("send", {"topic": "t", "queue": "x"}),
        ("send", {"topic": "t", "queue": "1" * 15}),
        ("send", {"topic": "t", "properties": "no value"}),
        ("send", {"topic": "t" * 300}),
        ("send", {"topic": "t", "body": "x" * 20_000}),
        ("send", {"topic": "orders", "queue": "3"}),
        ("send", {"topic": "orders", "properties": "DELAY=3"}),
        ("send", {"topic": "orders", "properties": "a=b\nTRAN_MSG=true"}),
        ("send", {"topic": "RMQ_SYS_TRANS_HALF_TOPIC"}),
        ("send", {"topic": "SCHEDULE_TOPIC_XXXX"}),
        ("send", {"topic": "%DLQ%billing"}),
        ("create-topic", {"topic": "a b", "perm": "rw"}),
        ("create-topic", {"topic": "t", "perm": "rwx"}),
        ("create-topic", {"topic": "t", "perm": "rw", "queues": "0"}),
        ("reset-offset", {"group": "billing", "topic": "orders", "to": "yesterday"}),
        ("reset-offset", {"group": "<g>", "topic": "orders", "to": "latest"}),
        ("reset-offset", {"group": "billing", "topic": "nowhere", "to": "latest"}),
        ("resend", {"at": "0", "group": "billing"}),
        ("resend", {"at": "1", "group": "billing"}),
        ("suspend", {"plugin": "nothing"}),
    ],
)
def test_values_that_mean_nothing_are_refused_before_the_question(root, action, values):
    with pages(root, can_write=True) as client:
        answer = asked(client, action, **values)
        log = client.get("/actions.json").json()["actions"]

    assert answer.status_code in (400, 404)
    assert "confirmed" not in answer.text
    assert log == []


def test_the_largest_form_is_taken_and_a_larger_one_refused(root):
    texts = [each for each in ACTIONS["send"].fields if each.name not in ("topic", "queue")]
    values = {each.name: "\U00010000" * each.most for each in texts}
    values |= {"topic": "orders", "queue": "2", "properties": f"a={'中' * 4_094}"}
    with pages(root, can_write=True) as client:
        answer = asked(client, "send", **values)
        larger = [
            client.post(path, content=b"x" * 330_000, headers=OWN)
            for path in ("/action/send", "/doctor")
        ]

    assert (answer.status_code, "confirmed" in answer.text) == (200, True), answer.text
    for each in larger:
        assert (each.status_code, "too long" in each.text) == (413, True)


def test_a_store_that_another_process_writes_is_left_alone_and_the_page_says_how_to_go_on(root):
    with pages(root, can_write=True) as client:
        question = asked(client, "send", topic="orders", body="x").text
        with reput.open(root) as store:
            end = store.log.max_physical_offset
            answer = confirmed(client, "send", question)
            assert store.log.max_physical_offset == end

    assert answer.status_code == 409
    assert f"Process {os.getpid()}" in answer.text
    assert "--web-write" in answer.text
    assert not (root / "reput" / "web").exists()


@pytest.mark.parametrize("foreign", ["consumequeue/CURRENT", "dledger-n0/data/0"])
@pytest.mark.parametrize(
    ("action", "values"),
    [("send", {"topic": "orders"}), ("create-topic", {"topic": "t"}), ("suspend", {})],
)
def test_nothing_is_written_beside_files_that_a_writer_refuses(root, foreign, action, values):
    with pages(root, can_write=True) as client:
        question = asked(client, action, perm="rw", plugin="index", **values).text
        (root / foreign).parent.mkdir(parents=True, exist_ok=True)
        (root / foreign).touch()
        before = sorted(root.rglob("*"))
        answer = confirmed(client, action, question)

        assert answer.status_code == 409
        assert foreign.partition("/")[0] in answer.text
        assert sorted(root.rglob("*")) == before


@pytest.mark.parametrize(
    ("perm", "queue"), [("r", ""), ("rw", "3"), ("rw", "65536")], ids=["reads", "few", "most"]
)
def test_a_message_that_a_broker_would_refuse_is_not_stored(root, perm, queue):
    values = {"topic": "parcels", "queue": queue}
    with pages(root, can_write=True) as client:
        other = asked(client, "create-topic", topic="parcels", queues="3", perm=perm)
        question = asked(client, "send", **values)
        confirmed(client, "create-topic", other.text)
        late = confirmed(client, "send", question.text)
        early = asked(client, "send", **values)
        topics = client.get("/topics.json").json()["topics"]

    assert (late.status_code, early.status_code) == (409, 400)
    assert "parcels" in Elements(late.text).text
    assert "parcels" not in {each["topic"] for each in topics}


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_hostile_values_stay_text_in_forms_and_questions(root, action):
    with pages(root, can_write=True) as client:
        form = client.get(f"/action/{action}").text
        shell = [each for each in Elements(form).tags if each[0] in RISKY]
        for piece in PIECES:
            values = {each.name: piece for each in ACTIONS[action].fields}
            values |= {"queue": "", "queues": "", "perm": "rw", "properties": f"a={piece}"}
            if action == "reset-offset":
                values |= {"to": "latest"}
            if action == "send" and PIECES.index(piece) % 2:  # else the form is refused
                values |= {"topic": "orders"}
            for answer in (
                client.get(f"/action/{action}", params=values),
                client.post(
                    f"/action/{action}", data={**values, "token": field(form, "token")}, headers=OWN
                ),
            ):
                found = Elements(answer.text)
                assert answer.status_code < 500, piece
                assert [each for each in found.tags if each[0] in RISKY] == shell
                assert not [name for name, _ in found.attributes() if name.startswith("on")]


# --------------------------------------------------------------------------- the log


def test_the_log_is_bounded_and_keeps_the_newest(tmp_path, monkeypatch):
    monkeypatch.setattr(actionlog, "KEPT", 3)
    log = ActionLog(str(tmp_path))
    (tmp_path / "reput").mkdir()
    for number in range(5):
        log.end(log.begin("send", {"body": "x" * 9_000}, f"{number}"), "done", "y" * 9_000)

    assert [each.actor for each in log.read()] == ["4", "3", "2"]
    assert os.path.getsize(log.path) < 5_000


@pytest.mark.parametrize(("text", "count"), [("x", 7), ("中", 2), ("\0", 1), ("\udcff", 1)])
def test_the_log_has_no_more_entries_than_it_can_read_again(tmp_path, monkeypatch, text, count):
    monkeypatch.setattr(actionlog, "_SIZE_MAX", 8_000)
    log = ActionLog(str(tmp_path))
    (tmp_path / "reput").mkdir()
    for number in range(9):
        log.end(
            log.begin("send", {"body": text * 300, "keys": text * 300}, f"{number}"),
            "done",
            text * 300,
        )

    found = log.read()
    assert [each.actor for each in found] == [f"{8 - each}" for each in range(count)]
    assert {each.text for each in found} == {text * 300}


def test_actions_at_the_same_time_are_all_in_the_log(tmp_path):
    (tmp_path / "reput").mkdir()

    def write():
        log = ActionLog(str(tmp_path))
        for _ in range(20):
            log.end(log.begin("send", {}, "me"), "done", "")

    threads = [threading.Thread(target=write) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert [each.state for each in ActionLog(str(tmp_path)).read()] == ["done"] * 80


@pytest.mark.parametrize("damage", ["{}", "[1]", '[{"id": 1}]', "\x00", "[" * 100_000])
def test_nothing_is_done_that_cannot_be_logged(root, damage):
    with pages(root, can_write=True) as client:
        question = asked(client, "send", topic="orders", body="x").text
        log = ActionLog(str(root))
        os.makedirs(os.path.dirname(log.path))
        with open(log.path, "w", encoding="utf-8") as file:
            file.write(damage)
        before = client.get("/overview.json").json()["log_end"]
        answer = confirmed(client, "send", question)
        shown = client.get("/actions")

        assert answer.status_code == 409
        assert "nothing was done" in answer.text
        assert client.get("/overview.json").json()["log_end"] == before
        assert shown.status_code == 503
        assert "remove the file" in shown.text


def test_the_log_follows_no_link_out_of_the_store(root, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / "reput" / "web").symlink_to(outside)

    with pages(root, can_write=True) as client:
        question = asked(client, "suspend", plugin="index").text
        answer = confirmed(client, "suspend", question)

    assert answer.status_code == 409
    assert list(outside.iterdir()) == []


def test_an_action_that_was_cut_short_stays_visible(root):
    ActionLog(str(root)).begin("send", {"topic": "<i>"}, "me@::1")

    with pages(root) as client:
        page = client.get("/actions").text
        (entry,) = json.loads(client.get("/actions.json").text)["actions"]

    assert entry["state"] == "begun"
    assert "topic=<i>" in Elements(page).text
