"""A queue whose files are gone, or end too early, while its messages are in the log."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest
from openstores import reads
from statefiles import damage_journal, put_value, state_of, value_of

import reput
from reput.plugin import StateNotes
from reput_consumequeue.layout import UNIT_SIZE
from reput_consumequeue.queue import queueledger
from reput_consumequeue.queueextents import NOTE_DTYPE, load_extents
from reput_testing import ManualClock, QuickDisk

UNITS = 4
CONFIG = {
    "commitlog": {"file_size": 4096, "max_light_queues": 20_000},
    "consumequeue": {"units_per_file": UNITS},
}
COUNT = UNITS * 2 + 2
LIGHT = "%LMQ%a"
NOTE = "consumequeue/queues"


class ListingDisk(QuickDisk):
    """Keeps the paths that were opened."""

    def __init__(self):
        self.opened = []

    def open(self, path, **options):
        self.opened.append(path)
        return super().open(path, **options)


def open_small(root, disk=None, **options):
    return reput.open(
        root,
        plugins=["consumequeue"],
        config={**CONFIG, "consumequeue": {"units_per_file": UNITS, **options}},
        threads=False,
        clock=ManualClock(),
        disk=disk or QuickDisk(),
    )


def put(store, topic):
    message = reput.Message(topic, b"x", properties={"INNER_MULTI_DISPATCH": LIGHT})
    return store.put(message).queue_offset


def made(root):
    """A store with messages of two topics, in turn, closed in good order."""
    with open_small(root) as store:
        for _ in range(COUNT):
            put(store, "Other")
            put(store, "Topic")


def noted(root):
    return load_extents(StateNotes("consumequeue", state_of(root))).extents()


def offsets(store, topic):
    return [place for result in reads(store, topic) for place in result.queue_offsets]


def delete_the_directory(directory):
    shutil.rmtree(directory)


def delete_the_topic(directory):
    shutil.rmtree(directory.parent)


def delete_the_files(directory):
    for path in directory.iterdir():
        path.unlink()


def empty_the_files(directory):
    for path in directory.iterdir():
        path.write_bytes(b"")


def zero_the_files(directory):
    for path in directory.iterdir():
        path.write_bytes(bytes(UNITS * UNIT_SIZE))


def delete_the_last_file(directory):
    max(directory.iterdir()).unlink()


def zero_the_last_file(directory):
    max(directory.iterdir()).write_bytes(bytes(UNITS * UNIT_SIZE))


def cut_the_last_unit(directory):
    path = max(directory.iterdir())
    data = path.read_bytes()
    path.write_bytes(data[:UNIT_SIZE] + bytes(len(data) - UNIT_SIZE))


WAYS = [
    delete_the_directory,
    delete_the_topic,
    delete_the_files,
    empty_the_files,
    zero_the_files,
    delete_the_last_file,
    zero_the_last_file,
    cut_the_last_unit,
]


@pytest.mark.parametrize("left", ["closed", "killed"])
@pytest.mark.parametrize("topic", ["Topic", LIGHT])
@pytest.mark.parametrize("way", WAYS)
def test_its_units_are_derived_again_and_no_offset_is_given_twice(tmp_path, way, topic, left):
    made(tmp_path)
    if left == "killed":
        (tmp_path / "abort").write_bytes(b"")
    count = COUNT if topic == "Topic" else 2 * COUNT

    way(tmp_path / "consumequeue" / topic / "0")

    with open_small(tmp_path) as store:
        given = put(store, "Topic")
        store.wait_dispatched()
        assert given == COUNT
        assert offsets(store, topic) == list(range(count + 1))


def test_a_queue_that_was_new_and_flushed_is_missed_after_a_kill(tmp_path):
    store = open_small(tmp_path / "live")
    for _ in range(COUNT):
        put(store, "Topic")
    store.wait_dispatched()
    store.flush()
    shutil.copytree(tmp_path / "live", tmp_path / "killed")
    store.close()

    shutil.rmtree(tmp_path / "killed" / "consumequeue" / "Topic")

    with open_small(tmp_path / "killed") as store:
        assert put(store, "Topic") == COUNT


def test_a_queue_that_is_whole_is_not_derived_again(tmp_path):
    made(tmp_path)

    with open_small(tmp_path) as store:
        (plugin,) = store.plugins()

        assert plugin.dispatched_to == store.log.max_physical_offset


@pytest.fixture
def settled(tmp_path, monkeypatch):
    """A store of two queues with one file each, which nobody has changed for long."""
    monkeypatch.setattr(queueledger, "MANY", 2)
    monkeypatch.setattr(queueledger, "_SETTLED_NS", 0)
    with open_small(tmp_path, units_per_file=64) as store:
        for _ in range(COUNT):
            put(store, "Topic")
    let_time_move(tmp_path)
    return tmp_path


def let_time_move(root):
    """Wait for the next tick of the system's times, some ms."""
    probe = root / "probe"
    probe.touch()
    first = probe.stat().st_ctime_ns
    while probe.stat().st_ctime_ns == first:
        probe.touch()
    probe.unlink()


def test_queues_that_nobody_changed_since_the_close_are_not_read(settled):
    disk = ListingDisk()

    with open_small(settled, disk) as store:
        opened = [path for path in disk.opened if "/consumequeue/" in path]
        assert (opened, len(store.queues())) == ([], 2)
        queues = store.plugin_objects["consumequeue"].queues
        assert (len(queues), queues.made) == (2, {})  # nobody has used them
        assert put(store, "Topic") == COUNT
        store.wait_dispatched()
        assert offsets(store, LIGHT) == list(range(COUNT + 1))
    # The queues that this changed are read, and no other: both got a message.
    with open_small(settled, disk) as store:
        assert offsets(store, "Topic") == list(range(COUNT + 1))


def test_queues_that_a_closing_has_no_time_to_look_at_are_read(settled, monkeypatch):
    put_value(settled, NOTE, b"")
    monkeypatch.setattr(queueledger, "_LONGEST", 0.0)
    open_small(settled).close()

    rows = load_extents(StateNotes("consumequeue", state_of(settled))).rows
    assert (rows["max_offset"].tolist(), np.count_nonzero(rows["size"])) == ([COUNT] * 2, 1)
    disk = ListingDisk()
    with open_small(settled, disk) as store:
        opened = {path.split("/")[-3] for path in disk.opened if "/consumequeue/" in path}
        assert len(opened) == 1
        assert offsets(store, "Topic") == offsets(store, LIGHT) == list(range(COUNT))


def test_a_file_that_was_added_after_a_full_one_is_read(settled):
    with open_small(settled) as store:
        for _ in range(64 - COUNT):
            put(store, "Topic")
        store.wait_dispatched()
        let_time_move(settled)
    added = settled / "consumequeue/Topic/0" / str(64 * UNIT_SIZE).zfill(20)
    added.write_bytes(b"x" * 64 * UNIT_SIZE)

    with open_small(settled) as store:
        assert not added.exists()  # it has no units of this log
        assert put(store, "Topic") == 64


def zero_a_unit(path):
    data = path.read_bytes()
    path.write_bytes(data[: 2 * UNIT_SIZE].ljust(len(data), b"\0"))


def zero_with_the_same_time(path):
    found = path.stat()
    path.write_bytes(bytes(found.st_size))
    os.utime(path, ns=(found.st_mtime_ns, found.st_mtime_ns))


@pytest.mark.parametrize(
    "change",
    [
        zero_a_unit,
        zero_with_the_same_time,
        lambda path: path.write_bytes(b""),
        lambda path: path.unlink(),
        lambda path: shutil.rmtree(path.parent),
    ],
)
def test_a_queue_that_was_changed_since_the_close_is_read(settled, change):
    change(settled / "consumequeue/Topic/0" / "0".zfill(20))

    with open_small(settled) as store:
        assert put(store, "Topic") == COUNT
        store.wait_dispatched()
        assert offsets(store, "Topic") == list(range(COUNT + 1))


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(bytes(path.stat().st_size)),
        zero_a_unit,
    ],
)
def test_a_queue_that_was_changed_before_the_close_is_read(settled, change):
    put_value(settled, NOTE, b"")  # the queues are noted by this session
    with open_small(settled):
        change(settled / "consumequeue/Topic/0" / "0".zfill(20))
        let_time_move(settled)

    with open_small(settled) as store:
        store.wait_dispatched()
        assert offsets(store, "Topic") == list(range(COUNT))


class TimelessDisk(QuickDisk):
    """Loses the times of changes, as a power cut may."""

    def look_below(self, path, names):
        return [
            found and (found[0], 1, found[2] and 1) for found in super().look_below(path, names)
        ]


def test_facts_do_not_count_if_the_log_has_gone_on(settled):
    """Another writer was cut off, and closed the store the next time."""
    put_value(settled, NOTE, b"")
    open_small(settled, TimelessDisk()).close()
    note = value_of(settled, NOTE)
    with open_small(settled, TimelessDisk()) as store:
        assert put(store, "Topic") == COUNT
    put_value(settled, NOTE, note)

    with open_small(settled, TimelessDisk()) as store:
        assert put(store, "Topic") == COUNT + 1


def test_units_count_again_if_removed_log_files_are_put_back(settled):
    with open_small(settled) as store:
        for _ in range(40):
            put(store, "Topic")
        store.wait_dispatched()
    shutil.copytree(settled / "commitlog", settled / "saved")
    put_value(settled, NOTE, b"")  # the queues are noted after the removal
    with open_small(settled) as store:
        assert store.trim_log(1 << 40).min_physical_offset > 0
        let_time_move(settled)
    shutil.rmtree(settled / "commitlog")
    (settled / "saved").rename(settled / "commitlog")

    with open_small(settled) as store:
        assert offsets(store, "Topic")[0] == 0


def test_a_link_in_place_of_a_closed_queue_is_refused(settled):
    directory = settled / "consumequeue/Topic/0"
    directory.rename(directory.with_name("x")).parent.joinpath("0").symlink_to("x")

    with open_small(settled) as store:
        (plugin,) = store.plugins()
        assert "symbolic link" in str(plugin.last_error)


def test_facts_of_a_damaged_note_do_not_count(settled):
    damage_journal(settled)

    with open_small(settled) as store:
        assert put(store, "Topic") == COUNT


def test_a_log_that_was_put_back_in_an_older_state_has_the_say(tmp_path):
    """What the note tells of messages that the log never had is not missed for ever."""
    with open_small(tmp_path) as store:
        for _ in range(COUNT):
            put(store, "Topic")
    shutil.copytree(tmp_path, tmp_path.parent / "older")
    with open_small(tmp_path) as store:
        assert put(store, "Topic") == COUNT
    note = value_of(tmp_path, NOTE)
    shutil.rmtree(tmp_path)
    shutil.copytree(tmp_path.parent / "older", tmp_path)
    put_value(tmp_path, NOTE, note)

    with open_small(tmp_path) as store:
        (plugin,) = store.plugins()
        assert plugin.dispatched_to == store.log.max_physical_offset
        assert put(store, "Topic") == COUNT


NUMBER_FOR_TOPIC = b'\x16\0\0\0\1\0\0\0{"end":0,"topics":[1]}' + bytes(NOTE_DTYPE.itemsize)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        bytes(8),
        b"\2\0\0\0\0\0\0\0[]",
        b"\2\0\0\0\1\0\0\0{}",
        b"\xff" * 100,
        NUMBER_FOR_TOPIC + NUMBER_FOR_TOPIC.replace(b"[1]", b'"t"'),
    ],
)
def test_a_note_that_cannot_be_read_is_written_again(tmp_path, text):
    made(tmp_path)
    whole = noted(tmp_path)
    put_value(tmp_path, NOTE, text)

    with open_small(tmp_path) as store:
        assert put(store, "Topic") == COUNT

    assert noted(tmp_path).keys() == whole.keys()


def test_queues_that_are_noted_one_after_the_other_are_all_noted(tmp_path):
    """A flush adds the new queues; a close writes the ends of all."""
    store = open_small(tmp_path / "live")
    for number in range(5):
        for topic in (f"T{number}", "T0"):
            put(store, topic)
        store.wait_dispatched()
        store.flush()
    added = noted(tmp_path / "live")
    store.close()

    assert {topic: each.max_offset for (topic, _), each in added.items()} == {
        **{f"T{number}": 1 for number in range(1, 5)},
        "T0": 2,
        LIGHT: 2,
    }
    ends = {topic: each.max_offset for (topic, _), each in noted(tmp_path / "live").items()}
    assert (ends["T0"], ends[LIGHT]) == (6, 10)


def test_a_reader_writes_no_note(tmp_path):
    made(tmp_path)
    put_value(tmp_path, NOTE, b"")

    with reput.open(tmp_path, "r") as reader:
        reader.queues()

    assert value_of(tmp_path, NOTE) == b""


def test_only_the_first_of_many_queues_has_a_warning_of_its_own(tmp_path, caplog):
    with open_small(tmp_path) as store:
        store.put_many([reput.Message("t", b"x", at) for at in range(12)])
    shutil.rmtree(tmp_path / "consumequeue")

    with caplog.at_level("WARNING"), open_small(tmp_path) as store:
        store.wait_dispatched()
        assert len(store.queues()) == 12

    told = [each.getMessage() for each in caplog.records if "lack" in each.getMessage()]
    assert [each.startswith("queue lacks units that it had") for each in told] == [True] * 5 + [
        False
    ]
    assert told[-1] == "more queues lack units, they are rebuilt count=7"
