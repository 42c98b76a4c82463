"""Other event loops, and other test runners."""

from __future__ import annotations

import asyncio
import unittest

import pytest

import reput
from reput import Message

SYNC = {"commitlog": {"flush": "sync"}}
PLUGINS = ["consumequeue", "consumer"]


async def put_read_and_consume(path):
    """Use a store on the running loop; return bodies that were read, and that were consumed."""
    async with reput.aio.open(path, plugins=PLUGINS, config=SYNC) as store:
        read = asyncio.create_task(store.read("orders", 0, 0, wait=60))
        async with asyncio.timeout(60):
            puts = [store.put(Message("orders", b"%d" % number)) for number in range(5)]
            receipts = await asyncio.gather(*puts)
            first = (await read).messages[0]
        await store.wait_dispatched()
        consumer = store.consume("billing", ["orders"], start="earliest", until="end")
        consumed = [message.body async for message in consumer]
        assert {each.durability.name for each in receipts} == {"DURABLE"}
        return first.body, consumed


EXPECTED = b"0", [b"%d" % number for number in range(5)]


def test_uvloop_runs_it(tmp_path):
    uvloop = pytest.importorskip("uvloop", reason="uvloop has no wheel here")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(put_read_and_consume(tmp_path / "store")) == EXPECTED


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
async def store(tmp_path, anyio_backend):
    async with reput.aio.open(tmp_path / "other", plugins=PLUGINS, config=SYNC) as store:
        yield store


@pytest.mark.anyio
async def test_the_plugin_of_anyio_runs_it(store, tmp_path):
    assert (await store.put(Message("orders", b"x"))).durability.name == "DURABLE"
    assert await put_read_and_consume(tmp_path / "store") == EXPECTED


def test_a_test_case_of_unittest_runs_it(tmp_path):
    class Case(unittest.IsolatedAsyncioTestCase):
        async def asyncSetUp(self):
            opening = reput.aio.open(tmp_path / "other", plugins=PLUGINS, config=SYNC)
            self.store = await self.enterAsyncContext(opening)

        async def test_it(self):
            await self.store.put(Message("orders", b"x"))
            assert await put_read_and_consume(tmp_path / "store") == EXPECTED

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Case).run(result)
    assert (result.testsRun, result.errors, result.failures) == (1, [], [])
