"""Sends that wait for the disk, of a server under test, and a disk that a test may hold up."""

from __future__ import annotations

import threading

import pytest
from sendlanes import USUAL

from reput.engine import ENGINE, REFERENCES
from reput.log import FlushRequests
from reput_aio import FlushWaiters
from reput_client.remoting import Command, RequestCode, encode_frame

SEND = RequestCode.SEND_MESSAGE_V2
COMPILED = pytest.mark.skipif(ENGINE.name == "python", reason="puts in steps wait for the disk")


def ordinary(opaque=7, body=b"body", **changed):
    return encode_frame(Command(SEND, {**USUAL, **changed}, body, opaque))


def counts(served):
    """What the server counts of requests that have not ended."""
    found = []
    served.on_loop(lambda: found.extend(_counted(served)))
    return found


def _counted(served):
    service = served.server.service
    return [service._taken_count, service.request_bytes, served.server.broker.durable.count]


def assert_none_waits(served):
    """All sends end, also those that wait to be stored, and nothing of them counts on."""
    served.wait_until(lambda: _counted(served) == [0, 0, 0])


def count_shared(served):
    """How many connections are read together."""
    found = []
    served.on_loop(
        lambda: found.append(sum(each._is_shared for each in served.server.service.peers))
    )
    return found[0]


class Disk:
    """Stands between the server and the store's waits."""

    def __init__(self, served):
        self.let_go, self.begun = threading.Event(), threading.Event()
        self.let_go.set()
        self.error = None
        self.offsets = []
        self._log = served.store.log
        self.durable = served.server.broker.durable
        self.durable.flushes = FlushWaiters(self, self.durable.loop)

    @property
    def flusher(self):
        return self

    def requests(self):
        return REFERENCES.get(FlushRequests, FlushRequests)(None, None)

    def request(self, requests, end_offset):
        requests.ask(end_offset)

    @property
    def flushed_offset(self):
        return self._log.flushed_offset

    def wait_flushed(self, end_offset, seconds):
        self.begun.set()
        assert self.let_go.wait(60)
        self.offsets.append(end_offset)
        if self.error is not None:
            raise self.error
        return self._log.wait_flushed(end_offset, seconds)
