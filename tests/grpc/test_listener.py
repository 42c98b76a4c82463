"""A listener by itself: how it stops, and what one connection's failure costs the others."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection

from reput_server.config import Limits
from reput_server.grpc.transport.framing import framed
from reput_server.grpc.transport.listener import Listener
from reput_server.grpc.transport.methods import CallHead, Method
from reput_server.wire.ports import take_address

FIELDS = {":method": "POST", ":scheme": "http", ":path": "/s/gate", ":authority": "a"}
FIELDS["content-type"] = "application/grpc"
WAIT = 20.0


class Gate:
    """A method whose calls wait until the gate opens."""

    def __init__(self) -> None:
        self.begun, self.opened = asyncio.Event(), asyncio.Event()

    async def answer(self, head: CallHead, request: bytes) -> bytes:
        self.begun.set()
        await self.opened.wait()
        return b"answer of " + request


@contextlib.asynccontextmanager
async def listening(gate: Gate, **limits: int) -> AsyncIterator[tuple[Listener, int]]:
    loop = asyncio.get_running_loop()
    methods = {"/s/gate": Method(bytes, gate.answer)}
    listener = Listener(loop, methods, Limits(**limits))
    with contextlib.ExitStack() as taken:
        sockets = take_address(("127.0.0.1", 0), taken)
        await listener.start(sockets)
        taken.pop_all()
    try:
        yield listener, sockets[0].getsockname()[1]
    finally:
        gate.opened.set()
        await listener.stop(0.0)


async def asked(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect, and make one call."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    me = H2Connection(H2Configuration(client_side=True))
    me.initiate_connection()
    me.send_headers(1, list(FIELDS.items()))
    me.send_data(1, framed(b"one"), end_stream=True)
    writer.write(me.data_to_send())
    return reader, writer


async def all_of(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(WAIT):
        return await reader.read()


def run(test: Any) -> None:
    async def within() -> None:
        async with asyncio.timeout(WAIT):
            await test()

    asyncio.run(within())


def test_an_answer_of_the_last_moment_is_written_before_the_connection_closes():
    async def test() -> None:
        gate = Gate()
        async with listening(gate) as (listener, port):
            reader, writer = await asked(port)
            await gate.begun.wait()
            stopping = asyncio.create_task(listener.stop(WAIT))
            await asyncio.sleep(0)
            gate.opened.set()
            await stopping
            assert b"answer of one" in await all_of(reader)
            writer.close()

    run(test)


def test_a_call_that_does_not_end_in_time_is_answered_with_a_status():
    async def test() -> None:
        gate = Gate()
        async with listening(gate) as (listener, port):
            reader, writer = await asked(port)
            await gate.begun.wait()
            await listener.stop(0.0)
            found = await all_of(reader)
            assert b"answer" not in found
            assert listener._call_count == listener._held_size == 0
            writer.close()

    run(test)


def test_http2_that_fails_in_itself_ends_its_connection_and_no_other(caplog):
    async def test() -> None:
        gate = Gate()
        async with listening(gate) as (listener, port):
            first, first_writer = await asked(port)
            await gate.begun.wait()
            [broken] = listener._connections

            class Broken:
                is_over = False

                def __getattr__(self, name: str) -> Any:
                    raise RuntimeError("a panic")

            broken._http2 = Broken()
            second, second_writer = await asked(port)
            first_writer.write(b"x")
            with contextlib.suppress(ConnectionError):
                await all_of(first)
            gate.opened.set()
            while b"answer of one" not in (found := await second.read(1 << 16)):
                assert found
            assert broken not in listener._connections
            while listener._call_count:
                await asyncio.sleep(0)
            first_writer.close()
            second_writer.close()

    with caplog.at_level(logging.ERROR):
        run(test)
    assert any("connection failed" in each for each in caplog.messages)


@pytest.mark.parametrize("count", [1, 3])
def test_connections_above_the_limit_are_closed(count, caplog):
    async def test() -> None:
        gate = Gate()
        async with listening(gate, connections=count) as (_, port):
            kept = [await asked(port) for _ in range(count)]
            refused = [await asked(port) for _ in range(3)]
            for reader, _ in refused:
                with contextlib.suppress(ConnectionError):
                    assert await all_of(reader) == b""
            gate.opened.set()
            for reader, _ in kept:
                while b"answer of one" not in (found := await reader.read(1 << 16)):
                    assert found
            for _, writer in [*kept, *refused]:
                writer.close()

    run(test)
    assert len([each for each in caplog.messages if "refusing connections" in each]) == 1
