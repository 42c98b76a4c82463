"""Reads, consumers and plugins that are awaited."""

from __future__ import annotations

import asyncio
import math
import threading

import pytest

import reput
from reput import Message, ReadStatus
from reput.errors import ReputError, StoreClosedError
from reput.files import FileWatch
from reput.files.system import filewatch
from reput_aio import arrivals
from reput_aio.readplacement import ReadPlacement
from reput_aio.threads import Threads
from reput_consumer import Retry
from reput_schedule import delayed
from reput_testing import ManualClock

PLUGINS = ["consumequeue", "consumer", "index", "retention", "transaction"]
NOON = 1_700_000_000_000
CONFIG = {"commitlog": {"file_size": 1 << 20}, "consumequeue": {"units_per_file": 1_000}}


def run(main, path, **options):
    async def opened():
        async with reput.aio.open(path, plugins=PLUGINS, config=CONFIG, **options) as store:
            return await main(store)

    return asyncio.run(opened())


async def put(store, *bodies, topic="orders"):
    for body in bodies:
        await store.put(Message(topic, body))
    assert await store.wait_dispatched()


async def waiting(store, count):
    """Run other tasks until so many coroutines wait for messages."""
    while store._arrivals.count < count:
        await asyncio.sleep(0)


def bodies_of(messages):
    return [each.body for each in messages]


# --------------------------------------------------------------------------- reads


def test_a_topic_is_iterated_over(tmp_path):
    async def main(store):
        await store.put_many([Message("orders", b"%d" % number) for number in range(100)])
        await store.put_many(
            [Message("orders", b"second queue %d" % number, queue_id=1) for number in range(100)]
        )
        await store.wait_dispatched()
        found = bodies_of([each async for each in store.messages("orders")])
        assert len(found) == 200
        assert found == bodies_of(store.store.messages("orders"))
        with pytest.raises(ReputError):
            async for _ in store.messages("orders", "no condition ="):
                pass

    run(main, tmp_path)


def test_reads_and_queries_are_those_of_the_store(tmp_path):
    async def main(store):
        for number in range(3):
            await store.put(Message("orders", b"%d" % number, keys=["k"]))
        await store.wait_dispatched()
        await store.flush()
        plain = store.store
        read = [await store.read("orders", 0, offset) for offset in range(4)]
        columns = await store.read("orders", 0, 0, as_columns=True)
        assert read == [plain.read("orders", 0, offset) for offset in range(4)]
        assert await store.read("orders", 0, 2, 1) == read[2]  # on the loop
        assert store._state().reads.count == 4
        assert columns.queue_offsets.tolist() == [0, 1, 2]
        assert await store.queues() == plain.queues()
        assert await store.query("orders", "k") == plain.query("orders", "k")
        assert await store.offset_by_time("orders", 0, 0) == 0
        assert await store.expire_log() == plain.expire_log()  # a method that a plugin offers
        with pytest.raises(AttributeError):
            store.no_such_method  # noqa: B018

    run(main, tmp_path / "store")


def test_a_read_waits_for_a_message_of_its_queue_without_a_thread(tmp_path):
    async def main(store):
        await put(store, b"before")
        before = threading.active_count()
        reads = [asyncio.create_task(store.read("orders", 0, 1, wait=60)) for _ in range(100)]
        other = asyncio.create_task(store.read("others", 0, 0, wait=60))
        await waiting(store, 101)
        threads = threading.active_count()
        await put(store, b"now")
        found = await asyncio.gather(*reads)
        assert {tuple(bodies_of(each.messages)) for each in found} == {(b"now",)}
        assert threads - before < 20
        assert not other.done()
        assert store._arrivals.count == 1
        other.cancel()
        await asyncio.wait([other])
        assert store._arrivals.count == 0

    run(main, tmp_path / "store")


def test_a_read_that_waits_ends_in_time_and_at_once_where_waiting_is_in_vain(tmp_path):
    async def main(store):
        await put(store, b"1")
        late = await store.read("orders", 0, 1, wait=0.001)
        beyond = await store.read("orders", 0, 7, wait=60)
        found = await store.read("orders", 0, 0, wait=60)
        return late.status, beyond.status, bodies_of(found.messages)

    assert run(main, tmp_path / "store") == (
        ReadStatus.OFFSET_OVERFLOW_ONE,
        ReadStatus.OFFSET_OVERFLOW_BADLY,
        [b"1"],
    )


def test_seconds_that_are_no_number_are_refused(tmp_path):
    async def main(store):
        await put(store, b"1")
        for value, error in ((math.nan, ValueError), ("1", TypeError), (True, TypeError)):
            with pytest.raises(error, match="wait: seconds expected"):
                await store.read("orders", 0, 1, wait=value)
            async with store.pop_consumer("billing", "orders") as consumer:
                with pytest.raises(error, match="seconds: seconds expected"):
                    await consumer.receive(1, value)
            with pytest.raises(error, match="timeout: seconds expected"):
                await store.close(value)
        return (await store.read("orders", 0, 1, wait=-1)).status

    assert run(main, tmp_path / "store") is ReadStatus.OFFSET_OVERFLOW_ONE


def test_closing_ends_reads_that_wait(tmp_path):
    async def main(store):
        read = asyncio.create_task(store.read("orders", 0, 0, wait=60))
        await waiting(store, 1)
        await store.close()
        with pytest.raises(StoreClosedError):
            await read
        with pytest.raises(StoreClosedError):
            await store.read("orders", 0, 0)
        with pytest.raises(StoreClosedError):
            await store.read("orders", 0, 0, wait=1)

    run(main, tmp_path / "store")


def test_a_reader_beside_the_writer_sees_what_that_puts(tmp_path):
    async def main(store):
        await put(store, b"1")
        await store.flush()
        async with reput.aio.open(tmp_path / "store", "r") as reader:
            read = asyncio.create_task(reader.read("orders", 0, 1, wait=60))
            await put(store, b"2")
            await store.flush()
            return bodies_of((await read).messages)

    assert run(main, tmp_path / "store") == [b"2"]


def test_a_reader_that_never_looks_by_itself_is_woken_by_reports_of_the_system(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(filewatch, "_QUIET_SECONDS", 100_000)

    async def main(store):
        await put(store, b"1")
        async with reput.aio.open(tmp_path / "store", "r") as reader:
            found = []
            for number in range(2):
                read = asyncio.create_task(reader.read("orders", 0, 1 + number, wait=30))
                await waiting(reader, 1)
                await put(store, b"more")
                found.append(await read)
            return [bodies_of(each.messages) for each in found]

    assert run(main, tmp_path / "store") == [[b"more"], [b"more"]]


@pytest.mark.parametrize("closes", [False, True])
def test_a_reader_looks_no_more_when_nobody_waits_or_its_store_was_closed(
    closes, tmp_path, monkeypatch
):
    ended = threading.Event()

    class Watch(FileWatch):
        def close(self):
            super().close()
            ended.set()

    monkeypatch.setattr(filewatch, "_QUIET_SECONDS", 0.001)
    monkeypatch.setattr(arrivals, "FileWatch", Watch)

    async def main(store):
        await put(store, b"1")
        with reput.open(tmp_path / "store", "r") as plain:
            reader = reput.aio.wrap(plain)
            for number in range(3):
                await reader.read("orders", number, 1, wait=0.001)
            if closes:
                plain.close()
            assert await asyncio.to_thread(ended.wait, 60)
            if closes:
                return [b"2"]
            read = asyncio.create_task(reader.read("orders", 0, 1, wait=60))
            await waiting(reader, 1)
            await put(store, b"2")
            found = bodies_of((await read).messages)
            await reader.close()
            return found

    assert run(main, tmp_path / "store") == [b"2"]


@pytest.mark.parametrize(
    ("count", "size", "seconds"), [(32, 0, 0.0), (1, 1 << 20, 0.0), (2, 1, 0.011)]
)
def test_the_loop_reads_only_what_is_near_the_end_and_was_quick(count, size, seconds):
    called = []
    reads = ReadPlacement(called.append, True, near_size=100)
    assert not reads.allow("orders", 0, 5, 1.0)
    reads.note_place("orders", 0, 5, 950, 1_000)
    assert not reads.allow("orders", 0, 4, 1.0)
    assert not reads.allow("orders", 1, 5, 1.0)
    for _ in range(count):
        assert reads.allow("orders", 0, 5, 1.0)
        reads.note_read(size, 1.0, 1.0 + seconds)
    assert not reads.allow("orders", 0, 5, 1.0)  # enough in this turn
    called.pop()()
    assert not called
    reads.note_place("orders", 0, 4, 850, 1_000)  # a reader that is far behind
    assert reads.allow("orders", 0, 5, 1.0)
    reads.note_read(1, 1.0, 1.1)
    called.pop()()
    assert not reads.allow("orders", 0, 5, 1.2)  # it was slow
    assert reads.allow("orders", 0, 5, 9.0)
    reads.note_place("orders", 0, 6, 960, 2_000)
    assert not reads.allow("orders", 0, 6, 9.0)


# --------------------------------------------------------------------------- consumers


def test_a_message_counts_as_consumed_when_the_next_one_is_taken(tmp_path):
    async def main(store):
        await put(store, b"1", b"2", b"3")
        async with store.consume("billing", ["orders"], start="earliest") as messages:
            async for message in messages:
                if message.body == b"2":
                    break
        return [each.body async for each in store.consume("billing", ["orders"], until="end")]

    assert run(main, tmp_path / "store") == [b"3"]


def ack_all(messages):
    while messages:
        messages.pop().ack()


def test_no_more_messages_are_open_than_may_be_at_once(tmp_path):
    async def main(store):
        await put(store, *(b"%d" % number for number in range(10)))
        opened, most, seen = [], 0, []
        options = {"start": "earliest", "until": "end", "concurrency": 3}
        async for message in store.consume("billing", ["orders"], **options):
            seen.append(message.body)
            opened.append(message)
            most = max(most, len(opened))
            if len(opened) == 3 or len(seen) == 10:
                asyncio.get_running_loop().call_soon(ack_all, opened)
        return most, seen

    most, seen = run(main, tmp_path / "store")

    assert most == 3
    assert seen == [b"%d" % number for number in range(10)]


def test_a_plain_function_may_handle_messages(tmp_path):
    async def main(store):
        await put(store, b"1", b"2")
        seen = []
        consumer = store.consume("g", "orders", start="earliest", until="end", concurrency=2)
        assert await consumer.run(lambda message: seen.append(message.body)) == 2
        return seen

    assert sorted(run(main, tmp_path)) == [b"1", b"2"]
    with pytest.raises(AttributeError, match=r"await reput\.aio\.open"):
        reput.aio.open(tmp_path).put(Message("orders", b"x"))


def test_run_handles_several_messages_at_once_and_failures_come_again(tmp_path):
    async def main(store):
        await put(store, *(b"%d" % number for number in range(8)))
        active, most, refused = 0, 0, []
        full = asyncio.Event()

        async def handle(message):
            nonlocal active, most
            active += 1
            most = max(most, active)
            if active == 4:
                full.set()
            await full.wait()
            active -= 1
            if message.body == b"3":
                refused.append(message)
                raise ValueError
            if message.body == b"5":
                return Retry(level=1)
            return message.body != b"6"

        consumer = store.consume(
            "billing", ["orders"], start="earliest", until="end", concurrency=4
        )
        count = await consumer.run(handle)
        progress = await store.plugin("consumer").progress("billing")
        return most, count, refused[0].is_done, progress.group

    assert run(main, tmp_path / "store") == (4, 5, True, "billing")


def test_stop_lets_handlers_finish_and_cancelling_run_has_their_messages_come_again(tmp_path):
    async def main(store):
        await put(store, b"1", b"2")
        entered, free = asyncio.Event(), asyncio.Event()

        async def handle(message):
            entered.set()
            await free.wait()

        run_ = store.consume("billing", ["orders"], start="earliest", concurrency=1).run(handle)
        task = asyncio.create_task(run_)
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        entered.clear()
        consumer = store.consume("billing", ["orders"])
        task = asyncio.create_task(consumer.run(handle))
        await entered.wait()
        consumer.stop()
        free.set()
        return await task

    assert run(main, tmp_path / "store") == 1


def test_closing_the_store_waits_for_handlers_and_ends_consumers(tmp_path):
    async def main(store):
        await put(store, b"1")
        entered, free = asyncio.Event(), asyncio.Event()

        async def handle(message):
            entered.set()
            await free.wait()

        async def iterate():
            return [each.body async for each in store.consume("other", ["orders"])]

        task = asyncio.create_task(
            store.consume("billing", ["orders"], start="earliest", concurrency=2).run(handle)
        )
        iterating = asyncio.create_task(iterate())
        await entered.wait()
        while len(store._consumers) < 2:
            await asyncio.sleep(0)
        closing = asyncio.create_task(store.close())
        while not store.closed:
            await asyncio.sleep(0)
        assert not task.done()
        free.set()
        await closing
        return await task, await iterating

    assert run(main, tmp_path / "store") == (1, [])


def test_a_handler_may_close_the_store(tmp_path):
    async def main(store):
        await put(store, b"1")

        async def handle(message):
            await store.close()

        return await store.consume("billing", ["orders"], start="earliest").run(handle)

    assert run(main, tmp_path / "store") in (0, 1)


def test_messages_are_popped_when_they_come(tmp_path):
    async def main(store):
        async with store.pop_consumer("billing", "orders", invisible=30) as consumer:
            assert await consumer.receive(1, 0) == []
            task = asyncio.create_task(consumer.receive(1))
            await put(store, b"1")
            (message,) = await task
            assert message.body == b"1"
            assert await message.ack()
            task = asyncio.create_task(anext(aiter(consumer)))
            await put(store, b"2")
            assert await (await task).ack()
            waiting = asyncio.create_task(consumer.receive())
            await asyncio.sleep(0)
            await store.close()
            assert await waiting == []

    run(main, tmp_path / "store")


def test_each_of_several_calls_that_wait_is_woken_and_all_of_them_by_stop(tmp_path):
    async def main(store):
        async with store.pop_consumer("billing", "orders", invisible=30) as consumer:
            calls = {asyncio.create_task(consumer.receive(1)) for _ in range(3)}
            for body in (b"1", b"2"):
                await put(store, body)
                done, calls = await asyncio.wait(
                    calls, timeout=30, return_when=asyncio.FIRST_COMPLETED
                )
                assert [bodies_of(each.result()) for each in done] == [[body]]
            await asyncio.to_thread(consumer.stop)
            return await asyncio.wait_for(calls.pop(), 30)

    assert run(main, tmp_path / "store") == []


def test_stop_ends_an_iteration_while_as_many_messages_are_open_as_may_be(tmp_path):
    async def main(store):
        await put(store, b"1", b"2", b"3")
        consumer = store.consume("billing", ["orders"], start="earliest", concurrency=2)
        messages = aiter(consumer)
        for _ in range(2):
            await anext(messages)
        following = asyncio.create_task(anext(messages, None))
        await asyncio.sleep(0)
        consumer.stop()
        return await asyncio.wait_for(following, 30)

    assert run(main, tmp_path / "store") is None


def test_closing_the_store_itself_ends_reads_that_wait(tmp_path):
    async def main():
        store = reput.open(tmp_path / "store", plugins=PLUGINS, config=CONFIG)
        wrapped = reput.aio.wrap(store)
        read = asyncio.create_task(wrapped.read("orders", 0, 0, wait=60))
        await waiting(wrapped, 1)
        await asyncio.to_thread(store.close)
        with pytest.raises(StoreClosedError):
            await asyncio.wait_for(read, 30)
        await wrapped.close()

    asyncio.run(main())


# --------------------------------------------------------------------------- plugins


def test_a_transaction_commits_at_its_end_and_rolls_back_if_its_block_raises(tmp_path):
    async def main(store):
        async with store.transaction() as transaction:
            await transaction.put(Message("orders", b"1"))

        async def fail():
            async with store.transaction("shop") as other:
                await other.put(Message("orders", b"never"))
                raise KeyError

        with pytest.raises(KeyError):
            await fail()
        half = await store.plugin("transaction").prepare(Message("orders", b"2"))
        await store.plugin("transaction").commit(half)
        await store.wait_dispatched()
        return bodies_of((await store.read("orders", 0, 0)).messages), transaction.is_ended

    assert run(main, tmp_path / "store") == ([b"1", b"2"], True)


def test_a_transaction_rolls_back_what_a_cancelled_put_stores_late(tmp_path, monkeypatch):
    begun, gate = threading.Event(), threading.Event()

    async def main(store):
        engine = type(store.store.plugin("transaction")._engine)
        prepare = engine.prepare

        def prepare_late(self, messages):
            begun.set()
            gate.wait()
            return prepare(self, messages)

        monkeypatch.setattr(engine, "prepare", prepare_late)

        async def work():
            async with store.transaction() as transaction:
                await transaction.put(Message("orders", b"never"))

        task = asyncio.create_task(work())
        await asyncio.to_thread(begun.wait)
        task.cancel()
        await asyncio.wait([task], timeout=0.05)  # it does not end before the put
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        await store.wait_dispatched()
        return len(store.store.plugin("transaction").dangling())

    assert run(main, tmp_path / "store") == 0


@pytest.mark.parametrize("when", [{"deliver_at": NOON + 20_000}, {"level": 3}])
def test_delayed_messages_come_when_they_are_due(tmp_path, when):
    async def main():
        clock, plugins = ManualClock(NOON), ["consumequeue", "schedule"]
        async with reput.aio.open(tmp_path / "store", plugins=plugins, clock=clock) as store:
            read = asyncio.create_task(store.read("orders", 0, 0, wait=60))
            await store.put(delayed(Message("orders", b"later"), **when))
            await store.put(Message("others", b"now"))
            await store.wait_dispatched()
            early = read.done()
            clock.advance(20_000)
            store.store.work()
            return early, bodies_of((await read).messages)

    assert asyncio.run(main()) == (False, [b"later"])


def test_a_plugin_that_the_store_does_not_use_is_an_error(tmp_path):
    async def main(store):
        with pytest.raises(ReputError):
            store.plugin("schedule")

    run(main, tmp_path / "store")


def test_a_plain_await_opens_a_store_too(tmp_path):
    async def main():
        store = await reput.aio.open(tmp_path / "store", plugins=PLUGINS, config=CONFIG)
        await store.close()
        return store.closed

    assert asyncio.run(main())


def test_a_call_that_comes_as_the_threads_end_says_that_the_store_is_closed(monkeypatch):
    threads = Threads(1, "store")
    submit = threads.pool.submit

    def ending(*call):
        threads.close()
        return submit(*call)

    monkeypatch.setattr(threads.pool, "submit", ending)

    with pytest.raises(StoreClosedError):
        asyncio.run(threads.call(list))
