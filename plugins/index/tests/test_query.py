"""Searches find the messages whose key it is, all of them, and say how to go on."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import reput
from reput.errors import NoReaderError
from reput_index import IndexConfig, IndexPlugin
from reput_testing import Driver, ManualClock, SmallLog

# All of the first five have the same Java hash.
WORDS = ["AaAa", "BBBB", "AaBB", "BBAa", "k", "k1", "订单", "😀", "x" * 40]
ALL = (-(1 << 63), (1 << 63) - 1)


def plugin(slots=5, items=12):
    return IndexPlugin(IndexConfig(slots_per_file=slots, items_per_file=items))


def ask(plugin, topic, key, **options):
    question = {
        "begin": ALL[0],
        "end": ALL[1],
        "limit": None,
        "oldest_first": False,
        "after": None,
        **options,
    }
    return plugin.reput_query(topic=topic, key=key, **question)


def ask_as_rocketmq(plugin, topic, key, begin=ALL[0]):
    return plugin.query_as_rocketmq(topic, key, begin, ALL[1])


def offsets(answer):
    return [message.physical_offset for message in answer]


class Model:
    """What is to be found, by a dictionary."""

    def __init__(self, log):
        self.found = {}
        for view in log.messages():
            if view.transaction == 12:
                continue
            properties = view.properties
            words = {properties.get("UNIQ_KEY"), *properties.get("KEYS", "").split(" ")}
            for word in words - {None, ""}:
                entry = (view.physical_offset, view.store_timestamp)
                self.found.setdefault((view.topic, word), []).append(entry)

    def ask(self, topic, key, begin, end, oldest_first):
        entries = self.found.get((topic, key), [])
        found = [offset for offset, time in entries if begin <= time <= end]
        return found if oldest_first else found[::-1]


@st.composite
def logs(draw):
    log = SmallLog(2048)
    for _ in range(draw(st.integers(0, 25))):
        properties = {}
        if draw(st.booleans()):
            properties["UNIQ_KEY"] = draw(st.sampled_from(["U1", "U2", "two words", *WORDS]))
        message = reput.Message(
            draw(st.sampled_from(["T", "TT", "T_k"])),
            b"",
            keys=draw(st.lists(st.sampled_from(["", *WORDS]), max_size=4).map(" ".join)) or None,
            properties=properties,
            sys_flag=draw(st.sampled_from([0, 0, 0, 4, 8, 12])),
        )
        log.append(message, after_ms=draw(st.sampled_from([0, 1, 400, 1_000, 5_000, -3_000])))
    return log


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    log=logs(),
    sizes=st.tuples(st.integers(1, 9), st.integers(2, 30)),
    cuts=st.sets(st.integers(0, 24)),
    data=st.data(),
)
@pytest.mark.costly
def test_answers_are_those_of_a_dictionary(tmp_path_factory, log, sizes, cuts, data):
    model = Model(log)
    times = sorted({view.store_timestamp for view in log.messages()}) or [0]
    moments = st.sampled_from([t + d for t in times for d in (-1, 0, 1)])
    with Driver(plugin(*sizes), "index", tmp_path_factory.mktemp("x"), log) as driver:
        driver.catch_up({cut for cut in cuts if cut < len(log.starts)})
        driver.flush()
        reader = Driver(plugin(), "index", driver.root, log, writable=False)
        with reader:
            for topic in ("T", "TT", "T_k"):
                for key in ["U1", "two words", "two", *WORDS]:
                    begin, end = data.draw(st.just(ALL) | st.tuples(moments, moments))
                    limit = data.draw(st.none() | st.integers(1, 3))
                    oldest_first = data.draw(st.booleans())
                    expected = model.ask(topic, key, begin, end, oldest_first)
                    options = {"begin": begin, "end": end, "oldest_first": oldest_first}
                    for each in (driver.plugin, reader.plugin):
                        found = pages(each, topic, key, limit, options)
                        assert found == expected, (topic, key, options)


def pages(plugin, topic, key, limit, options):
    """All messages, as many searches as it takes."""
    found, after = [], None
    while True:
        answer = ask(plugin, topic, key, limit=limit, after=after, **options)
        found += offsets(answer)
        if answer.is_complete:
            assert answer.after is None
            return found
        assert limit is not None
        assert len(answer) == limit
        after = answer.after


def filled(tmp_path, count=30, **sizes):
    log = SmallLog(2048)
    for number in range(count):
        keys = ["all", f"odd{number % 2}", f"n{number}"]
        log.append(reput.Message("T", b"%d" % number, keys=keys), after_ms=1_000)
    driver = Driver(plugin(**sizes), "index", tmp_path, log)
    driver.open()
    driver.catch_up()
    driver.flush()
    return driver


def test_a_full_page_that_is_the_last_one_says_so(tmp_path):
    driver = filled(tmp_path)

    assert not ask(driver.plugin, "T", "odd1", limit=14).is_complete
    assert ask(driver.plugin, "T", "odd1", limit=15).is_complete
    driver.close()


def test_messages_that_come_between_two_pages_are_not_told_twice(tmp_path):
    driver = filled(tmp_path)
    first = ask(driver.plugin, "T", "all", limit=10)
    driver.log.append(reput.Message("T", b"", keys="all"))
    driver.catch_up()

    second = ask(driver.plugin, "T", "all", after=first.after)

    assert offsets(first) + offsets(second) == driver.log.starts[:-1][::-1]
    assert second.is_complete
    driver.close()


def test_the_answer_tells_how_far_the_log_was_looked_at(tmp_path):
    driver = filled(tmp_path)
    end = driver.log.max_physical_offset
    driver.log.append(reput.Message("T", b"", keys="late"))

    answer = ask(driver.plugin, "T", "late")

    assert (len(answer), answer.indexed_to) == (0, end)
    driver.close()


def test_what_the_log_has_lost_is_not_found(tmp_path):
    driver = filled(tmp_path)
    driver.log.trim(1)
    first = driver.log.min_physical_offset

    found = offsets(ask(driver.plugin, "T", "all", oldest_first=True))

    assert found == [start for start in driver.log.starts if start >= first]
    driver.close()


@pytest.mark.parametrize("asking", [ask, ask_as_rocketmq])
def test_only_rocketmq_returns_what_merely_has_the_same_hash(tmp_path, asking):
    log = SmallLog(2048)
    log.append(reput.Message("T", b"", keys="AaAa"))
    log.append(reput.Message("T", b"", keys="BBBB"))
    with Driver(plugin(), "index", tmp_path, log) as driver:
        driver.catch_up()

        found = offsets(asking(driver.plugin, "T", "BBBB"))

    assert found == (log.starts if asking is ask_as_rocketmq else log.starts[1:])


def test_the_answer_of_rocketmq_stops_at_64_and_the_exact_answer_does_not(tmp_path):
    driver = filled(tmp_path, count=100, items=1000)

    assert len(ask_as_rocketmq(driver.plugin, "T", "all")) == 64
    assert len(ask(driver.plugin, "T", "all")) == 100
    driver.close()


def test_the_answer_of_rocketmq_looks_within_whole_seconds(tmp_path):
    """The lower bound lies inside the second of the message: RocketMQ does not find it."""
    log = SmallLog(2048)
    log.append(reput.Message("T", b"", keys="k"))
    log.append(reput.Message("T", b"", keys="k"), after_ms=9_999)
    begin = log.store_timestamp_at(log.starts[1]) - 499
    with Driver(plugin(), "index", tmp_path, log) as driver:
        driver.catch_up()

        exact = ask(driver.plugin, "T", "k", begin=begin)
        theirs = ask_as_rocketmq(driver.plugin, "T", "k", begin)

    assert (offsets(exact), offsets(theirs)) == (log.starts[1:], [])


@pytest.mark.parametrize("asking", [ask, ask_as_rocketmq])
def test_a_file_that_is_trimmed_during_a_search_is_passed_over(tmp_path, asking):
    driver = filled(tmp_path)
    first = driver.plugin.index.files[0]
    end = first.header.end_physical_offset
    driver.plugin.index.pool.forget(first.path)
    driver.disk.remove(first.path)

    found = offsets(asking(driver.plugin, "T", "all"))

    assert sorted(found) == [start for start in driver.log.starts if start > end]
    driver.close()


def test_the_answer_of_rocketmq_is_not_complete_where_its_list_was_full(tmp_path):
    """Also when some of the 64 are gone from the log."""
    driver = filled(tmp_path, count=70, items=1000)
    driver.log.trim(1)
    assert driver.log.min_physical_offset > driver.log.starts[6]

    answer = ask_as_rocketmq(driver.plugin, "T", "all")

    assert len(answer) < 64
    assert not answer.is_complete
    driver.close()


class TestInAStore:
    def open(self, root, plugins=("index",), **options):
        log = {"file_size": 65_536}
        config = {"commitlog": log, "index": {"slots_per_file": 50, "items_per_file": 200}}
        if "index" not in plugins:
            del config["index"]
        return reput.open(
            root, plugins=plugins, config=config, clock=ManualClock(), threads=False, **options
        )

    def test_messages_are_found_by_unique_key_and_by_each_of_their_keys(self, tmp_path):
        with self.open(tmp_path / "store") as store:
            message = reput.Message("T", b"1", keys=["a", "b"], properties={"UNIQ_KEY": "U"})
            receipt = store.put(message)
            store.put(attrs.evolve(message, topic="other"))
            assert len(store.query("T", "a")) == 0
            store.wait_dispatched()

            for key in ("a", "b", "U"):
                (found,) = store.query("T", key)
                assert (found.physical_offset, found.body) == (receipt.physical_offset, b"1")
            assert [len(store.query("T", key)) for key in ("A", "a b", "", "u")] == [0, 0, 0, 0]

    def test_times_and_limits_are_optional(self, tmp_path):
        with self.open(tmp_path / "store") as store:
            for _ in range(5):
                store.put(reput.Message("T", b"", keys="k"))
            store.wait_dispatched()
            now = store.get(0).store_timestamp

            assert len(store.query("T", "k")) == 5
            assert len(store.query("T", "k", now, now)) == 5
            assert len(store.query("T", "k", now + 1)) == 0
            assert len(store.query("T", "k", limit=2)) == 2

    def test_questions_that_make_no_sense_are_refused(self, tmp_path):
        with self.open(tmp_path / "store") as store:
            with pytest.raises(ValueError, match="limit must be 1 or more, not 0"):
                store.query("T", "k", limit=0)

    def test_without_the_plugin_the_error_says_what_to_install(self, tmp_path):
        with self.open(tmp_path / "store", plugins=()) as store:
            with pytest.raises(NoReaderError, match=r"(\./plugins/|plugins=\[.*')index"):
                store.query("T", "k")

    def test_a_reader_beside_the_writer_finds_what_was_flushed(self, tmp_path):
        with self.open(tmp_path / "store") as store:
            store.put(reput.Message("T", b"", keys="k"))
            store.wait_dispatched()
            store.flush()
            with self.open(tmp_path / "store", mode="r") as reader:
                assert len(reader.query("T", "k")) == 1
                for _ in range(300):  # more than a file of items
                    store.put(reput.Message("T", b"", keys="k"))
                store.wait_dispatched()
                store.flush()

                assert len(reader.query("T", "k")) == 301
