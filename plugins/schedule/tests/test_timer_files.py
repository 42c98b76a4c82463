"""The timer's files lost, cut, damaged, foreign, trimmed: they come out of the log alone."""

from __future__ import annotations

import itertools
import os
import shutil
import struct
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timerstores import DAY, TimerPlugin, TimerStore, copy_sparsely

import reput
from reput.errors import CorruptFileError
from reput.record import Message
from reput_schedule import ScheduleConfig, SchedulePlugin
from reput_schedule.timerwheel.files.timercheckpoint import decode_check
from reput_schedule.timerwheel.files.wheel import Wheel
from reput_schedule.timerwheel.layout import CHECK_DTYPE, NOTE_POSITION, RECORD_SIZE
from reput_schedule.timerwheel.settledlook import settled
from reput_testing import ManualClock
from reput_tools.doctor.repair.repairrun import repair

LOG = "timerlog/00000000000000000000"
WHEEL = "timerwheel"
CHECK = "config/timercheck"


@pytest.fixture
def store(tmp_path):
    """Twenty messages, half of them delivered; five minutes are over."""
    with TimerStore(tmp_path / "store") as opened:
        for number in range(20):
            opened.put_in(f"{number:02}", 30_000 * (number + 1))
        opened.put_in("rolled", 4 * DAY)
        opened.run_until(opened.clock() + 300_000)
        opened.store.flush()
        assert len(opened.bodies()) == 10
        yield opened


def all_come_once(store):
    store.run_until(store.clock() + 5 * DAY)
    assert store.bodies() == [f"{number:02}" for number in range(20)] + ["rolled"]


def everything(store):
    return (store.root / LOG).read_bytes(), (store.root / WHEEL).read_bytes()


@pytest.mark.shows("delayed")
def test_the_checkpoint_counts_no_message_before_the_log_has_it_on_disk(store):
    def counted():
        return decode_check((store.root / CHECK).read_bytes()).queue_offset

    before = counted()
    store.put_in("late 1", DAY)
    store.put_in("late 2", DAY)
    store.store.wait_dispatched()

    store.timer.flush()
    assert store.store.log.flushed_offset < store.store.log.max_physical_offset
    assert counted() == before

    store.put_in("late 3", DAY)
    store.store.wait_dispatched()
    store.store.flush()
    assert counted() == before + 3


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "lost",
    [[LOG], [WHEEL], [CHECK], ["timerlog"], [LOG, WHEEL, CHECK], ["reput/state"], [CHECK, LOG]],
)
def test_whatever_is_lost_comes_out_of_the_log_again(store, lost, clean):
    files = everything(store)
    if clean:
        store.close()
    else:
        store.crash()
    for name in lost:
        path = store.root / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    store.open()
    store.store.wait_dispatched()
    store.store.flush()

    assert everything(store) == files
    all_come_once(store)


@pytest.mark.parametrize("delivered", [True, False])
def test_a_reader_believes_a_broker_that_wrote_last(store, delivered):
    store.close()
    data = bytearray((store.root / CHECK).read_bytes())
    head = np.frombuffer(data, CHECK_DTYPE, 1)
    head["version_counter"] += 1
    if delivered:
        head["read_timestamp"] += 5 * DAY
    (store.root / CHECK).write_bytes(data)

    plugins = ["consumequeue", "schedule"]
    with reput.open(store.root, "r", plugins=plugins) as reader:
        waiting = reader.plugin("schedule").scheduled()

    assert waiting.message_count == (0 if delivered else 11)


def cut(path, size):
    with path.open("r+b") as file:
        file.truncate(size)


def garble(path, position, data):
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda root: cut(root / LOG, 1000), id="log cut"),
        pytest.param(lambda root: cut(root / LOG, 0), id="log empty"),
        pytest.param(lambda root: cut(root / WHEEL, 100), id="wheel cut"),
        pytest.param(lambda root: cut(root / WHEEL, 38_707_232), id="wheel of another size"),
        pytest.param(lambda root: cut(root / CHECK, 60), id="checkpoint cut"),
        pytest.param(lambda root: cut(root / CHECK, 0), id="checkpoint empty"),
        pytest.param(lambda root: garble(root / CHECK, 90, b"\xff" * 8), id="checkpoint garbled"),
        pytest.param(lambda root: garble(root / LOG, 104, bytes(52)), id="record zero"),
        pytest.param(lambda root: garble(root / LOG, 104, b"\xff" * 52), id="record garbled"),
        pytest.param(
            lambda root: garble(root / LOG, 520 + 4, struct.pack(">q", 520)), id="chain loops"
        ),
        pytest.param(
            lambda root: garble(root / LOG, 520 + 4, struct.pack(">q", 1 << 60)), id="chain leaves"
        ),
        pytest.param(
            lambda root: garble(root / LOG, 520 + 4, struct.pack(">q", 7)), id="chain is askew"
        ),
        pytest.param(
            lambda root: garble(root / LOG, 520 + 36, struct.pack(">i", -5)), id="size negative"
        ),
        pytest.param(
            lambda root: garble(root / LOG, 520 + 28, struct.pack(">q", -5)), id="place negative"
        ),
        pytest.param(
            lambda root: (root / "timerlog/00000000000000000999").write_bytes(b"x"),
            id="foreign file",
        ),
    ],
)
@pytest.mark.parametrize("clean", [True, False])
def test_damage_is_noticed_or_costs_nothing(store, damage, clean):
    if clean:
        store.close()
    else:
        store.crash()
    damage(store.root)
    if clean:
        # What a closed store holds is read when it is needed; a killed one reads all of it.
        (store.root / CHECK).unlink(missing_ok=True)

    store.open()

    all_come_once(store)


@pytest.mark.parametrize("previous", [52, 1 << 60, 7, 104])
def test_a_chain_that_leads_astray_in_a_closed_store_is_noticed_and_mended(tmp_path, previous):
    with TimerStore(tmp_path / "store") as store:
        for number in range(4):
            store.put_in(f"{number}", 5000 if number != 2 else 9000)
        store.reopen()
        # Records 0, 1 and 3 are one chain. The second one is changed.
        garble(store.root / LOG, 52 + 4, struct.pack(">q", previous))
        store.clock.advance(6000)
        store.store.wait_dispatched()
        for _ in range(2):
            with pytest.raises(CorruptFileError, match="chain"):
                store.timer.work(store.clock())
        assert store.bodies() == []

        store.crash().open()

        store.run_until(store.clock() + 9000)
        assert store.bodies() == ["0", "1", "3", "2"]


@pytest.mark.costly
def test_slots_that_contradict_the_log_are_made_again(store, caplog):
    store.close()
    data = (store.root / WHEEL).read_bytes()
    for at in range(0, len(data), 32):
        if data[at : at + 8] != bytes(8):
            garble(store.root / WHEEL, at + 16, struct.pack(">q", 1 << 40))
    with caplog.at_level("WARNING"):
        store.open()

    assert "slots and the timer log differ" in caplog.text
    all_come_once(store)


def test_a_wheel_without_the_last_records_of_a_closed_store_is_made_again(store):
    def seen():
        with reput.open(store.root, "r", plugins=["consumequeue", "schedule"]) as reader:
            plugin = reader.plugin("schedule")
            counts = plugin.scheduled().counts.tolist()
            return counts, [str(each) for each in plugin.reput_tools_wrong_entries()]

    store.close()
    waiting, wrong = seen()
    assert sum(waiting) == 11
    assert wrong == []
    size = (store.root / WHEEL).stat().st_size
    os.truncate(store.root / WHEEL, 0)
    os.truncate(store.root / WHEEL, size)

    after, wrong = seen()

    assert after == waiting
    assert ["no slot leads to the record" in each for each in wrong] == [True]
    store.open()
    all_come_once(store)


def test_another_precision_makes_the_wheel_again(store):
    store.close()
    store.options["precision_ms"] = 100
    store.open()

    all_come_once(store)


def test_a_log_that_was_put_back_in_an_older_state_loses_nothing(tmp_path):
    with TimerStore(tmp_path / "store") as store:
        store.put_in("a", 5000)
        store.run_until(store.clock() + 1000)
        store.close()
        kept = tmp_path / "kept"
        copy_sparsely(store.root / "commitlog", kept)
        store.open()
        store.put_in("b", 5000)
        store.run_until(store.clock() + 20_000)
        assert store.bodies() == ["a", "b"]
        store.close()
        for name in ("commitlog", "consumequeue"):
            shutil.rmtree(store.root / name)
        (store.root / "reput/state").unlink()
        copy_sparsely(kept, store.root / "commitlog")

        store.open()
        store.run_until(store.clock() + 20_000)

        assert store.bodies() == ["a"]


@pytest.mark.parametrize("filler", [0, 301])
def test_a_checkpoint_of_another_store_within_this_log_loses_nothing(tmp_path, filler):
    """Its physical offsets lie inside of records here."""
    with TimerStore(tmp_path / "other") as other:
        other.put_in("x" * 99, 3_000)
        other.run_until(other.clock() + 5_000)
    with TimerStore(tmp_path / "store") as store:
        for number in range(5):
            store.put_in(f"{number}" + "y" * filler, 3_000)
    shutil.copy(tmp_path / "other" / CHECK, tmp_path / "store" / CHECK)

    with TimerStore(tmp_path / "store") as store:
        store.put_in("5", 3_000)
        store.run_until(store.clock() + 10_000)

        assert sorted(body[:1] for body in store.bodies()) == list("012345")


def test_a_put_that_fails_on_the_way_repeats_nothing(store, monkeypatch):
    store.clock.advance(120_000)
    real = store.plugin.context.store.put_many
    failures = iter([OSError(28, "disk full"), OSError(28, "disk full")])

    def half(self, messages):
        error = next(failures, None)
        if error is None:
            return real(messages)
        real(messages[: len(messages) // 2 + 1])
        raise error

    slots = type(store.plugin.context.store)
    monkeypatch.setattr(slots, "put_many", half)
    for _ in range(2):
        with pytest.raises(OSError, match="disk full"):
            store.timer.work(store.clock())
    monkeypatch.undo()

    all_come_once(store)


@pytest.mark.costly
def test_a_dispatch_that_found_the_disk_full_is_repeated_without_a_trace(store, monkeypatch):
    store.store.wait_dispatched()
    wheel, before = store.timer._files.wheel, store.timer._files.log.end
    slots = wheel._slots.tobytes()
    monkeypatch.setattr(
        type(store.timer._files.log), "append", lambda self, records: (_ for _ in ()).throw(OSError)
    )
    store.put_in("20", 400_000)
    batch = next(store.store.scan(store.messages("rmq_sys_wheel_timer")[-1].physical_offset))

    with pytest.raises(OSError):
        store.timer.dispatch(batch)

    assert wheel._slots.tobytes() == slots
    assert store.timer._files.log.end == before
    monkeypatch.undo()


def test_files_whose_messages_the_log_has_lost_are_removed(tmp_path):
    with TimerStore(tmp_path / "store", log_file_size=4096) as store:
        for number in range(200):
            store.put_in(f"{number:03}", 1000 + number)
        store.store.wait_dispatched()
        offsets = [m.physical_offset for m in store.messages("rmq_sys_wheel_timer")]
        names = [f"{base:020}" for base in (0, 4096, 8192)]
        assert sorted(path.name for path in (store.root / "timerlog").iterdir()) == names

        store.timer.trim(offsets[100])

        assert sorted(path.name for path in (store.root / "timerlog").iterdir()) == names[1:]
        store.store.flush()
        store.crash().open()
        store.run_until(store.clock() + 9000)
        # Of the first file nothing is left; the log, of which this is a test, has them all.
        assert set(store.bodies()) == {f"{number:03}" for number in range(78, 200)}


def test_a_reader_sees_what_waits_and_changes_nothing(store):
    before = everything(store)
    expected = store.timer.pending()
    store.close()
    names = {path: path.stat().st_mtime_ns for path in store.root.rglob("*")}

    from timerstores import TimerPlugin

    plugin = TimerPlugin()
    with reput.open(store.root, "r", plugins=["consumequeue", plugin], clock=store.clock):
        times, counts = plugin.timer.pending()
        assert plugin.timer.report()["pending"] == 11
    assert times.tolist() == expected[0].tolist()
    assert counts.tolist() == expected[1].tolist()
    assert {path: path.stat().st_mtime_ns for path in store.root.rglob("*")} == names
    store.open()
    assert everything(store) == before


def in_place_of(name):
    def put(root):
        (root / name).unlink()
        (root / name).mkdir()

    return put


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(
            lambda root: cut(sorted((root / "timerlog").iterdir())[1], 100), id="timer log"
        ),
        pytest.param(in_place_of(WHEEL), id="wheel"),
        pytest.param(in_place_of(CHECK), id="checkpoint"),
        pytest.param(in_place_of("config/timermetrics"), id="counts"),
    ],
)
def test_damaged_files_of_the_timer_hinder_no_repair_of_queues(tmp_path, damage):
    kind = type("SmallFiles", (SchedulePlugin,), {"timer_log_file_size": 4096})
    root, repaired, clock = tmp_path / "store", tmp_path / "repaired", ManualClock()
    options = {"config": {"commitlog": {"file_size": 1 << 16}}, "clock": clock}
    with reput.open(root, plugins=["consumequeue", kind()], **options) as store:
        due = {"TIMER_DELIVER_MS": str(clock() + DAY)}
        store.put_many([Message("Topic", b"late", properties=due)] * 100)
    queue = root / "consumequeue/rmq_sys_wheel_timer/0" / ("0" * 20)
    units = queue.read_bytes()
    garble(queue, 40, b"\xff" * 20)
    damage(root)

    assert repair(root, repaired, jobs=1).built

    assert (repaired / queue.relative_to(root)).read_bytes() == units
    for name in (WHEEL, CHECK, "config/timermetrics"):  # a directory stays, and has to be moved
        if (repaired / name).is_dir():
            (repaired / name).rmdir()
    with reput.open(repaired, clock=clock, threads=False) as store:
        store.wait_dispatched()
        assert store.plugin("schedule").scheduled().message_count == 100


@pytest.mark.parametrize("step", [1, 3, 50])
def test_the_files_do_not_depend_on_how_the_log_is_cut_into_batches(store, tmp_path, step):
    files = everything(store)
    with TimerStore(tmp_path / "other") as other:
        for batch in store.store.scan():
            for first in range(0, len(batch), step):
                other.timer.dispatch(batch[first : first + step])
        other.timer.flush()
        assert everything(other) == files


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 60), st.sampled_from([1, -1])), max_size=60),
    st.lists(st.integers(1, 60), max_size=5),
    st.integers(1, 60),
)
def test_the_wheel_is_that_of_records_added_one_by_one(records, cuts, read_tick):
    whole, single = Wheel(16), Wheel(16)
    whole.advance(read_tick)
    single.advance(read_tick)
    ticks = np.array([tick for tick, _ in records], np.int64)
    deltas = np.array([delta for _, delta in records], np.int64)
    places = np.arange(len(records), dtype=np.int64) * 52
    edges = sorted({0, *(cut % (len(records) + 1) for cut in cuts), len(records)})

    previous = [
        whole.add(ticks[i:j], places[i:j], deltas[i:j]) for i, j in itertools.pairwise(edges)
    ]
    one_by_one = [
        single._add_one(int(ticks[row]), int(places[row]), int(deltas[row]))
        for row in range(len(records))
    ]

    assert [each for part in previous for each in part.tolist()] == one_by_one
    assert whole._slots.tobytes() == single._slots.tobytes()
    assert whole.aside == single.aside
    waiting = sorted(tick for tick, _ in records if tick >= read_tick)
    assert whole.next_tick(read_tick) == (waiting[0] if waiting else None)
    assert sorted(set(whole.pending()[0].tolist())) == sorted(set(waiting))


def test_a_message_that_rocketmq_delivered_since_is_not_delivered_again(store):
    """RocketMQ takes over: it delivers, writes its part of the checkpoint, and stops."""
    store.close()
    data = bytearray((store.root / CHECK).read_bytes())
    now = store.clock.advance(30_000)
    plain = reput.open(
        store.root, plugins=["consumequeue"], forget=["timertest"], clock=store.clock, threads=False
    )
    with plain:
        parked = [m for m in plain.read("rmq_sys_wheel_timer", 0, 0) if m.body == b"10"]
        copy = parked[0].to_message()
        copy.topic = "Topic"
        copy.properties += f"TIMER_ENQUEUE_MS\x01{now}\x02TIMER_DEQUEUE_MS\x01{now}\x02".encode()
        plain.put(copy)
        plain.put(Message("Topic", b"10", properties={"UNIQ_KEY": "of somebody else"}))
    struct.pack_into(">q", data, 0, now)
    (store.root / CHECK).write_bytes(data)

    store.open()
    store.run_until(store.clock() + 5 * DAY)

    bodies = store.bodies()
    assert bodies.count("10") == 2
    assert sorted({*bodies}) == [f"{number:02}" for number in range(20)] + ["rolled"]
    assert len(bodies) == 22


@pytest.mark.parametrize("size", [(1 << 31) - 1, 1 << 28, 5, -1])
def test_a_damaged_size_in_the_timer_log_reads_no_more_than_the_log_states(
    store, monkeypatch, size
):
    log = store.timer._context.log
    (records,) = (records for _, records in store.timer._files.log.chunks(0, 21 * RECORD_SIZE))
    damaged = records[:3].copy()
    damaged["message_size"][1] = size
    read, asked = type(log).read, []
    monkeypatch.setattr(
        type(log), "read", lambda self, at, count: asked.append(count) or read(self, at, count)
    )

    views = store.timer._delivery.load(damaged)

    assert [view is None for view in views] == [False, True, False]
    assert max(asked) <= 1 << 20


def test_a_reader_shows_all_timers_beside_snapshots_of_the_wheel(store):
    """A broker writes them in place of the wheel's file, which is an older one then."""
    older = (store.root / WHEEL).read_bytes()
    store.put_in("later", DAY)
    store.store.wait_dispatched()
    store.store.flush()
    expected = [each.tolist() for each in store.timer.pending()]
    store.store.close()
    (store.root / WHEEL).rename(store.root / f"{WHEEL}.1234")
    (store.root / WHEEL).write_bytes(older)

    plugin = TimerPlugin(ScheduleConfig(), store.log_file_size)
    with reput.open(store.root, "r", plugins=["consumequeue", plugin], clock=store.clock):
        assert [each.tolist() for each in plugin.timer.pending()] == expected


def test_a_writer_replaces_snapshots_of_the_wheel_by_its_file(store):
    older = (store.root / WHEEL).read_bytes()
    store.put_in("later", DAY)
    store.store.wait_dispatched()
    store.store.flush()
    expected = [each.tolist() for each in store.timer.pending()]
    store.store.close()
    wheel = (store.root / WHEEL).read_bytes()
    (store.root / f"{WHEEL}.1234").write_bytes(older)
    (store.root / f"{WHEEL}.x").write_bytes(b"kept")
    (store.root / WHEEL).write_bytes(older)

    store.open()
    assert [each.tolist() for each in store.timer.pending()] == expected
    store.close()

    assert (store.root / WHEEL).read_bytes() == wheel
    assert sorted(each.name for each in store.root.glob(f"{WHEEL}*")) == [WHEEL, f"{WHEEL}.x"]


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_store_that_delivers_nothing_keeps_how_far_a_broker_delivered(tmp_path, is_closed):
    clock, root = ManualClock(), tmp_path / "store"
    start = clock()

    def opened(deliver):
        names, config = ["consumequeue", "schedule"], {"schedule": {"deliver": deliver}}
        return reput.open(root, plugins=names, config=config, clock=clock, threads=False)

    def put_in(store, body, delay):
        properties = {"TIMER_DELIVER_MS": str(start + delay)}
        store.put(reput.Message("Topic", body, properties=properties))
        store.wait_dispatched()

    with opened("always") as store:
        put_in(store, b"delivered", 5_000)
        clock.now = start + 10_000
        while (due := store.work()) is not None and due <= clock.now:
            pass
        put_in(store, b"overdue", 15_000)
        assert [each.body for each in store.messages("Topic")] == [b"delivered"]
    data = (root / CHECK).read_bytes()
    (root / CHECK).write_bytes(data[:NOTE_POSITION].ljust(len(data), b"\0"))  # as a broker's
    read = np.frombuffer(data, CHECK_DTYPE, 1)["read_timestamp"]

    clock.now = start + 20_000
    store = opened("never")
    put_in(store, b"later", 60_000)
    store.flush()
    if is_closed:
        store.close()
    found = np.frombuffer((root / CHECK).read_bytes(), CHECK_DTYPE, 1)["read_timestamp"]
    store.close()

    assert start + 5_000 < int(read[0]) == int(found[0]) < start + 15_000


@pytest.mark.parametrize("is_there", [True, False])
def test_files_that_never_fit_together_are_an_error_and_no_endless_loop(is_there):
    number, log = itertools.count(), SimpleNamespace(has_first=lambda: False, directory="timerlog")

    def ask():
        if is_there:
            raise CorruptFileError("timerwheel", next(number), "a slot leads astray")

    with pytest.raises(CorruptFileError, match="slot leads astray" if is_there else "is missing"):
        settled(lambda: None, ask, lambda: (SimpleNamespace(log=log), b""))
