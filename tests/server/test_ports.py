"""Addresses that are taken before a store is opened."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket

import pytest

import reput
from reput_server import LocalBroker, Ports, ServerConfig, serving

ANYWHERE = ("127.0.0.1", 0)
OWN_HOST = f"127.78.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
"""An address of loopback on which nobody else takes a port that was free a moment ago."""


def test_a_store_that_is_opened_with_the_ports_names_them_in_its_records(tmp_path):
    config = ServerConfig(listen=ANYWHERE, name_server=None)
    with (
        Ports.take(config) as ports,
        reput.open(
            tmp_path,
            plugins={"consumequeue", "consumer"},
            config={"commitlog": {"file_size": 1 << 20, **ports.log_options()}},
        ) as store,
        serving(store, config, ports=ports) as server,
    ):
        receipt = store.put(reput.Message("orders", b"x"))
        found = store.get(receipt.physical_offset)

        assert server.name_server is None
        assert found.store_host == server.address
        assert found.store_host[1] > 0


def test_a_broker_of_tests_is_named_in_its_records_also_after_a_new_beginning():
    with LocalBroker() as broker:
        for _ in range(2):
            broker.put(reput.Message("orders", b"x"))
            (found,) = broker.messages("orders")
            assert "{}:{}".format(*found.store_host) == broker.address
            broker.clear()


def test_one_address_that_is_taken_leaves_the_others_free():
    with socket.create_server(ANYWHERE) as taken, socket.create_server((OWN_HOST, 0)) as other:
        free = other.getsockname()
        other.close()
        config = ServerConfig(listen=free, name_server=taken.getsockname())
        with pytest.raises(OSError, match="cannot be listened on"):
            Ports.take(config)
        with socket.create_server(free):
            pass


def test_a_name_that_stands_for_the_broker_is_resolved_for_records():
    with Ports.take(
        ServerConfig(listen=ANYWHERE, name_server=None, advertise="localhost")
    ) as ports:
        assert ports.address == ("localhost", ports.store_address[1])
        assert ports.log_options() == {
            "store_address": f"127.0.0.1:{ports.broker[0].getsockname()[1]}",
        }


def test_a_name_that_is_none_is_refused():
    with pytest.raises(OSError, match="is not an address of a host"):
        Ports.take(ServerConfig(listen=("no such host", 1)))


def test_a_name_server_alone_has_no_records():
    with Ports.take(ServerConfig(listen=None, name_server=ANYWHERE)) as ports:
        assert ports.log_options() == {}
        assert ports.names


def test_connections_send_small_answers_at_once():
    async def is_without_delay(bound: socket.socket) -> int:
        loop = asyncio.get_running_loop()
        accepted: asyncio.Future[asyncio.BaseTransport] = loop.create_future()

        class Protocol(asyncio.Protocol):
            def connection_made(self, transport):
                accepted.set_result(transport)

        async with await loop.create_server(Protocol, sock=bound) as server:
            address = server.sockets[0].getsockname()
            with socket.create_connection(address):
                transport = await accepted
                own = transport.get_extra_info("socket")
                found = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                transport.close()
        return found

    with Ports.take(ServerConfig(listen=ANYWHERE, name_server=ANYWHERE)) as ports:
        for bound in (*ports.broker, *ports.fast, *ports.names):
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                assert runner.run(is_without_delay(bound))


def test_nobody_else_can_have_a_port_that_was_chosen():
    """Two processes could bind one port, and the later one failed when it listened on it."""
    with Ports.take(ServerConfig(listen=ANYWHERE, name_server=ANYWHERE)) as ports:
        for chosen in (*ports.broker, *ports.fast, *ports.names):
            with socket.socket() as other:
                other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                with pytest.raises(OSError, match="in use"):
                    other.bind(chosen.getsockname())


@pytest.mark.costly
def test_a_connection_that_comes_while_a_server_ends_is_closed(tmp_path):
    """It was accepted and left open, for the garbage collector to find in some later test."""
    with reput.open(tmp_path, plugins={"consumequeue", "consumer"}) as store:
        for _ in range(20):
            with serving(store, ServerConfig(listen=ANYWHERE, name_server=None)) as server:
                peer = socket.create_connection(server.address)
            with peer, contextlib.suppress(ConnectionError):
                peer.settimeout(30)
                assert peer.recv(1) == b""
    gc.collect()


def test_a_port_that_was_chosen_is_had_again_although_connections_linger(tmp_path):
    config = ServerConfig(listen=ANYWHERE, name_server=None)
    with reput.open(tmp_path, plugins={"consumequeue", "consumer"}) as store:
        with serving(store, config) as server:
            address = server.address
            with socket.create_connection(address) as peer:
                peer.sendall(b"\xff" * 8)  # not a frame: the server closes first, and waits
                assert peer.recv(1) == b""

        with serving(store, ServerConfig(listen=address, name_server=None)) as again:
            assert again.address == address
