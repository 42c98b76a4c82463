"""No queue offset is given twice, whatever became of the log's head and of the queues' files."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from statefiles import put_value

import reput
from reput.errors import PluginError
from reput.status import ReadStatus
from reput_consumequeue.layout import UNIT_SIZE
from reput_testing import ManualClock, QuickDisk
from reput_tools.cli.plugins.catchup import catch_up
from reput_tools.offline import rebuild

pytestmark = pytest.mark.shows("queue-offsets", more="REPUT_SOAK=1")

SIZE = 4096
UNITS = 4
CONFIG = {
    "commitlog": {"file_size": SIZE, "max_light_queues": 20_000},
    "consumequeue": {"units_per_file": UNITS},
}
MANY = 200 if os.environ.get("REPUT_SOAK") else 8


def open_small(root):
    return reput.open(
        root,
        plugins=["consumequeue"],
        config=CONFIG,
        threads=False,
        clock=ManualClock(),
        disk=QuickDisk(),
    )


def put(store, topic, body=b"x"):
    receipt = store.put(reput.Message(topic, body))
    store.wait_dispatched()
    return receipt.queue_offset


def roll(store, count=2):
    """Fill log files with messages of another topic, and remove all but the last."""
    store.put_many([reput.Message("Filler", b"f" * 3000)] * count)
    store.wait_dispatched()
    store.trim_log(store.log.file_offsets[-1])


def made(root, count=10):
    """A store of which ``Old/0`` had so many messages, and none is left."""
    with open_small(root) as store:
        for number in range(count):
            assert put(store, "Old") == number
        roll(store)
        (info,) = [each for each in store.queues() if each.topic == "Old"]
        assert (info.min_queue_offset, info.max_queue_offset) == (count, count)


def queue_directory(root, topic="Old"):
    return root / "consumequeue" / topic / "0"


# --------------------------------------------------------------------------- what makes them again


def rebuild_in_one_piece(root):
    rebuild(root, ["consumequeue"], jobs=1, disk=QuickDisk())


def rebuild_in_parts(root):
    rebuild(root, ["consumequeue"], jobs=2, split_size=SIZE)


def delete_all(root):
    shutil.rmtree(root / "consumequeue", ignore_errors=True)


def empty_its_files(root):
    for path in queue_directory(root).iterdir():
        path.write_bytes(b"")


def zero_its_files(root):
    for path in queue_directory(root).iterdir():
        path.write_bytes(bytes(UNITS * UNIT_SIZE))


def cut_its_files(root):
    """As damage of the last unit: what is in front of it is found."""
    path = max(queue_directory(root).iterdir())
    data = path.read_bytes()
    path.write_bytes(data[:UNIT_SIZE] + bytes(len(data) - UNIT_SIZE))


def delete_its_directory(root):
    shutil.rmtree(queue_directory(root))


def backfill(root):
    catch_up(str(root), "consumequeue", from_start=True, waits=False)


def come_and_go(root):
    with open_small(root) as store:
        store.add_plugin(Nothing())
        store.remove_plugin("consumequeue")
        shutil.rmtree(root / "consumequeue")
        store.add_plugin("consumequeue", CONFIG["consumequeue"])
        store.remove_plugin("nothing")
        assert put(store, "Filler") > 0


class Nothing(reput.Plugin):
    """A store has one plugin at least."""

    name = "nothing"

    @reput.hookimpl
    def reput_dispatch(self, batch):
        pass


AGAIN = [
    rebuild_in_one_piece,
    rebuild_in_parts,
    delete_all,
    empty_its_files,
    zero_its_files,
    cut_its_files,
    delete_its_directory,
    backfill,
    come_and_go,
]


@pytest.mark.parametrize("again", AGAIN)
@pytest.mark.parametrize("count", [UNITS * 2, UNITS * 2 + 2])
def test_a_queue_that_lost_all_its_messages_goes_on_behind_them(tmp_path, again, count):
    made(tmp_path, count)

    again(tmp_path)

    with open_small(tmp_path) as store:
        waiting = store.read("Old", 0, count)
        assert (waiting.status, waiting.next_queue_offset) == (
            ReadStatus.OFFSET_OVERFLOW_ONE,
            count,
        )
        assert put(store, "Old", b"the next") == count
        answer = store.read("Old", 0, count)
        assert [message.body for message in answer] == [b"the next"]
    with open_small(tmp_path) as store:
        assert put(store, "Old") == count + 1


@pytest.mark.parametrize("again", [rebuild_in_one_piece, rebuild_in_parts, backfill])
def test_it_goes_on_there_where_nobody_wrote_its_place_down(tmp_path, again):
    """RocketMQ removes the head of a log, too; then only the queue's own files know."""
    made(tmp_path)
    put_value(tmp_path, ".floors", b"")

    again(tmp_path)

    with open_small(tmp_path) as store:
        assert put(store, "Old") == 10
        assert len(store.read("Old", 0, 10)) == 1


def test_old_files_that_are_damaged_do_not_keep_a_rebuild_from_being_made(tmp_path):
    made(tmp_path)
    max(queue_directory(tmp_path).iterdir()).write_bytes(bytes(3 * UNIT_SIZE))
    with pytest.raises(PluginError), reput.open(tmp_path, "r") as reader:
        reader.queues()

    rebuild_in_one_piece(tmp_path)

    with open_small(tmp_path) as store:
        assert put(store, "Old") == 10


def test_a_light_queue_goes_on_behind_its_messages(tmp_path):
    name = "%LMQ%a"
    message = reput.Message("Parent", b"x", properties={"INNER_MULTI_DISPATCH": name})
    with open_small(tmp_path) as store:
        for _ in range(6):
            store.put(message)
        roll(store)

    rebuild_in_one_piece(tmp_path)

    with open_small(tmp_path) as store:
        store.put(message)
        store.wait_dispatched()
        assert [len(store.read(name, 0, at)) for at in (6, 7)] == [1, 0]


def test_a_floor_that_no_log_can_have_reached_fills_no_memory(tmp_path):
    with open_small(tmp_path) as store:
        put(store, "Old")
    put_value(tmp_path, ".floors", json.dumps({"Old": {"0": 1 << 50}}).encode())

    with open_small(tmp_path) as store:
        assert put(store, "Old", b"far") == 1 << 50
        found = [message.body for message in store.read("Old", 0, 0)]

    assert found == [b"x", b"far"]


# --------------------------------------------------------------------------- histories

TOPICS = ("A", "B", "C")
STEPS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(TOPICS), st.integers(1, 6)),
    st.just(("roll",)),
    st.just(("reopen",)),
    st.tuples(
        st.just("again"),
        st.sampled_from([rebuild_in_one_piece, delete_all, backfill]),
    ),
)


class History:
    """A store, and what its queues have given."""

    def __init__(self, root):
        self.root = root
        self.given = dict.fromkeys(TOPICS, 0)
        self.bodies = {}
        self.store = open_small(root)

    def reopen(self):
        self.store.close()
        self.store = open_small(self.root)

    def put(self, topic, count):
        first = self.given[topic]
        places = list(range(first, first + count))
        messages = [reput.Message(topic, f"{topic} {place}".encode()) for place in places]
        assert self.store.put_many(messages).queue_offsets.tolist() == places
        self.store.wait_dispatched()
        self.given[topic] += count

    def roll(self):
        roll(self.store)

    def again(self, how):
        self.store.close()
        how(self.root)
        self.store = open_small(self.root)

    def check(self):
        """Who reads from anywhere on gets everything that the log has, in order."""
        sound = {topic: set() for topic in TOPICS}
        for batch in self.store.scan():
            for row in range(len(batch)):
                message = batch.message(row)
                if message.topic in sound:
                    sound[message.topic].add(message.queue_offset)
        for topic, count in self.given.items():
            for start in {0, count // 2, max(count - 1, 0), count}:
                found, at = set(), start
                while True:
                    result = self.store.read(topic, 0, at)
                    assert result.holes == ()
                    for place, message in zip(result.queue_offsets, result, strict=True):
                        assert message.body == f"{topic} {place}".encode()
                        found.add(place)
                    if result.next_queue_offset <= at:
                        break
                    at = result.next_queue_offset
                assert found == {place for place in sound[topic] if place >= start}
                assert at <= max(count, start)


@settings(max_examples=MANY, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEPS, min_size=3, max_size=14))
def test_no_history_gives_an_offset_twice_or_skips_a_message(tmp_path_factory, steps):
    history = History(tmp_path_factory.mktemp("history"))

    for name, *arguments in steps:
        getattr(history, name)(*arguments)
        history.check()

    history.store.close()
