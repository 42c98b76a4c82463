"""Slaves of a served store, for tests: helpers around `wireslave.WireSlave`."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

from wirepeer import message
from wireslave import WireSlave

import reput
from reput_client.remoting import Command, RequestCode

FILE_SIZE = 1 << 20
HA = {"replicas": ("127.0.0.1", 0)}
OBSERVER = -(1 << 50)


@contextlib.contextmanager
def slave_of(served, first=None, **options):
    with WireSlave(served.server.replicas.address, **options) as slave:
        if first is not None:
            slave.report(first)
        yield slave


@contextlib.contextmanager
def slave_in_sync(served, first=0, **options):
    """A slave that has reported again after it has begun, as one does in time."""
    with slave_of(served, first, **options) as slave:
        slave.report(first)
        yield slave


def fill(served, count=100, size=1_000):
    served.store.put_many([reput.Message("orders", b"x" * size) for _ in range(count)])
    return served.store.log.max_physical_offset


def log_of(served, start, end):
    files = sorted((Path(served.store.root) / "commitlog").iterdir())
    base = int(files[0].name)
    return b"".join(each.read_bytes() for each in files)[start - base : end - base]


def until(holds, seconds=20):
    end, pause = time.monotonic() + seconds, threading.Event()
    while not (found := holds()):
        assert time.monotonic() < end, f"not in {seconds} s"
        pause.wait(0.002)
    return found


def states(served):
    found = []
    served.on_loop(lambda: found.extend(served.server.replicas.states()))
    return found


def a_send(number):
    return Command.request(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"%d" % number)
