"""Connections: answers by number, time limits, peers that fail, and name servers that do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from fakecluster import Fault, Listener, Peer

from reput_client import ClientOptions, ConnectError, ConnectionLostError, RequestTimeoutError
from reput_client.connection.connection import Connection
from reput_client.connection.connectionpool import ConnectionPool
from reput_client.connection.nameservers import NameServers, addresses_of
from reput_client.remoting import Command

_ECHO, _LATER, _NEVER = 1, 2, 3


class Echo(Listener):
    """Answers with what it got; in another order than asked, when asked so."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[tuple[Peer, Command]] = []

    def answering(self) -> dict[int, Any]:
        return {_ECHO: self._echo, _LATER: self._later, _NEVER: self._never}

    async def _echo(self, peer: Peer, command: Command) -> Command:
        for other, held in self.held:
            other.send(held.answer(0, body=held.body))
        self.held.clear()
        return command.answer(0, body=command.body)

    async def _later(self, peer: Peer, command: Command) -> None:
        self.held.append((peer, command))

    async def _never(self, peer: Peer, command: Command) -> None:
        return None


async def refuse(connection: Connection, command: Command) -> Command:
    return command.answer(3)


def run(test: Callable[[Echo, ConnectionPool], Awaitable[None]], **options: Any) -> None:
    """Carry a test out with a listener and the connections of a client, on one loop."""

    async def whole() -> None:
        listener, connections = Echo(), ConnectionPool(ClientOptions(**options), refuse, None)
        await listener.open()
        try:
            await test(listener, connections)
        finally:
            await connections.close()
            await listener.close()

    asyncio.run(whole())


def test_answers_find_their_requests_in_any_order() -> None:
    async def test(listener: Echo, connections: ConnectionPool) -> None:
        asked = [
            connections.request(listener.address, Command(_LATER, body=b"%d" % number), 5)
            for number in range(10)
        ]
        waiting = asyncio.gather(*asked)
        while len(listener.held) < 10:
            await asyncio.sleep(0)
        listener.held.reverse()
        last = await connections.request(listener.address, Command(_ECHO, body=b"last"), 5)

        assert last.body == b"last"
        assert [each.body for each in await waiting] == [b"%d" % number for number in range(10)]
        assert len(listener.peers) == 1

    run(test)


def test_a_peer_that_fell_silent_is_connected_anew() -> None:
    async def test(listener: Echo, connections: ConnectionPool) -> None:
        first = await connections.get(listener.address)
        with pytest.raises(RequestTimeoutError, match=f"request {_NEVER} in 0.05 s"):
            await connections.request(listener.address, Command(_NEVER), 0.05)

        assert first.is_lost
        assert (await connections.request(listener.address, Command(_ECHO), 5)).code == 0

    run(test)


def test_a_slow_answer_costs_no_connection_while_others_come() -> None:
    async def test(listener: Echo, connections: ConnectionPool) -> None:
        first = await connections.get(listener.address)
        slow = asyncio.ensure_future(first.request(Command(_NEVER), 1))
        while not listener.requests:
            await asyncio.sleep(0)
        await first.request(Command(_ECHO), 5)
        with pytest.raises(RequestTimeoutError):
            await slow

        assert not first.is_lost

    run(test)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(_ECHO, 1, drops=True),
        Fault(_ECHO, 1, garbage=b"\xff\xff\xff\xff"),
        Fault(_ECHO, 1, garbage=(1 << 25).to_bytes(4, "big")),
        Fault(_ECHO, 1, garbage=b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        Fault(_ECHO, 1, garbage=b"\0\0\0\x06\0\0\0\x02{]"),
    ],
)
def test_what_waits_fails_with_its_connection_and_the_next_request_has_another(
    fault: Fault,
) -> None:
    async def test(listener: Echo, connections: ConnectionPool) -> None:
        listener.faults.append(fault)
        waiting = asyncio.ensure_future(connections.request(listener.address, Command(_NEVER), 5))
        while not listener.requests:
            await asyncio.sleep(0)
        with pytest.raises(ConnectionLostError):
            await connections.request(listener.address, Command(_ECHO), 5)
        with pytest.raises(ConnectionLostError):
            await waiting

        assert (await connections.request(listener.address, Command(_ECHO), 5)).code == 0

    run(test)


def test_an_answer_nobody_waits_for_is_passed_over() -> None:
    async def test(listener: Echo, connections: ConnectionPool) -> None:
        await connections.request(listener.address, Command(_ECHO), 5)
        (peer,) = listener.peers
        peer.send(Command(_ECHO, opaque=12_345).answer(0))

        assert (await connections.request(listener.address, Command(_ECHO), 5)).code == 0

    run(test)


def test_a_server_that_is_about_to_end_is_asked_once_more_over_another_connection() -> None:
    async def test(listener: Echo, connections: ConnectionPool) -> None:
        listener.faults.append(Fault(_ECHO, 1, answer=1500))
        first = await connections.get(listener.address)

        assert (await connections.request(listener.address, Command(_ECHO), 5)).code == 0
        assert await connections.get(listener.address) is not first
        listener.faults.append(Fault(_ECHO, 2, answer=1500))
        with pytest.raises(ConnectionLostError, match="about to end"):
            await connections.request(listener.address, Command(_ECHO), 5)

    run(test)


def test_callers_that_ask_at_once_share_one_connection() -> None:
    async def test(listener: Echo, connections: ConnectionPool) -> None:
        found = await asyncio.gather(*(connections.get(listener.address) for _ in range(20)))

        assert len(set(found)) == 1

    run(test)


def test_no_connection_is_an_error_that_says_where() -> None:
    async def test(listener: Echo, connections: ConnectionPool) -> None:
        with pytest.raises(ConnectError, match=r"127\.0\.0\.1:1: no connection"):
            await connections.get("127.0.0.1:1")
        with pytest.raises(ConnectError, match="expected HOST:PORT"):
            await connections.get("nonsense")

    run(test)


def test_idle_connections_are_closed_and_busy_ones_are_not() -> None:
    async def test(listener: Echo, connections: ConnectionPool) -> None:
        idle = await connections.get(listener.address)
        connections.close_idle(1_000)
        assert not idle.is_lost
        connections.close_idle(-1)
        assert idle.is_lost
        busy = await connections.get(listener.address)
        waiting = asyncio.ensure_future(busy.request(Command(_LATER), 5))
        while not listener.held:
            await asyncio.sleep(0)
        connections.close_idle(-1)

        assert not busy.is_lost
        await busy.request(Command(_ECHO), 5)
        await waiting

    run(test)


def test_a_large_body_waits_for_a_slow_reader_and_arrives_whole() -> None:
    async def test(listener: Echo, connections: ConnectionPool) -> None:
        bodies = [bytes([number]) * (3 << 20) for number in range(4)]
        found = await asyncio.gather(
            *(connections.request(listener.address, Command(_ECHO, body=b), 20) for b in bodies)
        )

        assert [each.body for each in found] == bodies

    run(test)


# --------------------------------------------------------------------------- name servers


def test_addresses_of_name_servers_are_checked() -> None:
    assert addresses_of("a:1;b:2, a:1") == ("a:1", "b:2")
    assert addresses_of(["a:1"]) == ("a:1",)
    with pytest.raises(ValueError, match="expected HOST:PORT"):
        addresses_of(" ; ")
    with pytest.raises(ValueError, match="'nonsense'"):
        addresses_of("a:1;nonsense")


def test_another_name_server_is_asked_when_one_fails() -> None:
    async def test(listener: Echo, connections: ConnectionPool) -> None:
        names = NameServers([listener.address, "127.0.0.1:1"], connections, 5)

        for _ in range(2):  # whichever was the first
            address, answer = await names.request(Command(_ECHO, body=b"x"))
            assert (address, answer.body) == (listener.address, b"x")

    run(test)
