"""What grows with peers of ``reput serve``: idle connections, and replicas of its log."""

from __future__ import annotations

import contextlib
import selectors
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from benchmarks.stores import open_store

if TYPE_CHECKING:
    import subprocess

    from benchmarks.trial import Measurement, Trial

_CALLS = 1_000
_SPARE_DESCRIPTORS = 1_000
"""For the store's files, beside connections."""
_MEGABYTES = 20
_TIMEOUT = 300.0  # seconds


def connections(trial: Trial, size: int) -> None:
    """Connect and ask once each; ask by one of many connections."""
    from benchmarks.served.servers import served

    count, calls = trial.count(size, least=2), trial.count(_CALLS, least=10)
    _allow_descriptors(count + _SPARE_DESCRIPTORS)
    limits = _limits(trial, connections=count + _SPARE_DESCRIPTORS)
    with (
        served(trial.directory / "store", *limits) as (facts, process),
        contextlib.ExitStack() as stack,
    ):
        address = _address(facts["broker"])
        _ask(stack.enter_context(_connected(address)))  # modules of the first request are there
        with _server_grown(trial, process, "connections: connect and ask", count, count):
            peers = [stack.enter_context(_connected(address)) for _ in range(count)]
            for peer in peers:
                _ask(peer)
        with _server_grown(trial, process, "connections: a request", count, calls, "calls"):
            for number in range(calls):
                _ask(peers[number * 7_919 % count])


def followers(trial: Trial, size: int) -> None:
    """All take the log of one master."""
    import reput
    from benchmarks.served.servers import served
    from reput_client.remoting import encode_report

    root, count = trial.directory / "store", trial.count(_MEGABYTES << 10, least=100)
    with open_store(root) as store:
        for _ in range(0, count, 100):
            store.put_many([reput.Message("t", b"x" * 1_024)] * 100)
        store.wait_dispatched()
        end = store.log.max_physical_offset
    with (
        served(root, "--replicas", "127.0.0.1:0", *_limits(trial, replicas=size + 1)) as (
            facts,
            process,
        ),
        contextlib.ExitStack() as stack,
    ):
        peers = [stack.enter_context(_connected(_address(facts["replicas"]))) for _ in range(size)]
        work = "followers: a message to one"
        with _server_grown(trial, process, work, size, count * size, "calls"):
            for peer in peers:
                peer.sendall(encode_report(1))
            _receive(peers, end - 1)


def _limits(trial: Trial, **limits: int) -> tuple[str, str]:
    """Return the options of a server that has these limits."""
    path = trial.directory / "server.toml"
    lines = [f"{name} = {limit}\n" for name, limit in limits.items()]
    path.write_text("[server.limits]\n" + "".join(lines), encoding="utf-8")
    return "--config", str(path)


def _allow_descriptors(count: int) -> None:
    """Let this process, and the server that it starts, have so many descriptors.

    Raises:
        ValueError: the system does not allow it.
    """
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, max(count, hard)))


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


@contextlib.contextmanager
def _connected(address: tuple[str, int]) -> Iterator[socket.socket]:
    with socket.create_connection(address, timeout=_TIMEOUT) as peer:
        yield peer


def _ask(peer: socket.socket) -> None:
    """Ask for the broker's settings, and read the answer."""
    from reput_client.remoting import Command, FrameReader, RequestCode, encode_frame

    reader = FrameReader()
    peer.sendall(encode_frame(Command.request(RequestCode.GET_BROKER_CONFIG, opaque=1)))
    while reader.next_command() is None:
        data = peer.recv(1 << 16)
        if not data:
            raise RuntimeError("wrong result: the server closed a connection")
        reader.feed(data)


def _receive(peers: list[socket.socket], size: int) -> None:
    """Take transfers of all peers until each has had ``size`` bytes of the log or more."""
    left = dict.fromkeys(peers, size)
    with selectors.DefaultSelector() as selector:
        for peer in peers:
            selector.register(peer, selectors.EVENT_READ)
        while left:
            for key, _ in selector.select(_TIMEOUT):
                peer: Any = key.fileobj
                left[peer] -= len(peer.recv(1 << 20))  # headers are a ten-thousandth of it
                if left[peer] <= 0:
                    selector.unregister(peer)
                    del left[peer]


@contextlib.contextmanager
def _server_grown(
    trial: Trial,
    process: subprocess.Popen[str],
    work: str,
    size: int,
    count: int,
    unit: str = "items",
) -> Iterator[Measurement]:
    """Measure the server's processor time during the block, and the memory that it adds."""
    import psutil

    from benchmarks.runner import private_memory

    server = psutil.Process(process.pid)

    def used() -> float:
        times = server.cpu_times()
        return float(times.user + times.system)

    memory, cpu_seconds = private_memory(process.pid), used()
    with trial.timed(f"{work}, {size:,}", count, unit=unit) as measured:
        yield measured
    measured.cpu_seconds = used() - cpu_seconds
    measured.facts["size"] = size
    measured.facts["private"] = max(private_memory(process.pid) - memory, 0)
