"""Servers for clients of release 5: ``reput serve --grpc``, and RocketMQ's proxy and broker."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import psutil

from benchmarks.served.servers import JVM, VERSION, broker_options, served, support

_ATTRIBUTES = "+message.type=NORMAL"
_QUEUES = 8
_CREATE_TOPIC = 17


@attrs.frozen
class GrpcContender:
    """One server that runs, in one process or more."""

    name: str
    endpoints: str
    broker: str
    processes: tuple[psutil.Process, ...]

    def cpu_seconds(self) -> float:
        """Return the processor time that its processes have taken."""
        times = [each.cpu_times() for each in self.processes]
        return float(sum(each.user + each.system for each in times))

    def memory(self) -> int:
        """Return the bytes of anonymous memory of its processes now."""
        return sum(_status(each, "RssAnon") for each in self.processes)

    def resident(self) -> int:
        """Return the bytes of its processes in memory now, with files that are mapped."""
        return sum(_status(each, "VmRSS") for each in self.processes)

    def create_topic(self, name: str) -> None:
        """Create a topic, as the admin tool does.

        Raises:
            RuntimeError: the broker refuses it.
        """
        host, _, port = self.broker.rpartition(":")
        fields = support("sameanswers.administering").topic(
            name, _QUEUES, _QUEUES, attributes=_ATTRIBUTES
        )
        request = support("sameanswers.run").request(_CREATE_TOPIC, fields, b"")
        with support("wirepeer").WirePeer((host, int(port))) as peer:
            answer = peer.answer_to(peer.send(request))
        if answer.code != 0:
            raise RuntimeError(f"topic {name!r}: {answer}")


def _status(process: psutil.Process, name: str) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024


@contextlib.contextmanager
def grpc_contender(directory: Path) -> Iterator[GrpcContender]:
    """Serve a new store in a process of its own."""
    directory.mkdir()
    options = ("--grpc", "127.0.0.1:0", "--grpc-from-beginning")
    with served(directory / "store", *options) as (facts, process):
        yield GrpcContender(
            "reput serve --grpc", facts["grpc"], facts["broker"], (psutil.Process(process.pid),)
        )


@contextlib.contextmanager
def proxy_and_broker(directory: Path) -> Iterator[GrpcContender]:
    """Start a name server, a broker and a proxy of RocketMQ.

    Raises:
        mavenparts.JavaUnavailableError: Java, Maven or the artifacts are not available.
    """
    realbroker = support("realbroker")
    small = realbroker.fetch(VERSION)
    # With a JVM for work, not the small one of tests.
    released = dataclasses.replace(small, jvm=JVM)
    known = {each.pid for each in psutil.Process().children()}
    with (
        small.name_server(directory / "names") as names,
        released.broker(directory / "broker", names.address, **broker_options("async")) as broker,
        realbroker.proxy(directory / "proxy", names.address, cluster="reput", jvm=JVM) as endpoints,
    ):
        processes: Any = [each for each in psutil.Process().children() if each.pid not in known]
        yield GrpcContender(
            f"proxy and broker {VERSION}", endpoints, broker.address, tuple(processes)
        )
