"""A flush fails while many durable sends are under way: by threads, coroutines or connections."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import threading

import attrs
import pytest

pytest.importorskip("reput_consumequeue")
pytest.importorskip("reput_consumer")
pytest.importorskip("reput_server")

from durablesends import ordinary
from wirepeer import WirePeer

import reput
from reput.errors import ServiceNotAvailableError
from reput_client.remoting import ResponseCode
from reput_server import ServerConfig, serving
from reput_testing.disks.simulateddisk import FaultySimulatedDisk

pytestmark = [pytest.mark.proof, pytest.mark.shows("failed-flush")]

SENDERS, MOST = 8, 12
ANSWERS = {ResponseCode.SUCCESS, ResponseCode.SERVICE_NOT_AVAILABLE}
OPTIONS = {
    "plugins": ["consumequeue", "consumer"],
    "config": {"commitlog": {"file_size": 1 << 16, "flush": "sync"}},
}


@attrs.define
class Sent:
    """What became of each message, by its body."""

    acknowledged: set[bytes] = attrs.field(factory=set)
    failed: set[bytes] = attrs.field(factory=set)

    def note(self, body, is_success):
        (self.acknowledged if is_success else self.failed).add(body)


def bodies(sender):
    return [b"%d %d" % (sender, number) for number in range(MOST)]


def by_threads(store, sent):
    def send(sender):
        for body in bodies(sender):
            try:
                store.put(reput.Message("orders", body, queue_id=0))
            except ServiceNotAvailableError:
                sent.note(body, is_success=False)
            else:
                sent.note(body, is_success=True)

    threads = [threading.Thread(target=send, args=(sender,)) for sender in range(SENDERS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert not any(each.is_alive() for each in threads)


def by_coroutines(store, sent):
    async def send(sender):
        for body in bodies(sender):
            try:
                await own.put(reput.Message("orders", body, queue_id=0))
            except ServiceNotAvailableError:
                sent.note(body, is_success=False)
            else:
                sent.note(body, is_success=True)

    async def main():
        await asyncio.wait_for(asyncio.gather(*map(send, range(SENDERS))), 60)

    own = reput.aio.wrap(store)
    asyncio.run(main())


def by_connections(store, sent):
    anywhere = ServerConfig(listen=("127.0.0.1", 0), name_server=None)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(serving(store, anywhere))
        peers = [stack.enter_context(WirePeer(server.address)) for _ in range(SENDERS)]
        for first in range(0, MOST, 2):
            for sender, peer in enumerate(peers):
                pair = enumerate(bodies(sender)[first : first + 2])
                peer.socket.sendall(b"".join(ordinary(at, body) for at, body in pair))
            for sender, peer in enumerate(peers):
                for answer in (peer.receive(), peer.receive()):
                    assert answer.code in ANSWERS
                    body = bodies(sender)[first + answer.opaque]
                    sent.note(body, is_success=answer.code == ResponseCode.SUCCESS)


@pytest.mark.costly
@pytest.mark.parametrize("send", [by_threads, by_coroutines, by_connections])
def test_exactly_what_is_not_on_disk_fails_and_all_are_answered(tmp_path, send):
    sent, directory = Sent(), tmp_path / "disk"
    directory.mkdir()
    disk = FaultySimulatedDisk(directory)
    store = reput.open(directory / "store", disk=disk, **OPTIONS)
    store.put(reput.Message("orders", b"first", queue_id=0))
    disk.plan(3, error=errno.EIO, operations={"flush"}, below="commitlog")

    send(store, sent)

    assert len(sent.acknowledged) + len(sent.failed) == SENDERS * MOST
    assert sent.acknowledged
    assert sent.failed
    flushed = store.log.flushed_offset
    stored = [batch.message(row) for batch in store.scan() for row in range(len(batch))]
    on_disk = {each.body for each in stored if each.physical_offset < flushed}
    assert on_disk == sent.acknowledged | {b"first"}
    with pytest.raises(ServiceNotAvailableError):
        store.put(reput.Message("orders", b"later"))
    with pytest.raises(ServiceNotAvailableError):
        store.close()
    for number, state in enumerate(itertools.islice(disk.crash_states(), 4)):
        root = tmp_path / str(number)
        state.materialize(root)
        with reput.open(root / "store", threads=False, **OPTIONS) as again:
            again.wait_dispatched()
            assert on_disk <= {each.body for each in again.messages("orders")}
