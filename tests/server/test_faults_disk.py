"""A disk under a server that is full, or that fails: what cannot be stored is refused in words."""

from __future__ import annotations

import errno
import logging
from contextlib import contextmanager

import pytest
import wirescript
from wirepeer import WirePeer, message

import reput
from reput_client.remoting import Command, QueueOf, RequestCode, ResponseCode, encode_frame
from reput_server import ServerConfig, serving
from reput_testing import FaultyDisk

PLUGINS = {"consumequeue", "consumer", "schedule"}
SMALL = {"commitlog": {"file_size": 1 << 16, "flush": "sync"}}
SEND = RequestCode.SEND_MESSAGE_V2
FULL = {"create", "write", "allocate"}
QUEUE = QueueOf(topic="orders", queue_id=0)


@contextmanager
def served(path, disk):
    anywhere = ServerConfig(listen=("127.0.0.1", 0), name_server=None)
    store = reput.open(path, plugins=PLUGINS, config=SMALL, disk=disk)
    try:
        with serving(store, anywhere) as server, WirePeer(server.address) as peer:
            yield peer
    finally:
        try:
            store.close()
        except reput.errors.ServiceNotAvailableError:
            assert disk.failed  # what a failed flush may have lost is told again at the end


def send(peer, topic="orders", size=1_000):
    return peer.ask(SEND, message(topic), body=bytes(size))


def is_read(peer):
    """Whether what is stored can be read, and what is known of groups asked for."""
    found = peer.ask(RequestCode.PULL_MESSAGE, wirescript.pull())
    offset = peer.ask(RequestCode.GET_MAX_OFFSET, QUEUE)
    return (found.code, offset.code) == (0, 0) and len(found.body) > 1_000


def wait_read(peer):
    """Wait until the reput loop was there: its first files are created before the disk fails."""
    while not is_read(peer):
        pass


def test_a_full_disk_refuses_sends_until_there_is_room_and_gives_what_it_has(tmp_path, caplog):
    disk = FaultyDisk()
    with served(tmp_path, disk) as peer:
        peer.ask(RequestCode.HEART_BEAT, body=wirescript.heartbeat())
        while send(peer).fields["queueOffset"] != "20":
            pass
        wait_read(peer)
        disk.plan(1, error=errno.ENOSPC, lasting=True, operations=FULL)
        stored = refused = None
        while refused is None:
            answer = send(peer)
            if answer.code:
                refused = answer
            else:
                stored = answer
        new_topic = send(peer, "bills")
        new_group = peer.ask(
            RequestCode.HEART_BEAT, body=wirescript.heartbeat("client-2", group="other")
        )
        assert is_read(peer)

        disk.mend()
        later = send(peer)
        joined = peer.ask(
            RequestCode.HEART_BEAT, body=wirescript.heartbeat("client-2", group="other")
        )

    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert "CREATE_MAPPED_FILE_FAILED" in refused.remark
    assert "No space left on device" in refused.remark
    for answer in (new_topic, new_group):
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "No space left on device" in answer.remark
    assert int(later.fields["queueOffset"]) == int(stored.fields["queueOffset"]) + 1
    assert joined.code == ResponseCode.SUCCESS
    assert not [each for each in caplog.records if each.exc_info]


def test_a_failed_flush_ends_sending_for_good_and_the_answer_says_what_to_do(tmp_path, caplog):
    caplog.set_level(logging.WARNING, "reput_server")
    disk = FaultyDisk()
    with served(tmp_path, disk) as peer:
        for _ in range(20):
            assert send(peer).code == ResponseCode.SUCCESS
        wait_read(peer)
        disk.plan(1, error=errno.EIO, lasting=False, operations={"flush"}, below="commitlog")
        refused = [send(peer) for _ in range(3)]
        assert is_read(peer)

    assert {each.code for each in refused} == {ResponseCode.SERVICE_NOT_AVAILABLE}
    for answer in refused:
        assert "Input/output error" in answer.remark
        assert "reput serve PATH --read-only" in answer.remark
    assert not [each for each in caplog.records if each.exc_info]


@pytest.mark.parametrize(
    "operations", [FULL, {"flush"}, FULL | {"flush", "rename"}], ids=["full", "flushes", "all"]
)
def test_every_request_is_answered_in_words_while_the_disk_fails(tmp_path, operations, caplog):
    disk = FaultyDisk()
    with served(tmp_path, disk) as peer:
        for _ in range(20):
            send(peer)
        disk.plan(1, error=errno.EIO, lasting=True, operations=operations)
        script = [each for each in wirescript.commands() if not wirescript.is_held(each)]

        for each in script:
            answer = peer.ask(each.code, body=each.body, more=each.fields)
            assert answer.code == ResponseCode.SUCCESS or answer.remark, each
        waiting = wirescript.pull(queue_id=1, hold_ms=20_000)
        peer.socket.sendall(encode_frame(Command.request(RequestCode.PULL_MESSAGE, waiting)))

    told = [each for each in caplog.records if each.name.startswith("reput_server")]
    assert not [each.message for each in told if each.exc_info]
