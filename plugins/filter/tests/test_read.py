"""Filtered reads: what is returned, what is looked at, and what the answer says."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openstores import messages_in

import reput
import reput_filter
from reput.errors import NoReaderError
from reput.record import java_string_hash
from reput.status import ReadStatus
from reput_testing import ManualClock, snapshot

pytest.importorskip("reput_consumequeue")

CONFIG = {
    "commitlog": {"file_size": 1 << 20},
    "consumequeue": {"units_per_file": 1000},
}
WITH_BIT_MAPS = {
    "commitlog": CONFIG["commitlog"],
    "consumequeue": {"units_per_file": 1000, "extend": True},
    "filter": {"bit_maps": True},
}
NOON = 1_700_000_000_000


def opened(root, config=CONFIG, clock=None, mode="w", plugins=("consumequeue", "filter")):
    return reput.open(
        root, mode, plugins=plugins, config=config, clock=clock or ManualClock(NOON), threads=False
    )


def fill(store, count, *, every=10, **more):
    store.put_many(
        [
            reput.Message(
                "orders",
                b"%d" % number,
                tags="rare" if number % every == 0 else "common",
                properties={"amount": str(number), **more},
            )
            for number in range(count)
        ]
    )
    assert store.wait_dispatched(30)


def numbers(result):
    return [int(message.body) for message in result]


@attrs.define
class Counting:
    """A filter that counts the messages it was asked about."""

    inner: object
    asked: int = 0
    asked_in_batches: int = 0

    def matches(self, message):
        self.asked += 1
        return self.inner.matches(message)

    def matches_batch(self, batch):
        self.asked_in_batches += len(batch)
        return self.inner.matches_batch(batch)

    def may_match(self, *arguments):
        return self.inner.may_match(*arguments)


# --------------------------------------------------------------------------- results


def test_a_condition_selects_messages_and_their_places_are_told(tmp_path):
    with opened(tmp_path) as store:
        fill(store, 100)

        result = store.read("orders", 0, 0, filter="amount BETWEEN 7 AND 9")

    assert result.status is ReadStatus.FOUND
    assert numbers(result) == [7, 8, 9]
    assert result.queue_offsets == (7, 8, 9)
    assert result.next_queue_offset == 100


def test_tags_select_without_reading_what_is_not_wanted(tmp_path):
    with opened(tmp_path) as store:
        fill(store, 100)
        wanted = Counting(reput_filter.tags("rare"))

        result = store.read("orders", 0, 0, 100, filter=wanted)

    assert numbers(result) == list(range(0, 100, 10))
    # One more: the last unit, as it is not known what stands behind it.
    assert wanted.asked == 11
    assert wanted.asked_in_batches == 0


def test_two_tags_with_one_hash_are_two_tags(tmp_path):
    assert java_string_hash("Aa") == java_string_hash("BB")
    with opened(tmp_path) as store:
        for number, tags in enumerate(["Aa", "BB", "Aa"]):
            store.put(reput.Message("orders", b"%d" % number, tags=tags))

        assert store.wait_dispatched(30)
        assert numbers(store.read("orders", 0, 0, filter=reput_filter.tags("Aa"))) == [0, 2]
        assert numbers(store.read("orders", 0, 0, filter=store.filter("BB", "TAG"))) == [1]


def test_a_full_answer_ends_behind_its_last_message_as_rocketmqs_does(tmp_path):
    with opened(tmp_path) as store:
        fill(store, 100)

        result = store.read("orders", 0, 0, 3, filter=reput_filter.tags("rare"))

    assert numbers(result) == [0, 10, 20]
    assert result.next_queue_offset == 21


@pytest.mark.parametrize("max_count", [1, 900])
def test_a_read_looks_at_so_many_units_and_says_where_to_go_on(max_count, tmp_path):
    with opened(tmp_path) as store:
        fill(store, 999, every=10_000)

        result = store.read("orders", 0, 1, max_count, filter="amount < 0")

    # 16,000 bytes of units, which are 800, or as many as could be returned.
    assert result.status is ReadStatus.NO_MATCHED_MESSAGE
    assert result.next_queue_offset == 1 + max(800, max_count)
    assert not result


def test_a_read_that_found_nothing_in_a_file_looks_into_the_next_one(tmp_path):
    with opened(tmp_path) as store:
        fill(store, 2000)

        result = store.read("orders", 0, 900, filter="amount = 1100")

    assert numbers(result) == [1100]


def test_bytes_end_a_read_also_at_a_message_that_is_not_wanted(tmp_path):
    with opened(tmp_path) as store:
        for number in range(10):
            body = b"x" * (5_000 if number == 5 else 1)
            tags = "rare" if number in (1, 8) else "common"
            store.put(reput.Message("orders", body, tags=tags))
        assert store.wait_dispatched(30)

        result = store.read("orders", 0, 0, max_bytes=1_000, filter=reput_filter.tags("rare"))

    assert result.queue_offsets == (1,)
    assert result.next_queue_offset == 5


def test_statuses_of_places_that_hold_nothing_are_those_without_a_filter(tmp_path):
    with opened(tmp_path) as store:
        fill(store, 10)

        for queue_offset in (-1, 10, 11):
            plain = store.read("orders", 0, queue_offset)
            assert store.read("orders", 0, queue_offset, filter="amount = 1") == plain
        assert store.read("nobody", 0, 0, filter="amount = 1") == store.read("nobody", 0, 0)


def damaged(root, count, number, *, place):
    """A store in which a byte of one message's record is another."""
    with opened(root) as store:
        fill(store, count)
        broken = store.read("orders", 0, number, 1).messages[0]
    at = {"body": broken.places()[0], "magic": 4, "size": 3}[place]
    path = root / "commitlog" / "00000000000000000000"
    with path.open("r+b") as file:
        file.seek(broken.physical_offset + at)
        file.write(b"\xff")
    return opened(root)


@pytest.mark.parametrize("place", ["body", "magic", "size"])
@pytest.mark.parametrize("count", [10, 200])  # one by one, and as columns
def test_a_wanted_message_that_is_damaged_is_a_hole(count, place, tmp_path):
    with damaged(tmp_path, count, 5, place=place) as store:
        plain = store.read("orders", 0, 0, count)
        filtered = store.read("orders", 0, 0, count, filter="amount < 7 OR amount > 190")

    assert [hole.queue_offset for hole in plain.holes] == [5]
    assert filtered.holes == plain.holes
    assert numbers(filtered) == [0, 1, 2, 3, 4, 6, *range(191, count)]


@pytest.mark.parametrize(("place", "is_hole"), [("body", False), ("magic", True)])
@pytest.mark.parametrize("count", [10, 200])
def test_only_a_record_that_can_be_told_to_be_unwanted_is_no_hole(count, place, is_hole, tmp_path):
    with damaged(tmp_path, count, 5, place=place) as store:
        filtered = store.read("orders", 0, 0, count, filter="amount < 3")
        nothing = store.read("orders", 0, 0, count, filter="amount < 0")

    # As with tags, which do not look at bodies that nobody wants either.
    assert [hole.queue_offset for hole in filtered.holes] == [5] * is_hole
    assert numbers(filtered) == [0, 1, 2]
    expected = ReadStatus.MESSAGE_WAS_REMOVING if is_hole else ReadStatus.NO_MATCHED_MESSAGE
    assert nothing.status is expected


def test_columns_go_on_behind_damaged_records(tmp_path):
    with damaged(tmp_path, 200, 60, place="magic") as store:
        wanted = Counting(reput_filter.compile("amount > 150"))
        result = store.read("orders", 0, 0, 200, filter=wanted)

    assert numbers(result) == [*range(151, 200)]
    assert wanted.asked == 1  # the last unit, as it is not known what stands behind it


def test_large_records_are_not_all_read_for_a_read_that_is_full_soon(tmp_path, monkeypatch):
    import reput_consumequeue.reader.readahead as scout

    monkeypatch.setattr(scout, "_SIZE_MAX", 1 << 16)
    with opened(tmp_path) as store:
        fill(store, 900)
        wanted = Counting(reput_filter.compile("amount >= 0"))
        result = store.read("orders", 0, 0, 300, 1 << 20, filter=wanted)

    assert numbers(result) == [*range(300)]
    assert wanted.asked_in_batches <= (1 << 16) // result.messages[0].size + 1
    assert wanted.asked < 300


def test_queues_that_take_turns_in_the_log_are_read_as_columns_too(tmp_path):
    with opened(tmp_path) as store:
        store.put_many(
            [
                reput.Message(
                    f"t{number % 3}", b"%d" % number, 0, properties={"amount": str(number)}
                )
                for number in range(900)
            ]
        )
        assert store.wait_dispatched(30)
        wanted = Counting(reput_filter.compile("amount > 850"))
        result = store.read("t1", 0, 0, 300, filter=wanted)

    assert numbers(result) == [*range(853, 900, 3)]
    assert wanted.asked == 1
    assert wanted.asked_in_batches == 299  # none of another queue


EXPRESSIONS = [
    "amount > 50",
    "amount > 50 AND TAGS = 'rare'",
    "amount > 10000",
    "TAGS <> 'rare'",
    "nothing IS NULL",
    "nothing IS NOT NULL",
]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.sampled_from(EXPRESSIONS),
    st.integers(0, 1100),
    st.integers(1, 60),
    st.integers(100, 3_000),
)
@pytest.mark.costly
def test_filtered_reads_are_plain_reads_without_the_others(
    filled, expression, start, max_count, max_bytes
):
    compiled = reput_filter.compile(expression)
    expected = [
        n for n, message in enumerate(filled.all) if n >= start and compiled.matches(message)
    ]

    found, at = [], start
    while at < len(filled.all):
        result = filled.store.read("orders", 0, at, max_count, max_bytes, filter=expression)
        assert len(result) <= max_count
        assert len(result) <= 1 or sum(message.size for message in result) <= max_bytes
        assert result.next_queue_offset > at
        assert all(at <= place < result.next_queue_offset for place in result.queue_offsets)
        found += numbers(result)
        at = result.next_queue_offset

    assert found == expected


@attrs.define
class Filled:
    store: object
    all: list


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    with opened(tmp_path_factory.mktemp("filled")) as store:
        fill(store, 1100)
        messages = []
        while len(messages) < 1100:
            messages += store.read("orders", 0, len(messages), 1000)
        yield Filled(store, messages)


# --------------------------------------------------------------------------- who compiles


def test_without_the_plugin_text_is_an_error_and_a_compiled_filter_works(tmp_path):
    with opened(tmp_path, plugins=["consumequeue"]) as store:
        fill(store, 10)

        with pytest.raises(NoReaderError, match=r"(\./plugins/|plugins=\[.*')filter"):
            store.read("orders", 0, 0, filter="amount > 5")
        assert numbers(store.read("orders", 0, 0, filter=reput_filter.compile("amount > 7"))) == [
            8,
            9,
        ]


@pytest.mark.parametrize("kind", ["tag", "SQL", "REGEX"])
def test_an_unknown_kind_is_named_and_not_taken_for_a_broken_plugin(tmp_path, kind):
    with opened(tmp_path) as store:
        with pytest.raises(ValueError, match=f"kind.*{kind}"):
            store.filter("paid", kind)


def test_text_that_hardly_means_what_it_says_is_refused_unless_asked_for(tmp_path):
    with opened(tmp_path / "strict") as store:
        with pytest.raises(ValueError, match="there is no LIKE"):
            store.read("orders", 0, 0, filter="amount LIKE '5%'")
    with opened(tmp_path / "java", {**CONFIG, "filter": {"strict": False}}) as store:
        fill(store, 10)
        assert not store.read("orders", 0, 0, filter="amount LIKE '5%'")


def test_a_reader_that_knows_no_filters_is_asked_for_everything(tmp_path):
    class Elsewhere(reput.Plugin):
        name = "elsewhere"

        def __init__(self, inner):
            self.inner, self.config = inner, None

        @reput.hookimpl
        def reput_read(self, topic, queue_id, queue_offset, max_count, max_bytes):
            return self.inner.read(topic, queue_id, queue_offset, max_count, max_bytes)

    with opened(tmp_path / "inner") as inner:
        fill(inner, 100)
        with opened(tmp_path / "outer", {}, plugins=["filter", Elsewhere(inner)]) as store:
            found = store.read("orders", 0, 0, filter="amount > 20")
            nothing = store.read("orders", 0, 0, filter="amount > 40")

    assert numbers(found) == list(found.queue_offsets) == list(range(21, 32))
    assert nothing.status is ReadStatus.NO_MATCHED_MESSAGE
    assert nothing.next_queue_offset == 32


def test_a_plugin_that_answers_nonsense_is_named(tmp_path):
    class Odd(reput.Plugin):
        name = "odd"

        @reput.hookimpl
        def reput_filter(self, expression):
            return "no filter"

    with opened(tmp_path, {}, plugins=[Odd()]) as store:
        with pytest.raises(reput.errors.PluginError, match="reput_filter returned 'no filter'"):
            store.filter("a = 1")


# --------------------------------------------------------------------------- bit maps


def test_a_registered_filter_leaves_out_messages_without_reading_them(tmp_path):
    clock = ManualClock(NOON)
    with opened(tmp_path, WITH_BIT_MAPS, clock) as store:
        plugin = store.plugin_objects["filter"]
        assert plugin.register("auditors", "orders", "amount > 950")
        clock.now += 1
        fill(store, 1000)
        wanted = Counting(store.filter("amount > 950", topic="orders"))

        found = numbers(messages_in(store, "orders", 0, 0, 100, filter=wanted))

    assert isinstance(wanted.inner, reput_filter.RegisteredFilter)
    assert found == list(range(951, 1000))
    assert wanted.asked <= 52
    assert wanted.asked_in_batches <= 200  # the part of the log in which the wanted ones are


def test_messages_from_before_the_registration_are_read_and_looked_at(tmp_path):
    clock = ManualClock(NOON)
    with opened(tmp_path, WITH_BIT_MAPS, clock) as store:
        plugin = store.plugin_objects["filter"]
        plugin.register("others", "orders", "amount < 3")
        clock.now += 1
        fill(store, 100)
        plugin.register("auditors", "orders", "amount > 90")
        fill(store, 100)  # in the same millisecond: its bit maps count for nothing
        clock.now += 1
        fill(store, 100)

        result = store.read("orders", 0, 0, 300, filter="amount > 90")

    assert numbers(result) == [*range(91, 100)] * 3


def test_bit_maps_are_read_back_by_a_reader_beside_the_writer(tmp_path):
    clock = ManualClock(NOON)
    with opened(tmp_path, WITH_BIT_MAPS, clock) as store:
        store.plugin_objects["filter"].register("auditors", "orders", "amount > 990")
        clock.now += 1
        fill(store, 1000)
        store.flush()

        with opened(tmp_path, WITH_BIT_MAPS, clock, "r") as reader:
            wanted = Counting(reader.filter("amount > 990", topic="orders"))
            assert numbers(reader.read("orders", 0, 500, 100, filter=wanted)) == [*range(991, 1000)]

    assert wanted.asked <= 10


def test_a_store_that_is_built_again_has_the_same_bit_maps(tmp_path):
    import shutil

    clock = ManualClock(NOON)

    with opened(tmp_path, WITH_BIT_MAPS, clock) as store:
        store.plugin_objects["filter"].register("auditors", "orders", "amount > 90")
        clock.now += 1
        fill(store, 100)
    before = snapshot(tmp_path / "consumequeue_ext")
    shutil.rmtree(tmp_path / "consumequeue")
    shutil.rmtree(tmp_path / "consumequeue_ext")

    with opened(tmp_path, WITH_BIT_MAPS, clock) as store:
        assert store.wait_dispatched(30)

    assert snapshot(tmp_path / "consumequeue_ext") == before
    assert any(b"\x00\x0e" in data for data in before.values())
