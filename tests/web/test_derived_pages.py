"""Pages of open transactions, compacted topics, selected times, bytes and repairs."""

from __future__ import annotations

import shutil

import pytest
from webpages import HOUR_MS, Elements, kept_store, pages

import reput
from reput_web.readmodel import queuepages
from reput_web.readmodel.workbudget import WorkBudget


@pytest.fixture(scope="module")
def kept_root(tmp_path_factory):
    return kept_store(tmp_path_factory.mktemp("kept") / "store")


@pytest.fixture(scope="module")
def kept(kept_root):
    with pages(kept_root) as client:
        yield client


def every_page(client, address, name):
    """The values of a name in all pages, one behind the other."""
    found = []
    while address is not None:
        document = client.get(address).json()
        found += (document.get("transactions") or document.get("page"))[name]
        address = document["next"]
    return found


# --------------------------------------------------------------------------- transactions


def test_open_transactions_are_listed_by_age_and_lead_to_their_messages(kept):
    found = kept.get("/transactions.json").json()["transactions"]

    assert [each["keys"] for each in found["rows"]] == [["half-2"], ["half-3"], ["half-4"]]
    assert (found["open_count"], found["left_size"]) == (3, 0)
    assert found["oldest_timestamp"] == found["rows"][0]["born_timestamp"]
    assert every_page(kept, "/transactions.json?count=1", "rows") == found["rows"]
    (own,) = kept.get("/transactions.json?group=producers-1").json()["transactions"]["rows"]
    assert own == found["rows"][1]
    links = Elements(kept.get("/transactions").text).links()
    for each in found["rows"]:
        at = each["physical_offset"]
        assert {f"/message?at={at}", f"/story?at={at}"} <= {*links}
        assert kept.get(f"/message.json?at={at}").json()["topic"] == "RMQ_SYS_TRANS_HALF_TOPIC"


@pytest.mark.costly
def test_the_log_is_read_on_by_further_requests_until_all_transactions_are_known(tmp_path):
    with reput.open(tmp_path, plugins=["transaction"], threads=False) as store:
        plugin = store.plugin("transaction")
        for number in range(3):
            plugin.prepare(reput.Message("t", b"x", keys=f"k{number}"))
            store.put_many([reput.Message("t", b"y" * 3_000) for _ in range(6_000)])
        first = plugin.prepare(reput.Message("t", b"x", keys="ended"))
        plugin.commit(first)
        end = store.log.max_physical_offset
        # What the loop has not dispatched, a reader has to read.
        with pages(tmp_path, request_seconds=1e-9) as client:
            seen = [client.get("/transactions.json").json()["transactions"] for _ in range(40)]
            page = client.get("/transactions").text

    left = [each["left_size"] for each in seen]
    assert 0 < left[0] < end
    assert left == sorted(left, reverse=True)
    assert left[-1] == 0
    assert seen[-1]["open_count"] == 3
    assert "k0" in page


def test_transactions_of_a_group_are_looked_for_a_request_at_a_time(kept_root):
    with pages(kept_root, request_seconds=1e-9) as client:
        while client.get("/transactions.json").json()["transactions"]["left_size"]:
            pass
        first = Elements(client.get("/transactions?group=producers-1").text).text
        found = every_page(client, "/transactions.json?group=producers-1", "rows")

    assert "half-3" not in first
    assert "No transaction is open" not in first
    assert [each["keys"] for each in found] == [["half-3"]]


def test_transactions_are_found_in_the_directory_of_a_broker(kept_root, tmp_path):
    root = shutil.copytree(kept_root, tmp_path / "broker", ignore=shutil.ignore_patterns("reput"))
    with pages(root) as client:
        found = client.get("/transactions.json").json()["transactions"]

        assert [each["keys"] for each in found["rows"]] == [["half-2"], ["half-3"], ["half-4"]]


# --------------------------------------------------------------------------- compaction


def test_a_compacted_topic_has_its_queues_keys_and_versions(kept):
    document = kept.get("/compaction.json?topic=prices&queue=0").json()
    newest = {each["key"]: each["newest"] for each in document["page"]["keys"]}

    assert [each["message_count"] for each in document["queues"]] == [12, 13]
    assert [each["compacted_to"] for each in document["queues"]] == [21, 20]
    assert {key: each["queue_offset"] for key, each in newest.items()} == {
        "SKU-0": 27,
        "SKU-2": 28,
        "SKU-4": 29,
    }
    assert newest["SKU-4"]["is_tombstone"]
    paged = every_page(kept, "/compaction.json?topic=prices&queue=0&count=2", "keys")
    assert {each["key"]: each["newest"] for each in paged} == newest
    (row,) = [
        each for each in kept.get("/topics.json").json()["topics"] if each["topic"] == "prices"
    ]
    assert (row["kind"], row["message_count"]) == ("compacted", 25)


def test_a_key_has_versions_that_are_kept_and_that_only_the_log_has(kept):
    address = "/compaction.json?topic=prices&key=SKU-4"
    page = kept.get(address).json()["page"]

    assert [each["queue_offset"] for each in page["versions"]] == [20, 23, 26, 29]
    assert [each["queue_offset"] for each in page["superseded"]] == [17, 14, 11, 8, 5, 2]
    assert every_page(kept, f"{address}&count=1", "versions") == page["versions"]
    for each in page["superseded"]:
        lead = kept.get(f"/message.json?at={each['physical_offset']}").json()["leads"][0]
        assert (lead["kind"], lead["leads_here"]) == ("compacted", False)


@pytest.mark.costly
def test_messages_of_a_compacted_topic_lead_to_their_own_pages(kept):
    for order in ("newest", "oldest"):
        for queue, offsets in (
            ("0", [18, 19, *range(20, 30)]),
            ("1", [17, 18, 19, *range(20, 30)]),
        ):
            address = f"/messages.json?topic=prices&queue={queue}&order={order}&count=3"
            rows = []
            while address:
                document = kept.get(address).json()
                rows += document["rows"]
                address = document["next"]
            expected = offsets if order == "oldest" else offsets[::-1]
            assert [each["queue_offset"] for each in rows] == expected
    links = Elements(kept.get("/messages?topic=prices").text).links()
    own = [each for each in links if each.startswith("/message?topic=prices")]
    assert len(own) == 25
    for link in own:
        found = kept.get(link.replace("?", ".json?")).json()
        place = f"topic=prices&queue={found['queue_id']}&offset={found['queue_offset']}"
        assert link == f"/message?{place}"
        assert found["is_compacted"]
        if found["before_in_queue"] is not None:
            assert found["before_in_queue"] < found["queue_offset"]
        assert len(kept.get(f"/body?{place}").content) == found["body"]["size"]
    last = kept.get("/message.json?topic=prices&queue=0&offset=18").json()
    assert (last["before_in_queue"], last["after_in_queue"]) == (None, 19)


class Counted:
    """A store that counts the messages that are read of its queues."""

    def __init__(self, store):
        self.store, self.count = store, 0

    def read(self, *arguments):
        found = self.store.read(*arguments)
        self.count += len(found)
        return found

    def __getattr__(self, name):
        return getattr(self.store, name)


@pytest.fixture(scope="module")
def sparse_root(tmp_path_factory):
    """A compacted queue: 1,000 messages, a gap of 2,999, ten with gaps of 99, and 1,000 more."""
    root = tmp_path_factory.mktemp("sparse") / "store"
    keys = [f"a{number}" for number in range(1_000)] + ["same"] * 3_000
    keys += [f"c{number // 100}" for number in range(1_000)]
    keys += [f"d{number}" for number in range(1_000)]
    options = {"compaction": {"topics": ["prices"]}}
    plugins = ("consumequeue", "compaction")
    with reput.open(root, plugins=plugins, config=options, threads=False) as store:
        store.put_many([reput.Message("prices", b"x", 0, keys=each) for each in keys])
        store.wait_dispatched()
        store.plugin("compaction").compact()
    return root


@pytest.mark.parametrize(
    ("is_oldest_first", "offset"),
    [(True, 1_000), (True, 4_000), (False, 3_998), (False, 4_999)],
)
def test_few_messages_are_read_beside_gaps(sparse_root, is_oldest_first, offset):
    kept = [*range(1_000), *range(3_999, 5_000, 100), *range(5_000, 6_000)]
    pages = queuepages.oldest_first if is_oldest_first else queuepages.newest_first
    wanted = queuepages.QueueRange(offset=offset, is_compacted=True)
    expected = [each for each in kept if each >= offset]
    if not is_oldest_first:
        expected = [each for each in reversed(kept) if each <= offset]

    with reput.open(sparse_root, mode="r", plugins=["consumequeue", "compaction"]) as store:
        counted = Counted(store)
        page = pages(counted, store.queues(), wanted, 20, WorkBudget(60.0))

    assert [each.queue_offset for each in page.rows] == expected[:20]
    assert counted.count <= 200


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/compaction?topic=orders", 404),
        ("/compaction?key=x", 400),
        ("/message?topic=prices&queue=0&offset=3", 404),
        ("/message?topic=orders&queue=0&offset=0", 404),
        ("/transactions?at=x", 400),
    ],
)
def test_what_is_not_there_or_not_valid_is_refused(kept, address, status):
    assert kept.get(address).status_code == status


# --------------------------------------------------------------------------- times, leads


@pytest.mark.costly
def test_a_time_is_selected_without_scripts_and_the_page_shows_it(story):
    whole = story.get("/overview.json").json()["activity"]
    page = Elements(story.get("/overview").text)
    (form,) = [found for tag, found in page.tags if found.get("class") == "selection"]
    values = [found["value"] for tag, found in page.tags if tag == "option"]
    starts = values[: len(values) // 2]

    assert form["action"] == "/overview"
    assert starts[0] == f"@{whole['start']}"
    since, until = int(starts[2][1:]), int(starts[5][1:]) - 1
    part = story.get(f"/overview.json?since=@{since}&until=@{until}").json()["activity"]
    assert sum(part["counts"]) == sum(whole["counts"][2:5])
    zoomed = Elements(story.get(f"/overview?since=@{since}&until=@{until}").text)
    assert "/overview" in zoomed.links()
    for link in [each for each in zoomed.links() if each.startswith("/overview?since=")]:
        assert story.get(link).status_code == 200
    later = until + 1_000 * HOUR_MS
    empty = story.get(f"/topic?name=orders&since=@{later}&until=@{later + HOUR_MS}")
    assert (empty.status_code, "No messages in this time." in empty.text) == (200, True)


def test_the_note_of_the_timer_wheel_leads_to_a_timed_message(kept):
    (row,) = kept.get("/messages.json?topic=rmq_sys_wheel_timer").json()["rows"]
    found = kept.get(f"/message.json?at={row['physical_offset']}").json()

    (lead,) = [each for each in found["leads"] if each["kind"] == "timer"]
    out = dict(each[:2] for each in found["properties"])["TIMER_OUT_MS"]
    assert (lead["leads_here"], lead["name"]) == (True, f"{int(out) // 1000 * 1000}")


def test_a_group_shows_its_dead_letters_with_their_cause(story):
    (letter,) = story.get("/group.json?name=billing").json()["dead_letters"]

    assert (letter["times"], letter["cause"]) == (3, "the consumer gave it up")
    assert letter["topic"] == "orders"
    page = Elements(story.get("/group?name=billing").text)
    assert f"/story?at={letter['physical_offset']}" in page.links()


# --------------------------------------------------------------------------- doctor


def planned(client, *questions):
    for what in questions:
        client.post("/doctor", content=what, headers={"sec-fetch-site": "same-origin"})
        jobs = client.app.inner.state.jobs
        assert all(job.over.wait(60) for job in jobs.last.values())
    return client.get("/doctor.json").json()["plan"], Elements(client.get("/doctor").text)


def test_a_plan_says_that_derived_files_were_not_compared(kept):
    plan, page = planned(kept, "plan=1")

    assert (plan["repair"]["is_needed"], plan["repair"]["was_compared"]) == (False, False)
    assert "Derived files were not compared with the log." in page.text


def test_the_plan_of_a_repair_is_shown_and_changes_nothing(golden_store):
    root = golden_store("crash-bit-flip")
    before = {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
    with pages(root) as client:
        plan, page = planned(client, "plan=1", "")
        (link,) = {each for each in page.links() if each.startswith("/bytes?file=commitlog")}
        part = client.get(link.replace("?", ".json?")).json()
        shown = client.get(link)

    assert plan["error"] is None
    assert plan["repair"]["lost_message_count"] == 1
    assert "reput repair" in page.text
    after = {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
    assert {path for path in before if before[path] != after[path]} == set()
    file = root / part["file"]
    assert bytes.fromhex(part["data"]) == file.read_bytes()[part["position"] :][:1024]
    assert part["position"] <= part["marked"][0] < part["position"] + 1024
    assert "<mark>" in shown.text


@pytest.mark.parametrize(
    ("file", "status"),
    [
        ("../../etc/passwd", 400),
        ("/etc/passwd", 400),
        ("commitlog/../../x", 400),
        ("config/topics.json", 400),
        ("commitlog/./x", 400),
        ("commitlog", 404),
        ("commitlog/nothing", 404),
        ("link", 503),
    ],
)
def test_only_bytes_of_the_stores_own_files_are_shown(tmp_path, file, status):
    (tmp_path / "secret").write_text("hidden words")
    with reput.open(tmp_path / "store") as store:
        store.put(reput.Message("t", b"x"))
    (tmp_path / "store" / "link").symlink_to(tmp_path / "secret")

    with pages(tmp_path / "store") as client:
        answer = client.get("/bytes", params={"file": file})

    assert answer.status_code == status
    assert "hidden words" not in answer.text


def test_a_chart_that_is_not_complete_is_counted_by_the_next_request(tmp_path):
    with reput.open(tmp_path) as store:
        store.put_many([reput.Message(f"t{n}", b"x", 0) for n in range(30)])
        store.wait_dispatched()
    with pages(tmp_path, request_seconds=1e-9) as client:
        document = client.get("/overview.json").json()
        page = Elements(client.get("/overview").text)
    with pages(tmp_path) as client:
        whole = Elements(client.get("/overview?count=1").text)

    assert document["activity"]["is_partial"]
    assert sum(document["activity"]["counts"]) < 30
    loads = [found["hx-get"] for _, found in page.tags if found.get("id") == "activity"]
    assert loads == ["/overview?count=1"]
    assert "/overview?count=1" in page.links()
    assert "/overview?count=1" not in whole.links()
