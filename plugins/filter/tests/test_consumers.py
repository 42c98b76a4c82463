"""Registered filters: their life, their file, their bits, and what a message's bit map decides."""

from __future__ import annotations

import json
import pickle

import attrs
import numpy as np
import pytest
from filter_batches import log_of
from hypothesis import given, settings
from hypothesis import strategies as st

import reput
import reput_filter
from reput.errors import ConfigError
from reput.record import Message
from reput_filter.consumerfilters.bloomfilter import BloomFilter
from reput_filter.consumerfilters.filterfile import check, decode, encode
from reput_filter.consumerfilters.filterregistry import FilterRegistry
from reput_filter.consumerfilters.registeredfilter import RegisteredFilter, RetryFilter, group_of
from reput_filter.plugin import FilterConfig, FilterPlugin
from reput_testing import Driver, ManualClock, PluginContract, SmallLog
from reput_tools import brokerfiles

NOW = 1_700_000_000_000


@pytest.fixture
def clock():
    return ManualClock(NOW)


@pytest.fixture
def consumers(clock):
    return FilterRegistry(BloomFilter.of(), clock)


# --------------------------------------------------------------------------- registering


def test_a_new_filter_is_taken_with_the_time_and_its_bits(consumers):
    assert consumers.register("CID_abc", "TopicTest", "a > 5", version=3)

    found = consumers.find("TopicTest", "CID_abc")
    assert (found.born_timestamp, found.dead_timestamp, found.version) == (NOW, 0, 3)
    assert found.positions == (103, 61, 29)
    assert found.bit_count == 112
    assert not found.is_dead


@pytest.mark.parametrize(
    ("expression", "kind"),
    [("a || b", "TAG"), ("a", None), ("a", ""), ("", "SQL92"), (None, "SQL92"), ("a >", "SQL92")],
)
def test_tags_nothing_and_nonsense_are_not_taken(expression, kind, consumers):
    assert not consumers.register("g", "t", expression, kind=kind)
    assert consumers.everyone() == []


def test_versions_decide_what_happens_to_a_filter_that_is_known(consumers, clock):
    assert consumers.register("g", "t", "a > 5", version=5)
    clock.now += 10
    assert not consumers.register("g", "t", "a > 6", version=4), "older"
    assert not consumers.register("g", "t", "a > 6", version=5), "the same, and alive"
    assert consumers.find("t", "g").expression == "a > 5"

    assert consumers.register("g", "t", "a > 5", version=6), "newer, nothing changed"
    assert (consumers.find("t", "g").version, consumers.find("t", "g").born_timestamp) == (6, NOW)

    assert consumers.register("g", "t", "a > 7", version=7), "newer, changed"
    assert consumers.find("t", "g").born_timestamp == NOW + 10
    assert consumers.find("t", "g").expression == "a > 7"

    assert not consumers.register("g", "t", "a >", version=8), "newer, and no condition"
    assert consumers.find("t", "g") is None


def test_a_group_that_comes_back_is_what_it_was(consumers, clock):
    consumers.register("g", "t", "a > 5", version=5)
    clock.now += 10
    consumers.unregister("g")
    assert consumers.find("t", "g").dead_timestamp == NOW + 10

    assert consumers.register("g", "t", "another = 1", version=5)

    found = consumers.find("t", "g")
    assert (found.is_dead, found.expression, found.born_timestamp) == (False, "a > 5", NOW)


def test_the_topics_that_a_group_does_not_name_are_dead(consumers):
    consumers.register_group("g", {"t1": "a > 5", "t2": "a > 5"})
    consumers.register("other", "t1", "a > 5")

    consumers.register_group("g", {"t2": "a > 5", "t3": "a > 5"})

    dead = {(each.topic, each.group) for each in consumers.everyone() if each.is_dead}
    assert dead == {("t1", "g")}
    assert len(consumers.everyone()) == 4


def test_filters_that_are_dead_for_long_are_forgotten(consumers, clock):
    consumers.register_group("g", {"t": "a > 5"})
    consumers.register("h", "t", "a > 5")
    consumers.unregister("g")

    consumers.save(forget_before=NOW - 1)
    assert len(consumers.everyone()) == 2
    consumers.save(forget_before=NOW)
    assert [each.group for each in consumers.everyone()] == ["h"]


def test_a_filter_is_never_born_before_a_message_that_was_indexed_without_it(consumers, clock):
    log = log_of([{"a": "6"}])
    (message,) = log.messages()
    clock.now = message.store_timestamp - 1000  # the clock went back
    for batch in log.batches():
        consumers.bit_maps(batch)

    consumers.register("g", "orders", "a > 5")

    assert consumers.find("orders", "g").born_timestamp >= message.store_timestamp


def test_what_is_saved_forgets_a_filter_before_its_bits_are_left_out(clock):
    seen = []

    def write(saved):
        computed = {(each.group, each.expression) for each in consumers.everyone()}
        known = {(each.group, each.expression) for each in saved}
        assert known <= computed
        assert all(each.born_timestamp <= clock.now for each in saved)
        seen.append(known)

    consumers = FilterRegistry(BloomFilter.of(), clock, write)
    consumers.register("g", "t", "a > 5", version=1)
    consumers.register("h", "t", "a > 5", version=1)

    consumers.register("g", "t", "a > 6", version=2)
    assert seen[-2:] == [{("h", "a > 5")}, {("h", "a > 5"), ("g", "a > 6")}]

    consumers.register("g", "t", "a >", version=3)
    assert seen[-1] == {("h", "a > 5")}

    consumers.unregister("h")
    consumers.save(forget_before=clock.now)
    assert seen[-1] == set()


def test_a_filter_that_could_not_be_saved_as_forgotten_stays(clock):
    def write(saved):
        if not saved:
            raise OSError(28, "full")

    consumers = FilterRegistry(BloomFilter.of(), clock, write)
    consumers.register("g", "t", "a > 5")
    consumers.unregister("g")

    with pytest.raises(OSError, match="full"):
        consumers.save(forget_before=clock.now)

    assert [each.group for each in consumers.everyone()] == ["g"]


# --------------------------------------------------------------------------- the file


SPECIFIED = """{
\t"filterDataByTopic":{
\t\t"TopicTest":{
\t\t\t"groupFilterData":{
\t\t\t\t"CID_abc":{
\t\t\t\t\t"bloomFilterData":{
\t\t\t\t\t\t"bitNum":112,
\t\t\t\t\t\t"bitPos":[103,61,29]
\t\t\t\t\t},
\t\t\t\t\t"bornTime":1700000000000,
\t\t\t\t\t"clientVersion":1700000000000,
\t\t\t\t\t"consumerGroup":"CID_abc",
\t\t\t\t\t"dead":false,
\t\t\t\t\t"deadTime":0,
\t\t\t\t\t"expression":"a > 5",
\t\t\t\t\t"expressionType":"SQL92",
\t\t\t\t\t"topic":"TopicTest"
\t\t\t\t}
\t\t\t},
\t\t\t"topic":"TopicTest"
\t\t}
\t}
}"""


DOCUMENT = brokerfiles.object_of(SPECIFIED.encode())


def test_the_file_is_the_one_of_the_specification(consumers):
    consumers.register("CID_abc", "TopicTest", "a > 5", version=NOW)

    assert brokerfiles.encode(encode(consumers.everyone())).decode() == SPECIFIED


def test_an_expression_that_looks_like_a_list_is_written_as_it_is(consumers):
    consumers.register("CID_abc", "TopicTest", "a = '[1, 2]'", version=NOW)

    written = json.loads(brokerfiles.encode(encode(consumers.everyone())))

    found = written["filterDataByTopic"]["TopicTest"]["groupFilterData"]["CID_abc"]
    assert found["expression"] == "a = '[1, 2]'"


@pytest.mark.parametrize(("later", "dead"), [(10, NOW), (60_000, NOW + 30_000)])
def test_what_is_loaded_is_dead_for_half_a_minute(later, dead):
    (found,) = decode(DOCUMENT, BloomFilter.of(), NOW + later)

    assert found.dead_timestamp == dead
    assert found.is_dead


def test_a_reader_takes_the_filters_as_they_are(consumers):
    consumers.register("g", "t", "a > 5", version=1)
    document = encode(consumers.everyone())

    assert decode(document, BloomFilter.of(), NOW, alive=True) == consumers.everyone()


def test_bits_of_other_maps_make_the_whole_file_worthless():
    assert decode(DOCUMENT, BloomFilter.of(20, 64), NOW) == []
    assert decode(DOCUMENT, BloomFilter.of(10, 32), NOW) == []


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_damaged_file_is_no_reason_to_fail(data):
    text = SPECIFIED
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 30))
    put = data.draw(st.sampled_from(["", "[]", "null", "-1", '"x"', "{}", "[" * 2000, "1e999"]))
    harmed = (text[:at] + put + text[at + cut :]).encode()

    try:
        document = brokerfiles.object_of(harmed)
        check(document)
    except ValueError:
        return

    for found in decode(document, BloomFilter.of(), NOW):
        assert found.may_want([bytes(14)], np.ones(1, np.int64)).shape == (1,)


@pytest.mark.parametrize("parameters", [(0, 32), (100, 32), (20, 0)])
def test_impossible_bloom_filters_are_refused(parameters):
    with pytest.raises(ConfigError):
        BloomFilter.of(*parameters)


# --------------------------------------------------------------------------- decisions


def decided(consumer, bit_map, store_timestamp=NOW + 1):
    return bool(consumer.may_want([bit_map], np.array([store_timestamp], np.int64))[0])


def test_what_a_bit_map_decides_by_the_table_of_the_specification(consumers):
    consumers.register("CID_abc", "TopicTest", "a > 5")
    consumer = consumers.find("TopicTest", "CID_abc")
    own = consumers.bloom.bits(consumer.positions)

    assert decided(consumer, None, -1), "no extend unit"
    assert decided(consumer, bytes(14), NOW), "stored in the millisecond of its birth"
    assert decided(consumer, bytes(14), NOW - 1), "stored before"
    assert decided(consumer, None), "no bit map"
    assert decided(consumer, bytes(13)), "a bit map of other size"
    assert decided(attrs.evolve(consumer, positions=(112, 1, 2)), bytes(14)), "positions outside"
    assert decided(consumer, own)
    assert decided(consumer, b"\xff" * 14)
    assert not decided(consumer, bytes(14))
    for position in consumer.positions:
        left = [each for each in consumer.positions if each != position]
        assert not decided(consumer, consumers.bloom.bits(left))


def registered(consumers, topic="t", group="g"):
    return RegisteredFilter(consumers.find(topic, group), consumers.find)


def may_match(chosen, bit_map):
    found = chosen.may_match(np.zeros(1, np.int64), [bit_map], np.array([NOW + 100], np.int64))
    return bool(found[0])


def test_what_the_record_decides_by_the_table_of_the_specification(consumers):
    consumers.register("g", "t", "a > 5")
    chosen = registered(consumers)

    assert chosen.matches({"a": "6"})
    assert not chosen.matches({"a": "5"})
    assert not chosen.matches({})
    assert not chosen.matches({"a": "six"})


def test_bit_maps_are_believed_as_long_as_the_filter_is_what_it_was(consumers, clock):
    consumers.register("g", "t", "a > 5", version=1)
    chosen = registered(consumers)
    assert not may_match(chosen, bytes(14))

    consumers.unregister("g")
    assert not may_match(chosen, bytes(14)), "dead, and its bits are computed still"
    consumers.register("g", "t", "a > 5", version=2)
    assert not may_match(chosen, bytes(14)), "back, and the same"

    consumers.register("g", "t", "a > 9", version=3)
    assert may_match(chosen, bytes(14)), "another now: its bits say something else"
    assert chosen.matches({"a": "6"})
    assert not may_match(registered(consumers), bytes(14))


def test_bit_maps_are_not_believed_any_more_when_the_filter_is_forgotten(consumers, clock):
    consumers.register("g", "t", "a > 5")
    chosen = registered(consumers)
    consumers.unregister("g")

    consumers.save(forget_before=NOW)
    assert may_match(chosen, bytes(14))

    clock.now += 1
    consumers.register("g", "t", "a > 5")
    assert may_match(chosen, bytes(14)), "some messages were indexed without it"


def test_a_registered_filter_pickles_as_its_condition(consumers):
    consumers.register("g", "t", "a > 5")

    again = pickle.loads(pickle.dumps(registered(consumers)))

    assert again == reput_filter.compile("a > 5")
    assert str(again) == str(registered(consumers)) == "a > 5"


def test_a_condition_that_is_not_registered_decides_nothing_by_the_queue():
    for made in (reput_filter.compile("a > 5"), reput_filter.tags()):
        found = made.may_match(np.zeros(2, np.int64), [None, bytes(14)], np.zeros(2, np.int64))
        assert found.tolist() == [True, True]


def test_a_retry_topic_is_filtered_by_the_filters_of_the_topics_behind_it(consumers):
    consumers.register("g", "orders", "a > 5")
    rows = [
        {"RETRY_TOPIC": "orders", "a": "6"},
        {"RETRY_TOPIC": "orders", "a": "4"},
        {"RETRY_TOPIC": "others", "a": "4"},
        {"a": "4"},
    ]
    assert group_of("%RETRY%g") == group_of("%RETRY%g+orders") == "g"
    assert group_of("orders") == ""
    chosen = RetryFilter(consumers.of_group("g"))

    assert [chosen.matches(row) for row in rows] == [True, False, True, True]
    assert may_match(chosen, bytes(14))
    for batch in log_of(rows, "%RETRY%g").batches():
        assert chosen.matches_batch(batch).tolist() == [True, False, True, True]


def test_a_read_of_a_retry_topic_is_filtered_so_when_the_option_says_so(tmp_path):
    for retry_topics, expected in ((False, reput_filter.Expression), (True, RetryFilter)):
        config = {"filter": {"retry_topics": retry_topics}}
        with reput.open(tmp_path / str(retry_topics), plugins=["filter"], config=config) as store:
            assert type(store.filter("a > 5", topic="%RETRY%g")) is expected
            assert type(store.filter("a > 5", topic="orders")) is reput_filter.Expression


# --------------------------------------------------------------------------- bit maps


def test_each_message_gets_the_bits_of_the_consumers_that_want_it(consumers):
    consumers.register("g1", "orders", "a > 5")
    consumers.register("g2", "orders", "b IS NULL")
    consumers.register("g3", "payments", "a > 5")
    consumers.unregister("g2")
    log = SmallLog.of(
        [
            Message(topic, properties={"a": str(number), "b": None if number % 2 else "x"})
            for number in range(10)
            for topic in ("orders", "payments", "refunds")
        ]
    )

    found = {}
    for batch in log.batches():
        columns = consumers.bit_maps(batch)
        for row in range(len(batch)):
            message = batch.message(row)
            size = int(columns["bit_map_size"][row])
            bit_map = columns["bit_map"][row].tobytes() if size else None
            found[message.topic, int(message.properties["a"])] = bit_map

    for (topic, number), bit_map in found.items():
        if topic == "refunds":
            assert bit_map is None
            continue
        positions = [
            position
            for each in consumers.of_topic(topic)
            if each.compiled.matches({"a": str(number), **({} if number % 2 else {"b": "x"})})
            for position in each.positions
        ]
        assert bit_map == consumers.bloom.bits(positions)


def test_a_batch_that_nobody_filters_gets_no_columns(consumers):
    consumers.register("g", "payments", "a > 5")

    for batch in log_of([{"a": "6"}]).batches():
        assert consumers.bit_maps(batch) is None


# --------------------------------------------------------------------------- the plugin


def test_registered_filters_are_there_after_a_restart_and_come_alive_again(tmp_path, clock):
    with reput.open(tmp_path, plugins=["filter"], clock=clock) as store:
        assert store.plugin_objects["filter"].register("g", "t", "a > 5", version=1)
        assert store.report()["plugins"]["filter"]["registered"] == 1
    saved = json.loads((tmp_path / "config" / "consumerFilter.json").read_bytes())
    assert list(saved["filterDataByTopic"]) == ["t"]

    clock.now += 60_000
    with reput.open(tmp_path, clock=clock) as store:
        plugin = store.plugin_objects["filter"]
        assert plugin.consumers.find("t", "g").is_dead
        assert plugin.register("g", "t", "a > 5", version=1)
        assert plugin.consumers.find("t", "g").born_timestamp == NOW


def test_a_reader_notices_what_the_writer_registers(tmp_path):
    with reput.open(tmp_path, plugins=["filter"]) as store:
        with reput.open(tmp_path, "r") as reader:
            assert isinstance(reader.filter("a > 5", topic="t"), reput_filter.Expression)

            store.plugin_objects["filter"].register("g", "t", "a > 5")

            found = reader.filter("a > 5", topic="t")
            assert (found.consumer.group, found.consumer.topic) == ("g", "t")
            assert isinstance(reader.filter("a > 5"), reput_filter.Expression)


def test_without_registered_filters_there_is_no_file(tmp_path):
    with reput.open(tmp_path, plugins=["filter"]) as store:
        store.plugin_objects["filter"].unregister("nobody")
        store.put(Message("t", b"x"))

    assert not (tmp_path / "config").exists()


class TestContract(PluginContract):
    plugin_name = "filter"
    config = {"bit_maps": True}  # noqa: RUF012 - the kit reads it only

    def files_of(self, root):
        return [f"{root}/config"]

    def state(self, plugin):
        return [each.member for each in plugin.consumers.everyone()]


def test_bit_maps_are_the_same_however_the_log_is_cut_into_batches(tmp_path):
    log = log_of([{"a": str(number)} for number in range(60)])

    class Seen(FilterPlugin):
        @reput.hookimpl
        def reput_dispatch(self, batch):
            maps = batch.column("bit_map")
            self.seen += [each.tobytes() for each in maps]

    def seen(cuts):
        plugin = Seen(FilterConfig(bit_maps=True))
        object.__setattr__(plugin, "seen", [])
        with Driver(
            plugin, "filter", tmp_path / str(len(cuts)), log, clock=ManualClock()
        ) as driver:
            plugin.register("g", "orders", "a > 30")
            driver.catch_up(cuts)
        return plugin.seen

    assert seen(()) == seen((7, 8, 40))
    assert len(set(seen(()))) == 2


@pytest.mark.parametrize("entry", ["7", '{"expressionType":"SQL92"}'])
def test_filters_that_cannot_be_read_are_kept_when_others_are_registered(tmp_path, entry):
    path = tmp_path / "store" / "config" / "consumerFilter.json"
    path.parent.mkdir(parents=True)
    data = f'{{"filterDataByTopic":{{"t":{{"groupFilterData":{{"g":{entry}}}}}}}}}'
    path.write_text(data)

    with reput.open(tmp_path / "store", plugins=["filter"], threads=False) as store:
        store.plugin("filter").register("h", "t", "a > 5")

    written = json.loads(path.read_bytes())["filterDataByTopic"]["t"]["groupFilterData"]
    assert list(written) == ["h"]
    assert path.with_name("consumerFilter.json.unreadable").read_text() == data


def test_a_file_that_an_editor_has_written_is_read(tmp_path):
    path = tmp_path / "store" / "config" / "consumerFilter.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\xef\xbb\xbf// ours\n" + SPECIFIED.replace("},", "},,").encode() + bytes(3))

    with reput.open(tmp_path / "store", plugins=["filter"], threads=False) as store:
        (found,) = store.plugin("filter").consumers.everyone()

    assert (found.group, found.expression) == ("CID_abc", "a > 5")
