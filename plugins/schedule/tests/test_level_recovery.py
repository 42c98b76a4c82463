"""What was delivered is known after crashes, faults and losses, and nothing comes twice."""

from __future__ import annotations

import errno
import shutil

import attrs
import pytest

import reput
from reput.errors import CreateMappedFileError
from reput_schedule import delayed
from reput_schedule.delaylevels.delaystate import DelayState
from reput_testing import ManualClock, QuickDisk

FILE_SIZE = 65_536


@pytest.fixture
def clock():
    return ManualClock()


def opened(root, clock, disk=None, **options):
    log = {"file_size": FILE_SIZE, "max_message_size": 8_192}
    return reput.open(
        root,
        plugins=["consumequeue", "schedule"],
        config={"commitlog": log, "schedule": options, "consumequeue": {"units_per_file": 100}},
        threads=False,
        clock=clock,
        disk=disk or QuickDisk(),
    )


def orders(first, stop, level=1):
    return [
        delayed(reput.Message("orders", b"%d" % number), level=level)
        for number in range(first, stop)
    ]


def copies_in(store):
    views = [batch.message(row) for batch in store.scan() for row in range(len(batch))]
    return [view for view in views if view.topic == "orders"]


def sent(store):
    return [int(view.body) for view in copies_in(store)]


def run(store, clock):
    while (due := store.work()) is not None and due <= clock.now:
        pass


def deliver(store, clock):
    """Send what was parked at the first level."""
    clock.advance(1_000)
    run(store, clock)


def killed(store, target):
    shutil.copytree(store.root, target)
    store.close()
    return target


@pytest.mark.shows("offsets-beyond")
@pytest.mark.parametrize("level", [1, 2])
def test_offsets_of_a_broker_beyond_the_log_lose_no_message_that_is_parked_later(
    tmp_path, clock, level
):
    """As a power cut leaves them whose broker saves offsets before it flushes its log."""
    with opened(tmp_path / "store", clock) as store:
        store.put_many(orders(0, 1))
        store.wait_dispatched()
        clock.advance(10_000)
        run(store, clock)
        assert sent(store) == [0]
    file = tmp_path / "store" / "config" / "delayOffset.json"
    file.write_text(f'{{"offsetTable":{{1:1,{level}:4}}}}')

    with opened(tmp_path / "store", clock, deliver="always") as store:
        store.put_many(orders(1, 6, level=level))
        store.wait_dispatched()
        clock.advance(60_000)
        run(store, clock)

        assert sent(store) == [0, 1, 2, 3, 4, 5]


def without(root, view):
    """Overwrite a record as a power cut does that keeps a later page of the log and not its own."""
    path = root / "commitlog" / f"{0:020}"
    with path.open("r+b") as file:
        file.seek(view.physical_offset)
        file.write(bytes(view.size))


def test_messages_whose_copies_a_power_cut_took_come_again_and_later_ones_do_not(tmp_path, clock):
    store = opened(tmp_path / "1", clock)
    store.put_many(orders(0, 7))
    store.flush()  # they are on disk, their copies are not
    deliver(store, clock)
    copies = copies_in(store)
    root = killed(store, tmp_path / "2")
    for lost in (copies[0], copies[2], copies[3]):
        without(root, lost)

    store = opened(root, clock)
    run(store, clock)
    again = sent(store)
    root = killed(store, tmp_path / "3")  # before it was saved that they came again

    assert again == [1, 4, 5, 6, 0, 2, 3]
    with opened(root, clock) as store:
        store.put_many(orders(7, 9))
        deliver(store, clock)
        assert sent(store) == [1, 4, 5, 6, 0, 2, 3, 7, 8]
    with opened(root, clock) as store:
        run(store, clock)
        assert sent(store) == [1, 4, 5, 6, 0, 2, 3, 7, 8]


def test_nothing_is_saved_before_all_came_again_whose_copies_are_lost(tmp_path, clock):
    store = opened(tmp_path / "1", clock)
    store.put_many(orders(0, 4))
    store.flush()
    deliver(store, clock)
    copies = copies_in(store)
    root = killed(store, tmp_path / "2")
    without(root, copies[1])
    clock.advance(-900)  # by a clock that was set back it has to wait once more
    store = opened(root, clock)
    run(store, clock)
    store.flush()
    before = sent(store)
    root = killed(store, tmp_path / "3")

    with opened(root, clock) as store:
        deliver(store, clock)

        assert before == [0, 2, 3]
        assert sent(store) == [0, 2, 3, 1]


def test_equal_messages_are_counted(tmp_path, clock):
    equal = delayed(reput.Message("orders", b"7", born_timestamp=1), level=1)
    store = opened(tmp_path / "1", clock)
    store.put_many([equal] * 3)
    deliver(store, clock)
    store.put_many([equal] * 2)
    store.wait_dispatched()
    root = killed(store, tmp_path / "2")

    with opened(root, clock) as store:
        deliver(store, clock)

        assert sent(store) == [7] * 5


@pytest.mark.shows("delayed")
def test_offsets_that_are_lost_are_found_in_the_log(tmp_path, clock):
    with opened(tmp_path / "1", clock) as store:
        store.put_many(orders(0, 300))
        deliver(store, clock)
        store.put_many(orders(300, 310, level=2))
        store.put_many(orders(310, 320))
    shutil.rmtree(tmp_path / "1" / "config")

    with opened(tmp_path / "1", clock, deliver="always") as store:
        clock.advance(5_000)
        run(store, clock)

        assert sorted(sent(store)) == list(range(320))


@pytest.mark.parametrize("lost", [[0], [0, 1], [2], [1, 3, 4], [5, 6], [0, 6], range(7)])
def test_messages_whose_copies_are_lost_with_the_offsets_come_again(tmp_path, clock, lost):
    store = opened(tmp_path / "1", clock)
    store.put_many(orders(0, 7))
    store.flush()
    deliver(store, clock)
    copies = copies_in(store)
    root = killed(store, tmp_path / "2")
    for number in lost:
        without(root, copies[number])
    shutil.rmtree(root / "config")

    with opened(root, clock, deliver="always") as store:
        run(store, clock)

        assert sorted(sent(store)) == list(range(7))
        assert sent(store)[7 - len(lost) :] == list(lost)
    with opened(root, clock, deliver="always") as store:
        run(store, clock)
        assert sorted(sent(store)) == list(range(7))


def test_equal_messages_are_counted_where_the_offsets_are_lost(tmp_path, clock):
    equal = delayed(reput.Message("orders", b"7", born_timestamp=1), level=1)
    store = opened(tmp_path / "1", clock)
    store.put_many([*orders(0, 2), equal, equal, equal, *orders(2, 4)])
    deliver(store, clock)
    store.put_many([equal] * 2)
    store.wait_dispatched()
    root = killed(store, tmp_path / "2")
    shutil.rmtree(root / "config")

    with opened(root, clock, deliver="always") as store:
        deliver(store, clock)

        assert sent(store) == [0, 1, 7, 7, 7, 2, 3, 7, 7]


@pytest.mark.shows("delayed")
def test_a_damaged_file_of_offsets_is_read_from_its_backup(tmp_path, clock, caplog):
    with opened(tmp_path / "1", clock) as store:
        store.put_many(orders(0, 5))
        deliver(store, clock)
    path = tmp_path / "1" / "config" / "delayOffset.json"
    (path.parent / "delayOffset.json.bak").write_bytes(path.read_bytes())
    path.write_bytes(b'{"offsetTable":{1:')

    with opened(tmp_path / "1", clock) as store:
        run(store, clock)

        assert sent(store) == list(range(5))
        store.put_many(orders(5, 6))
        deliver(store, clock)
    assert "delayOffset.json: ignored, because it is damaged" in caplog.text
    assert (path.parent / "delayOffset.json.unreadable").read_bytes() == b'{"offsetTable":{1:'


def test_queues_that_are_made_anew_are_waited_for(tmp_path, clock, monkeypatch):
    with opened(tmp_path / "1", clock) as store:
        store.put_many(orders(0, 50))
        deliver(store, clock)
        store.put_many(orders(50, 60))
    store = opened(tmp_path / "1", clock)
    delivery = store.plugin_objects["schedule"].delivery
    view, short = type(delivery.context.store), True
    read = view.read

    def read_short(access, topic, queue_id, queue_offset, *limits, **named):
        if short and queue_offset > 20:
            return read(access, topic, 17, 0, *limits, **named)  # as if it were not there yet
        return read(access, topic, queue_id, queue_offset, *limits, **named)

    monkeypatch.setattr(view, "read", read_short)
    clock.advance(1_000)
    for _ in range(20):
        due = store.work()
    assert (due, delivery.offsets()[1]) == (clock.now + 100, 50)
    short = False
    run(store, clock)

    assert sent(store) == list(range(60))
    store.close()


@pytest.mark.shows("offsets-beyond")
def test_offsets_beyond_are_lowered_for_good_before_the_first_message_is_parked(tmp_path, clock):
    with opened(tmp_path / "1", clock) as store:
        store.put_many(orders(0, 5))
        deliver(store, clock)
    path = tmp_path / "1" / "config" / "delayOffset.json"
    path.write_bytes(b'{"offsetTable":{1:7}}')
    store = opened(tmp_path / "1", clock, deliver="always")
    store.put_many(orders(5, 9))
    # A copy of an open store is what a kill leaves.
    shutil.copytree(tmp_path / "1", tmp_path / "killed")
    store.close()

    with opened(tmp_path / "killed", clock, deliver="always") as store:
        deliver(store, clock)

        assert sent(store) == list(range(9))


def test_a_log_put_back_and_killed_after_it_has_grown_again_loses_no_message(tmp_path, clock):
    with opened(tmp_path / "1", clock) as store:
        store.put_many(orders(0, 5))
    shutil.copytree(tmp_path / "1", tmp_path / "older")
    with opened(tmp_path / "1", clock) as store:
        store.put_many(orders(5, 15))
        deliver(store, clock)
    shutil.copy(tmp_path / "1" / "config" / "delayOffset.json", tmp_path / "older" / "config")
    store = opened(tmp_path / "older", clock)
    store.put_many(orders(100, 140))
    shutil.copytree(tmp_path / "older", tmp_path / "killed")
    store.close()

    with opened(tmp_path / "killed", clock) as store:
        deliver(store, clock)

        assert sent(store) == [*range(5), *range(100, 140)]


@pytest.mark.parametrize("saved", ['{1:20},"reputOffset":0', '{1:2},"reputOffset":99'])
@pytest.mark.parametrize("is_killed", [False, True])
def test_offsets_of_another_store_within_this_log_lose_no_message(
    tmp_path, clock, saved, is_killed
):
    """They count more messages than were parked here, or end inside of a record."""
    with opened(tmp_path / "1", clock) as store:
        store.put_many(orders(0, 3))
    file = tmp_path / "1" / "config" / "delayOffset.json"
    file.write_text(f'{{"offsetTable":{saved}}}')
    store = opened(tmp_path / "1", clock)
    store.put_many(orders(3, 8))
    if is_killed:
        store.flush()
        store = opened(killed(store, tmp_path / "2"), clock)

    deliver(store, clock)

    assert sent(store) == [*range(8)]
    store.close()


@pytest.mark.shows("delayed")
def test_a_log_that_was_put_back_into_an_older_state_loses_no_message(tmp_path, clock):
    with opened(tmp_path / "1", clock) as store:
        store.put_many(orders(0, 5))
    shutil.copytree(tmp_path / "1", tmp_path / "older")
    with opened(tmp_path / "1", clock) as store:
        store.put_many(orders(5, 50))
        deliver(store, clock)
    shutil.copy(tmp_path / "1" / "config" / "delayOffset.json", tmp_path / "older" / "config")

    with opened(tmp_path / "older", clock) as store:
        run(store, clock)
        store.put_many(orders(100, 103))
        deliver(store, clock)

        assert sent(store) == [0, 1, 2, 3, 4, 100, 101, 102]


class FullDisk(QuickDisk):
    """Makes no further file of the log while it is full."""

    full = False

    def allocate(self, descriptor, size, start=0):
        if self.full and size == FILE_SIZE:
            raise OSError(errno.ENOSPC, "no space")
        super().allocate(descriptor, size, start)


@pytest.mark.shows("delayed")
def test_a_disk_that_fills_up_in_the_middle_costs_nothing(tmp_path, clock):
    disk = FullDisk()
    store = opened(tmp_path / "1", clock, disk)
    # A delivery that one file has room for is stored as a whole. The first one fits into the file
    # of the parked messages, and the second one does not.
    count = 70
    messages = [
        delayed(reput.Message("orders", b"%-400d" % number), level=1) for number in range(count)
    ]
    store.put_many(messages)
    clock.advance(1_000)
    plugin = store.plugin_objects["schedule"]
    disk.full = True
    store.wait_dispatched()
    for _ in range(5):
        try:
            plugin.reput_work(clock.now)
        except (OSError, CreateMappedFileError):
            pass
    some = len(sent(store))
    disk.full = False
    for _ in range(5):
        plugin.reput_work(clock.now)

    assert 0 < some < count
    assert sent(store) == list(range(count))
    store.close()


def test_nothing_is_saved_that_the_log_has_not_flushed(tmp_path, clock):
    class Flushed:
        flushed_offset = 0

    with opened(tmp_path / "1", clock) as store:
        context = store.plugin_objects["schedule"].delivery.context
        state = DelayState(attrs.evolve(context, store=Flushed()))
        state.load()

        saved = []
        for flushed, offset, log_end in [(0, 1, 100), (99, 1, 100), (150, 2, 200), (150, 3, 300)]:
            Flushed.flushed_offset = flushed
            state.note({1: offset}, log_end)
            state.flush()
            saved.append(state.saved.offsets.get(1, 0))

    # Where it is delivered without a pause, what the flush before has noted is saved.
    assert saved == [0, 0, 1, 1]


def test_what_waits_is_held_in_the_log(tmp_path, clock):
    with opened(tmp_path / "1", clock) as store:
        plugin = store.plugin_objects["schedule"]
        store.put(reput.Message("others", b""))
        receipt = store.put(orders(0, 1)[0])
        store.work()
        assert plugin.reput_hold() == receipt.physical_offset

        clock.advance(1_000)
        store.work()
        assert plugin.reput_hold() is None
