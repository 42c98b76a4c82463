"""`reput report`: figures of stores that RocketMQ wrote, and of one with everything in it."""

from __future__ import annotations

import collections
import copy
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Outcome, commands
from hypothesis import given, settings
from hypothesis import strategies as st
from reportedstore import HALVES, HOUR_MS, NOW, STRANGE, make_store, write_wheel
from statefiles import change_manifest

import reput
from reput import Message
from reput_tools.doctor.groupedaggregates import GroupedAggregates
from reput_tools.doctor.statistics import counts, logcount
from reput_tools.doctor.statistics.halfmessages import HalfMessages, dangling
from reput_tools.doctor.storereport.reportbuilder import make_report
from reput_tools.doctor.storereport.reportmodel import StoreReport
from reput_tools.doctor.storereport.view.page import report_page

Rows = Callable[[str, str], list[dict[str, Any]]]


@pytest.fixture
def run() -> Iterator[Callable[..., Outcome]]:
    with commands() as run:
        yield run


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reported") / "store"
    make_store(path)
    return path


@pytest.fixture
def rich(made: Path, tmp_path: Path) -> Path:
    """A copy of the store, to be changed."""
    shutil.copytree(made, tmp_path / "store")
    return tmp_path / "store"


def report_of(path: Path, **more: Any) -> StoreReport:
    return make_report(path, **{"jobs": 1, "clock": lambda: NOW, **more})


# ---------------------------------------------------------------------- what RocketMQ wrote


@pytest.mark.parametrize("case", ["basic", "v6", "batch", "slow"])
def test_queues_have_the_ranges_that_java_says(
    case: str, golden_store: Callable[[str], Path], golden_rows: Rows
) -> None:
    said = {
        (row["topic"], row["queue_id"]): (row["min_offset"], row["max_offset"])
        for row in golden_rows(case, "queue")
    }

    found = report_of(golden_store(case))

    assert said == {
        (each.topic, each.queue_id): (each.min_queue_offset, each.max_queue_offset)
        for each in found.queues
    }
    assert found.message_count == sum(high - low for low, high in said.values())


@pytest.mark.parametrize("case", ["basic", "transaction", "delay", "ext"])
def test_counts_are_those_of_what_was_put(
    case: str, golden_store: Callable[[str], Path], golden_rows: Rows
) -> None:
    puts = golden_rows(case, "put")
    sizes = collections.Counter[str]()
    bodies = collections.Counter[str]()
    for put in puts:
        if put["topic"] != "SCHEDULE_TOPIC_XXXX":
            sizes[put["topic"]] += 1
            bodies[put["topic"]] += len(put["body"]) // 2

    found = report_of(golden_store(case))

    topics = {each.topic: each for each in found.topics}
    if (
        case == "delay"
    ):  # a third of the messages stands in the delay topic, and once more delivered
        assert found.message_count > len(puts)
        assert sum(each.parked for each in found.delay_levels) == sum(
            1 for _ in _units(golden_rows, "delay", "SCHEDULE_TOPIC_XXXX")
        )
        assert any("config/delayOffset.json" in note for note in found.notes)
        return
    assert {name: each.message_count for name, each in topics.items()} == sizes
    assert {name: each.body_size for name, each in topics.items()} == bodies
    assert found.size == sum(put["size"] for put in puts)
    assert found.sizes.largest == max(len(put["body"]) // 2 for put in puts)
    sent_again = sum(1 for put in puts if put["reconsume_times"] > 0)
    assert sum(each.sent_again for each in found.topics) == sent_again


def _units(golden_rows: Rows, case: str, topic: str) -> Iterator[list[int]]:
    for row in golden_rows(case, "queue"):
        if row["topic"] == topic:
            yield from row["units"]


def test_transaction_bits_are_counted(
    golden_store: Callable[[str], Path], golden_rows: Rows
) -> None:
    kinds = collections.Counter(put["sys_flag"] & 0xC for put in golden_rows("transaction", "put"))

    found = report_of(golden_store("transaction")).transactions

    assert (found.prepared, found.committed, found.rolled_back) == (kinds[4], kinds[8], kinds[12])
    assert found.prepared > 0


def test_damage_is_named_and_what_follows_it_is_counted(
    golden_store: Callable[[str], Path], golden_rows: Rows, run: Callable[..., Outcome]
) -> None:
    path = golden_store("crash-bit-flip")

    outcome = run("report", path, "--json")

    found = outcome.json
    [damage] = found["damages"]
    assert outcome.code == 1
    assert (damage["reason"], damage["topic"]) == ("BODY_CRC", "orders")
    assert found["concerns"][0]["severity"] == "loss"
    assert damage["physical_offset"] + damage["size"] < found["log"]["end_offset"]


@pytest.mark.costly
def test_every_damage_is_listed_whatever_the_number_of_processes(
    golden_store: Callable[[str], Path], golden_rows: Rows
) -> None:
    path = golden_store("demo")
    whole = report_of(path)
    places = sorted(place for place, _, _ in _units(golden_rows, "demo", "orders"))
    log = sorted((path / "commitlog").iterdir())[0]
    data = bytearray(log.read_bytes())
    for number in (100, 9_000, 20_000):
        body = places[number] + 88
        data[body : body + 10] = b"\xff" * 10
    log.write_bytes(data)

    alone, together = report_of(path), report_of(path, jobs=2)

    assert alone.damage_count == 3
    assert [each["position"] for each in alone.damages] == [
        places[number] for number in (100, 9_000, 20_000)
    ]
    assert whole.message_count - alone.message_count == 3
    plain = {"seconds": 0.0, "made_timestamp": 0}
    assert {**alone.as_json(), **plain} == {**together.as_json(), **plain}


# ---------------------------------------------------------------------- a store with everything


def test_lag_is_that_of_the_queues_and_since_when(rich: Path) -> None:
    groups = {(each.group, each.topic): each for each in report_of(rich).groups or ()}

    shop = groups["shop", "orders"]
    assert [each.lag for each in shop.queues] == [180, 190, 141]
    assert [each.end for each in shop.queues] == [240] * 3
    # Five messages of each queue an hour: queue offset 50 is the first of the eleventh hour.
    assert [each.waiting_since_timestamp for each in shop.queues] == [
        NOW - 36 * HOUR_MS,
        NOW - 38 * HOUR_MS,
        NOW - 29 * HOUR_MS,
    ]
    assert (shop.lag, shop.ahead, shop.uncommitted) == (511, 0, 1)
    assert (groups["ahead", "audit"].lag, groups["ahead", "audit"].ahead) == (0, 1)
    audit = groups["shop", "audit"]
    assert (audit.lag, audit.waiting_since_timestamp) == (4 * (1 + 23) * 6, NOW - 48 * HOUR_MS)
    bold = groups["<b>bold</b>", "audit"]
    assert (bold.lag, bold.unknown, bold.waiting_since_timestamp) == (
        4 * (1 + 23) * 6 - 5,
        1,
        NOW - 46 * HOUR_MS,
    )
    assert groups["billing", "%RETRY%billing"].lag == 4


def test_retries_and_dead_letters_are_told_by_group(rich: Path) -> None:
    [billing] = report_of(rich).retries

    assert (billing.group, billing.retries, billing.retries_waiting) == ("billing", 24, 4)
    assert (billing.dead_letters, billing.oldest_dead_letter_timestamp) == (8, NOW - 48 * HOUR_MS)
    assert billing.newest_dead_letter_timestamp == NOW - 6 * HOUR_MS


def test_delay_levels_wait_from_the_delivered_offset_on(rich: Path) -> None:
    [level] = report_of(rich).delay_levels

    assert (level.level, level.delivered_to, level.waiting, level.parked) == (3, 10, 6, 16)
    assert level.waiting_since_timestamp == NOW - 18 * HOUR_MS  # the sixth pair


def test_the_timer_wheel_is_read(rich: Path) -> None:
    due = [(NOW - HOUR_MS, 2), (NOW + HOUR_MS, 3), (NOW + 30 * HOUR_MS, 1)]
    write_wheel(rich, [(NOW - 9 * HOUR_MS, 100), *due], read=NOW - 2 * HOUR_MS, queue_offset=0)

    report = report_of(rich)

    timer = report.timer
    assert timer is not None
    assert (timer.waiting, timer.overdue) == (6, 2)  # slots before the read time are delivered
    # A slot of a second is delivered when the second is over.
    assert timer.first_due_timestamp == NOW - HOUR_MS + 1_000
    assert timer.last_due_timestamp == NOW + 30 * HOUR_MS + 1_000
    assert [each.message_count for each in timer.by_hour] == [2, 3, 1]
    (overdue,) = [each for each in report.concerns if "timer wheel" in each.text]
    assert overdue.text == (
        "2 messages on the timer wheel are overdue; 6 more wait in delay levels, due or not"
    )
    assert "deliver='always'" in overdue.advice


def test_open_transactions_are_those_without_an_op_message(rich: Path) -> None:
    found = report_of(rich).transactions

    # Below 3 all are finished by the offset of RocketMQ's check; 3, 4, 5 and 7 have op messages.
    assert found.half_count == HALVES
    assert [each.key for each in found.oldest] == ["K6", "K8", "K9", "K10", "K11"]
    assert found.open_count == 5
    assert found.oldest[0].group == "shop0"
    assert found.unread_ops == 1


@given(st.data())
@settings(max_examples=60)
def test_transactions_that_match_are_dropped_early_or_late(data: st.DataObject) -> None:
    places = st.tuples(st.integers(0, 1), st.integers(0, 8))
    few, many = HalfMessages(rows_max=1), HalfMessages()
    halves, ended, answered = set[tuple[int, int]](), set[tuple[int, int]](), set[int]()

    for _ in range(data.draw(st.integers(1, 4))):
        part = HalfMessages()
        for queue_id, offset in data.draw(st.sets(places)) - halves:
            halves.add((queue_id, offset))
            row = (queue_id, offset, 100 * queue_id + offset, 7)
            part.halves.append(np.array([row], np.int64))
        for place in data.draw(st.lists(places, max_size=4)):
            ended.add(place)
            part.ended.append(np.array([place], np.int64))
        for place in data.draw(st.lists(st.integers(0, 120), max_size=4)):
            answered.add(place)
            part.answered.append(np.array([place], np.int64))
        few.take(copy.deepcopy(part))
        many.take(part)

    expected = sorted(
        100 * queue_id + offset
        for queue_id, offset in halves - ended
        if 100 * queue_id + offset not in answered and (queue_id or offset >= 2)
    )
    for seen in (few, many):
        rows, _ = dangling(seen, {0: 2})
        assert rows[:, 2].tolist() == expected


def test_messages_are_counted_by_hour_and_age(rich: Path) -> None:
    found = report_of(rich)

    by_hour = collections.Counter[int]()
    for each in found.hours:
        by_hour[each.timestamp] += each.message_count
    assert sum(by_hour.values()) == found.message_count
    assert {each.timestamp % HOUR_MS for each in found.hours} == {0}
    assert sum(each.message_count for each in found.ages) == found.message_count
    assert sum(each.message_count for each in found.body_sizes) == found.message_count
    assert sum(each.message_count for each in found.delays) == found.message_count


def test_a_range_of_times_counts_only_its_messages_and_lags_stay(rich: Path) -> None:
    since, until = NOW - 10 * HOUR_MS, NOW - 5 * HOUR_MS

    whole, part = report_of(rich), report_of(rich, since=since, until=until)

    assert part.message_count == sum(
        each.message_count for each in report_of(rich, since=since).topics
    ) - sum(each.message_count for each in report_of(rich, since=until + 1).topics)
    assert 0 < part.message_count < whole.message_count
    assert (part.first_timestamp, part.last_timestamp) == (since, until)
    assert part.log.read_from > whole.log.read_from == 0
    assert [each.lag for each in part.groups or ()] == [each.lag for each in whole.groups or ()]


# ---------------------------------------------------------------------- pages and terminals


class _Page(HTMLParser):
    """What a page loads or runs, and its texts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: collections.Counter[str] = collections.Counter()
        self.texts: list[str] = []
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_loads_nothing_and_takes_no_name_for_html(rich: Path) -> None:
    write_wheel(rich, [(NOW + HOUR_MS, 3)], read=NOW, queue_offset=0)
    text = report_page(report_of(rich))

    page = _Page()
    page.feed(text)

    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    assert not {"src", "href", "onload", "onclick", "srcset"} & page.attributes
    assert "url(" not in text
    assert "@import" not in text
    assert "default-src 'none'" in text
    assert page.tags["svg"] == 2
    assert any('<script>alert("1")</script>' in each for each in page.texts)
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport"' in text


def test_a_terminal_gets_no_control_characters_of_names(
    rich: Path, run: Callable[..., Outcome]
) -> None:
    outcome = run("report", rich)

    assert outcome.code == 0
    assert "\x1b" not in outcome.out
    assert "\\u202e" in outcome.out
    for text in ("What needs a look", "Consumer groups", "Delay levels", "Transactions", "orders"):
        assert text in outcome.out
    assert outcome.out.index("What needs a look") < outcome.out.index("Totals")


def test_json_is_one_document_and_the_page_is_written_beside_it(
    rich: Path, tmp_path: Path, run: Callable[..., Outcome]
) -> None:
    page = tmp_path / "page.html"

    outcome = run("report", rich, "--json", "--html", page, "--since", f"@{NOW - 24 * HOUR_MS}")

    assert outcome.json["path"] == str(rich)
    assert STRANGE in {each["topic"] for each in outcome.json["topics"]}
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_what_is_wrong_on_the_command_line_is_said(
    rich: Path, tmp_path: Path, run: Callable[..., Outcome]
) -> None:
    assert run("report", rich, "--since", "never").code == 2
    assert run("report", rich, "--since", "12").code == 2
    assert run("report", tmp_path / "none").code == 3
    refused = run("report", rich, "--html", tmp_path / "no" / "directory.html")
    assert refused.code == 5
    assert "name another file" in refused.err


# ---------------------------------------------------------------------- always inspectable


def test_an_empty_store_has_a_report(tmp_path: Path) -> None:
    reput.open(tmp_path / "store", plugins=()).close()

    found = report_of(tmp_path / "store")

    assert (found.message_count, found.topics, found.first_timestamp) == (0, (), None)
    assert "no messages" in report_page(found)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe{",
        b"[" * 100_000,
        b'{"offsetTable":[1]}',
        b'{"offsetTable":{"no group":{0:1},"a@b":7,"c@d":{"x":1,0:-1,1:1e3,2:true}}}',
    ],
    ids=["empty", "no-text", "deep", "list", "odd"],
)
def test_damaged_offsets_are_said_beside_the_rest(rich: Path, content: bytes) -> None:
    for name in ("consumerOffset.json", "delayOffset.json"):
        (rich / "config" / name).write_bytes(content)
    (rich / "timerwheel").write_bytes(b"short")

    found = report_of(rich)

    assert found.message_count > 500
    assert any("consumerOffset.json" in each for each in found.problems)
    assert any("timerwheel" in each for each in found.problems)
    assert any("consumerOffset.json" in each.text for each in found.concerns)


def test_offsets_in_rocksdb_are_said_not_to_be_read(rich: Path) -> None:
    (rich / "config" / "consumerOffsets").mkdir()

    found = report_of(rich)

    assert any("RocksDB" in each for each in found.notes)
    assert found.groups


def test_a_damaged_offsets_file_is_one_warning(rich: Path, run: Callable[..., Outcome]) -> None:
    (rich / "config" / "consumerOffset.json").write_bytes(b"{")

    for command in ("report", "groups"):
        outcome = run(command, rich)
        assert (outcome.out + outcome.err).count("consumerOffset.json: ignored, because") == 1
        assert "offsets of groups were lost" not in outcome.err
    outcome = run("report", rich, "--json")

    assert outcome.code == 0
    assert outcome.err.count("consumerOffset.json") == 1
    assert any("consumerOffset.json" in each for each in outcome.json["problems"])


def test_short_files_and_damaged_notes_do_not_hide_the_rest(rich: Path) -> None:
    (rich / "reput" / "state").write_bytes(b"{")
    log = sorted((rich / "commitlog").iterdir())[0]
    os.truncate(log, 30_000)

    found = report_of(rich)

    assert found.problems
    assert found.message_count > 100


def test_a_plugin_that_is_not_installed_is_said(rich: Path) -> None:
    change_manifest(
        rich, lambda text: json.dumps({**json.loads(text), "plugins": ["thirdparty"]}).encode()
    )

    found = report_of(rich)

    [place] = [each for each in found.plugins if each.plugin == "thirdparty"]
    assert place.installed is None
    assert any("not installed" in each.text for each in found.concerns)


def test_beside_a_writer_the_report_ends_where_reading_began(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with reput.open(path, plugins=()) as store:
        for number in range(10):
            store.put(Message(topic="t", body=b"%d" % number))
        end = store.log.max_physical_offset

        found = report_of(path)

    assert found.message_count == 10
    assert (found.log.is_open, found.log.end_offset) == (True, end)
    assert "the report ends at" in report_page(found)


def test_times_that_damage_has_made_do_not_stretch_the_plot(tmp_path: Path) -> None:
    path = tmp_path / "store"
    now = [NOW]
    with reput.open(path, plugins=(), clock=lambda: now[0]) as store:
        for _ in range(20):
            store.put(Message(topic="t"))
        now[0] = 1 << 60
        store.put(Message(topic="t"))

    text = report_page(report_of(path))

    assert "1 message with store times far from the others" in text
    assert text.count("<rect") == 1


def test_files_that_a_writer_removes_meanwhile_are_no_damage(
    golden_store: Callable[[str], Path],
) -> None:
    path = golden_store("slow")
    first = sorted((path / "commitlog").iterdir())[0]
    whole = report_of(path)

    with pytest.MonkeyPatch.context() as patch:
        plan = logcount.plan_splits

        def planned(*arguments: Any) -> Any:
            splits = plan(*arguments)
            first.unlink()
            return splits

        patch.setattr(logcount, "plan_splits", planned)
        found = report_of(path)

    assert found.damage_count == 0
    assert 0 < found.message_count < whole.message_count
    assert any("65,536 bytes are not counted" in note for note in found.notes)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_bytes_are_wrong_there_is_a_report(rich: Path, seed: int) -> None:
    chance = random.Random(seed)
    write_wheel(rich, [(NOW + HOUR_MS, 3)], read=NOW, queue_offset=0)
    files = [path for path in rich.rglob("*") if path.is_file()]
    for path in chance.sample(files, min(4, len(files))):
        data = bytearray(path.read_bytes()[: 1 << 20])
        for _ in range(chance.randrange(1, 40)):
            if data:
                data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data[: chance.choice([len(data), len(data) // 2])])

    found = report_of(rich)

    assert report_page(found).endswith("</html>\n")
    assert json.dumps(found.as_json())


def test_more_topics_than_can_be_listed_are_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "TOPICS_MAX", 8)
    with reput.open(tmp_path / "store", plugins=()) as store:
        for number in range(20):
            store.put(Message(topic=f"t{number}", body=b"x"))

    found = report_of(tmp_path / "store")

    assert found.message_count == 20
    assert len(found.topics) == 6
    assert (found.topics[0].topic, found.topics[0].message_count) == ("(further topics)", 15)
    assert any("too many topics" in note for note in found.notes)


def test_keys_beyond_the_limit_are_folded_into_one() -> None:
    groups = GroupedAggregates((np.add, np.minimum), other_key=-1, rows_max=10)
    ones = np.ones(1_000, np.int64)

    for start in (0, 500):
        keys = np.arange(start, start + 1_000)
        groups.add(np.concatenate([keys, [7]]), (np.append(ones, 50), np.append(keys, 7)))
    keys, (counted, least) = groups.table()

    assert len(keys) == 10
    assert groups.was_folded
    assert counted.sum() == 2_100
    assert dict(zip(keys.tolist(), counted.tolist(), strict=True))[7] == 101
    assert least[keys == -1] == 0
