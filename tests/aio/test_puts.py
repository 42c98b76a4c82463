"""Puts that are awaited: what is on disk, what is shared, and how waits end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import threading
import time

import pytest

import reput
from reput import Durability, Message
from reput.errors import (
    FlushDiskTimeoutError,
    ForkedStoreError,
    PutError,
    ServiceNotAvailableError,
    StoreClosedError,
)
from reput_aio import FlushWaiters
from reput_testing import QuickDisk

SYNC = {"commitlog": {"flush": "sync", "file_size": 1 << 20}}
ASYNC = {"commitlog": {"flush": "async", "file_size": 1 << 20, "flush_interval_ms": 3_600_000}}


class GatedDisk(QuickDisk):
    """A disk whose flushes of the log wait for a gate, are counted, and may fail."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Event()
        self.count = 0
        self.error: OSError | None = None

    def flush(self, descriptor: int) -> None:
        if "commitlog" in os.readlink(f"/proc/self/fd/{descriptor}"):
            self.count += 1
            self.begun.set()
            self.gate.wait()
            if self.error is not None:
                raise self.error
        super().flush(descriptor)

    def shut(self) -> None:
        """Let the next flush wait."""
        self.begun.clear()
        self.gate.clear()


@pytest.fixture
def disk():
    found = GatedDisk()
    yield found
    found.gate.set()


def run(main, path, disk, config=SYNC, **options):
    async def opened():
        async with reput.aio.open(path, plugins=[], config=config, disk=disk, **options) as store:
            return await main(store)

    return asyncio.run(opened())


def begun(disk):
    """Wait on the loop until a flush is under way."""
    return asyncio.get_running_loop().run_in_executor(None, disk.begun.wait)


async def stored_count(store, count):
    """Run other tasks until the log has so many messages."""
    while sum(map(len, store.store.scan())) < count:
        await asyncio.sleep(0)


def test_many_puts_share_flushes_and_are_on_disk(tmp_path, disk):
    async def main(store):
        before = disk.count
        receipts = await asyncio.gather(
            *(store.put(Message("orders", b"%d" % number)) for number in range(200))
        )
        return receipts, [each.durability for each in receipts], disk.count - before

    receipts, durabilities, flushes = run(main, tmp_path / "store", disk)

    assert [each.queue_offset for each in receipts] == list(range(200))
    assert set(durabilities) == {Durability.DURABLE}
    assert 1 <= flushes < 10


@pytest.mark.parametrize("is_batch", [False, True])
def test_a_receipt_of_the_plain_store_can_be_awaited(tmp_path, disk, is_batch):
    with reput.open(tmp_path / "store", plugins=[], config=ASYNC, disk=disk) as store:
        message = Message("orders", b"1")
        receipt = store.put_many([message]) if is_batch else store.put(message)
        before = receipt.durability

        async def main():
            return await receipt, await receipt

        assert before is Durability.APPENDED
        assert asyncio.run(main()) == (Durability.DURABLE, Durability.DURABLE)


@pytest.mark.parametrize(
    ("config", "properties", "options", "found"),
    [
        (SYNC, None, {}, Durability.DURABLE),
        (SYNC, {"WAIT": "true"}, {}, Durability.DURABLE),
        (SYNC, {"WAIT": "false"}, {}, Durability.APPENDED),
        (SYNC, b"WAIT\x01false\x02", {}, Durability.APPENDED),
        (SYNC, None, {"wait": False}, Durability.APPENDED),
        (ASYNC, None, {}, Durability.APPENDED),
    ],
)
def test_a_put_waits_for_the_disk_as_that_of_the_plain_store_does(
    tmp_path, disk, config, properties, options, found
):
    async def main(store):
        receipt = await store.put(Message("orders", b"1", properties=properties), **options)
        return receipt.durability

    assert run(main, tmp_path / "store", disk, config) is found


def test_a_batch_is_put_at_its_end_and_not_if_its_block_raises(tmp_path, disk):
    async def main(store):
        async with store.batch() as batch:
            for number in range(100):  # more than are put on the loop
                batch.put(Message("orders", b"%d" % number))

        other = store.batch()

        async def fail():
            async with other:
                other.put(Message("orders", b"never"))
                raise KeyError

        with pytest.raises(KeyError):
            await fail()
        with pytest.raises(RuntimeError, match="nothing was put yet"):
            other.receipt  # noqa: B018
        async with store.batch() as empty:
            pass
        assert len(empty.receipt) == 0
        return batch.receipt.durability, sum(map(len, store.store.scan()))

    assert run(main, tmp_path / "store", disk) == (Durability.DURABLE, 100)


def test_a_cancelled_put_stays_stored_and_its_error_has_the_id(tmp_path, disk):
    async def main(store):
        disk.shut()
        task = asyncio.create_task(store.put(Message("orders", b"1")))
        await begun(disk)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        stored = next(iter(store.store.scan())).message(0)
        waiting = len(store._state().flushes._waiting)
        disk.gate.set()
        again = await store.put(Message("orders", b"2"))
        return caught.value.__notes__, stored, waiting, again.queue_offset

    notes, stored, waiting, offset = run(main, tmp_path / "store", disk)

    assert stored.msg_id in notes[0]
    assert (waiting, offset) == (0, 1)


def test_a_time_limit_ends_the_wait_for_a_receipt_and_a_later_wait_goes_on(tmp_path, disk):
    async def main(store):
        disk.shut()
        receipt = await store.put(Message("orders", b"1"), wait=False)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await receipt
        disk.gate.set()
        return await receipt

    assert run(main, tmp_path / "store", disk) is Durability.DURABLE


def test_a_disk_that_fails_ends_every_wait_with_an_error_of_its_own(tmp_path, disk):
    async def main(store):
        disk.shut()
        tasks = [asyncio.create_task(store.put(Message("orders", b"1"))) for _ in range(20)]
        await begun(disk)
        late = asyncio.create_task(store.put(Message("orders", b"late")))
        await stored_count(store, 21)
        disk.error = OSError(errno.EIO, os.strerror(errno.EIO))
        disk.gate.set()
        errors = await asyncio.gather(*tasks, late, return_exceptions=True)
        with pytest.raises(ServiceNotAvailableError):
            await store.put(Message("orders", b"after"))
        return errors

    errors = []

    async def keep(store):
        errors.extend(await main(store))

    with pytest.raises(ServiceNotAvailableError):  # of closing
        run(keep, tmp_path / "store", disk)

    assert {type(each) for each in errors} == {ServiceNotAvailableError}
    assert len(set(map(id, errors))) == 21
    assert [each.stored_count for each in errors] == [1] * 21
    assert all(isinstance(each.__cause__, OSError) for each in errors)


def test_a_put_that_is_not_on_disk_in_time_says_where_it_is_stored(tmp_path, disk):
    config = {"commitlog": SYNC["commitlog"] | {"flush_timeout_ms": 1}}

    async def main(store):
        disk.shut()
        with pytest.raises(FlushDiskTimeoutError) as caught:
            await store.put(Message("orders", b"1"))
        disk.gate.set()
        return caught.value

    error = run(main, tmp_path / "store", disk, config)

    assert error.stored_count == 1
    assert error.stored[0].queue_offset == 0


def test_no_more_puts_are_under_way_than_are_allowed(tmp_path, disk):
    async def main(store):
        disk.shut()
        tasks = [asyncio.create_task(store.put(Message("orders", b"1"))) for _ in range(5)]
        await begun(disk)
        under_way = sum(map(len, store.store.scan()))
        tasks[4].cancel()
        disk.gate.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        return under_way, sum(map(len, store.store.scan())), [type(each) for each in found]

    under_way, stored, kinds = run(main, tmp_path / "store", disk, puts_max=2)

    assert (under_way, stored) == (2, 4)
    assert kinds == [reput.Receipt] * 4 + [asyncio.CancelledError]


def test_after_a_slow_put_others_are_made_on_threads(tmp_path, disk, monkeypatch):
    async def main(store):
        await store.put(Message("orders", b"1"))
        store._state().slow_until = float("inf")
        names = []
        put = store.store.put
        monkeypatch.setattr(
            store.store,
            "put",
            lambda *args, **options: (
                [names.append(threading.current_thread().name)] and put(*args, **options)
            ),
        )
        receipt = await store.put(Message("orders", b"2"))
        return names, receipt.queue_offset

    names, offset = run(main, tmp_path / "store", disk)

    assert names[0].startswith("reput-aio")
    assert offset == 1


def test_several_loops_use_one_store_and_a_closed_loop_loses_nobody_else(tmp_path, disk):
    with reput.open(tmp_path / "store", plugins=[], config=SYNC, disk=disk) as store:
        wrapped = reput.aio.wrap(store)
        disk.shut()

        async def leave():
            asyncio.create_task(wrapped.put(Message("orders", b"left")))  # noqa: RUF006
            await begun(disk)
            asyncio.get_running_loop().stop()

        loop = asyncio.new_event_loop()
        main = loop.create_task(leave())
        loop.run_forever()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.gather(main, return_exceptions=True))
        loop.close()
        disk.gate.set()

        async def use():
            return await asyncio.gather(*(wrapped.put(Message("orders", b"1")) for _ in range(9)))

        found = []
        threads = [
            threading.Thread(target=lambda: found.append(asyncio.run(use()))) for _ in range(3)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        asyncio.run(wrapped.close())

        assert {each.durability for receipts in found for each in receipts} == {Durability.DURABLE}
        assert sum(map(len, store.scan())) == 28
        assert not store.closed


def test_closing_brings_puts_under_way_to_disk_and_refuses_later_ones(tmp_path, disk):
    async def main(store):
        disk.shut()
        task = asyncio.create_task(store.put(Message("orders", b"1")))
        await begun(disk)
        closing = [asyncio.create_task(store.close()) for _ in range(2)]
        await asyncio.sleep(0)
        closing[0].cancel()
        with pytest.raises(StoreClosedError):
            await store.put(Message("orders", b"2"))
        disk.gate.set()
        await closing[1]
        return (await task).durability, store.closed

    assert run(main, tmp_path / "store", disk) == (Durability.DURABLE, True)


def test_a_cancelled_opening_leaves_no_store_open(tmp_path, disk):
    async def main():
        disk.shut()
        store = await reput.aio.open(tmp_path / "store", plugins=[], config=SYNC, disk=disk)
        await store.put(Message("orders", b"1"), wait=False)
        disk.gate.set()
        await store.close()
        disk.shut()
        entered, done = threading.Event(), threading.Event()

        def opener(*args, **options):
            entered.set()
            disk.gate.wait()
            opened = real(*args, **options)
            close = opened.close

            def closing():
                close()
                done.set()

            opened.close = closing
            return opened

        real = reput.open
        reput.open = opener
        try:
            opening = reput.aio.open(tmp_path / "store", disk=disk)
        finally:
            reput.open = real
        task = asyncio.ensure_future(opening._open())
        await asyncio.get_running_loop().run_in_executor(None, entered.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        disk.gate.set()
        await asyncio.get_running_loop().run_in_executor(None, done.wait)

    asyncio.run(main())
    with reput.open(tmp_path / "store", disk=disk) as store:
        assert sum(map(len, store.scan())) == 1


def test_in_a_forked_child_every_use_is_an_error(tmp_path, disk):
    async def main(store):
        receipt = await store.put(Message("orders", b"1"), wait=False)
        child = os.fork()
        if not child:
            kinds = []
            for use in (store.put(Message("orders", b"2")), reput.aio.durability(receipt)):
                try:
                    use.send(None)
                except BaseException as error:
                    kinds.append(type(error))
            os._exit(0 if kinds == [ForkedStoreError] * 2 else 1)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), await receipt

    assert run(main, tmp_path / "store", disk) == (0, Durability.DURABLE)


def test_no_thread_for_the_disk_is_an_error_that_keeps_the_message(tmp_path, disk, monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    async def main(store):
        monkeypatch.setattr("reput_aio.flushwaiters.start_thread", refuse)
        with pytest.raises(FlushDiskTimeoutError, match="no thread") as caught:
            await store.put(Message("orders", b"1"))
        monkeypatch.undo()
        last = await store.put(Message("orders", b"2"))
        return caught.value.stored_count, last.queue_offset

    assert run(main, tmp_path / "store", disk) == (1, 1)


def test_the_shorter_of_two_time_limits_ends_first(tmp_path, disk):
    async def main(store):
        disk.shut()
        end_offset = (await store.put(Message("orders", b"1"), wait=False)).end_offset
        flushes = store._state().flushes
        later, sooner = (
            flushes.begin(end_offset, limit) for limit in (time.monotonic() + 3_600, 0.0)
        )
        is_flushed = await asyncio.wait_for(sooner, 30)
        disk.gate.set()
        return is_flushed, await later

    assert run(main, tmp_path / "store", disk) == (False, True)


def test_a_wait_beyond_the_log_that_is_cancelled_costs_no_other_wait(tmp_path, disk):
    async def main(store):
        end_offset = (await store.put(Message("orders", b"1"), wait=False)).end_offset
        flushes = store._state().flushes
        good, wrong = flushes.begin(end_offset), flushes.begin(end_offset + 1)
        wrong.cancel()
        return await asyncio.wait_for(good, 30)

    assert run(main, tmp_path / "store", disk) is True


def test_what_is_on_disk_is_not_late_where_the_loop_stood_still(tmp_path, disk, monkeypatch):
    async def main(store):
        end_offset = (await store.put(Message("orders", b"1"), wait=False)).end_offset
        await store.flush()
        monkeypatch.setattr("reput_aio.flushwaiters.start_thread", lambda thread: None)
        flushes = FlushWaiters(store.store.log, asyncio.get_running_loop())
        try:
            return await asyncio.wait_for(flushes.begin(end_offset, 0.0), 30)
        finally:
            flushes._leave()

    assert run(main, tmp_path / "store", disk) is True


def test_a_flush_is_reported_where_its_thread_ended_while_the_loop_stood_still(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("reput_aio.flushwaiters._IDLE_SECONDS", 0.01)

    async def main():
        async with reput.aio.open(tmp_path / "store", plugins=[], config=SYNC) as store:
            put = asyncio.ensure_future(store.put(Message("orders", b"1")))
            while not (found := flush_threads()):
                await asyncio.sleep(0)
            found[0].join(30)
            return (await asyncio.wait_for(put, 30)).durability

    before = count_counters()
    assert asyncio.run(main()) is Durability.DURABLE
    assert count_counters() <= before


@pytest.mark.parametrize("is_refused", [False, True])
def test_no_counter_is_left_of_a_loop_that_was_stopped_or_watches_nothing(
    tmp_path, monkeypatch, is_refused
):
    def refuse(*_):
        raise OSError(errno.ENOSPC, "too many are watched")

    monkeypatch.setattr("reput_aio.flushwaiters._IDLE_SECONDS", 0.01)
    before, loop = count_counters(), asyncio.new_event_loop()
    if is_refused:
        monkeypatch.setattr(loop, "add_reader", refuse)
    with reput.open(tmp_path / "store", plugins=[], config=SYNC) as store:
        put = reput.aio.wrap(store).put(Message("orders", b"1"))
        receipt = loop.run_until_complete(asyncio.wait_for(put, 30))
        count_counters()  # the thread ends, and the loop does not run any more
        loop.close()

        assert receipt.durability is Durability.DURABLE
        assert count_counters() <= before


def count_counters():
    for thread in flush_threads():
        thread.join(30)  # also those of other tests, whose loops are closed
    found = 0
    for each in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # it is closed by now
            found += "eventfd" in os.readlink(f"/proc/self/fd/{each}")
    return found


def flush_threads():
    found = [each for each in threading.enumerate() if each.name == "reput-aio-flush"]
    return [each for each in found if each.is_alive()]  # and not just being started


def test_whatever_waiting_for_the_disk_raises_ends_the_waits(tmp_path, disk, monkeypatch):
    def fail(physical_offset, timeout):
        raise SystemExit  # as a panic of compiled code, no `Exception`

    async def main(store):
        with monkeypatch.context() as patch:
            patch.setattr(store.store.log, "wait_flushed", fail)
            with pytest.raises(RuntimeError, match="SystemExit"):
                await store.put(Message("orders", b"1"))
        return (await store.put(Message("orders", b"2"))).queue_offset

    assert run(main, tmp_path / "store", disk) == 1


def test_a_refused_message_is_refused_as_by_the_plain_store(tmp_path, disk):
    async def main(store):
        with pytest.raises(PutError):
            await store.put(Message("orders", b"1" * (1 << 23)))
        with pytest.raises(TypeError):
            await store.put("no message")
        return (await store.put(Message("orders", b"1"))).queue_offset

    assert run(main, tmp_path / "store", disk) == 0
