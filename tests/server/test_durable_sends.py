"""Sends that wait for the disk: taken from bytes with compiled kernels, and answered together."""

from __future__ import annotations

import asyncio
import threading

import attrs
import pytest
from durablesends import COMPILED, SEND, assert_none_waits, counts, ordinary
from wirepeer import message

from reput.errors import ServiceNotAvailableError
from reput_client.remoting import BatchEntry, Command, RequestCode, ResponseCode, encode_batch


def taken_from_bytes(served):
    """How many sends were taken from bytes, in a list that grows."""
    service, found = served.server.service, []
    direct, pulls = service._handlers.from_bytes

    def noted(peer, data):
        taken = direct(peer, data)
        if taken[2]:
            found.append(taken[2])
        return taken

    service._handlers = attrs.evolve(service._handlers, from_bytes=(noted, pulls))
    return found


@COMPILED
def test_answers_come_when_messages_are_on_disk(durable, disk):
    taken, peer = taken_from_bytes(durable), durable.peer()
    disk.let_go.clear()
    peer.socket.sendall(b"".join(ordinary(at, b"%d" % at) for at in range(5)))
    assert disk.begun.wait(20)
    peer.socket.sendall(b"".join(ordinary(at, b"%d" % at) for at in range(5, 9)))
    durable.wait_until(lambda: sum(taken) == 9)
    assert counts(durable)[0] == counts(durable)[2] == 9
    assert counts(durable)[1] > 0
    # Nothing else waits.
    assert durable.peer().ask(RequestCode.GET_BROKER_CONFIG).code == ResponseCode.SUCCESS

    disk.let_go.set()
    answers = [peer.receive() for _ in range(9)]

    assert [each.opaque for each in answers] == list(range(9))
    assert {each.code for each in answers} == {ResponseCode.SUCCESS}
    last = int(answers[-1].fields["msgId"][-16:], 16)
    assert disk.offsets[-1] > last
    assert_none_waits(durable)
    assert durable.store.wait_dispatched(timeout=20)
    found = [each.body for each in durable.store.read("orders", 0, 1, 100)]
    assert found == [b"%d" % at for at in range(9)]


@pytest.fixture(params=["alone", pytest.param("together", marks=COMPILED)])
def senders(request, durable):
    """One connection, or three that are read together."""
    return request.getfixturevalue("sharing") if request.param == "together" else [durable.peer()]


def test_a_disk_that_is_late_or_fails_is_answered_as_for_other_sends(durable, disk, senders):
    disk.let_go.clear()
    disk.durable.flush_timeout_ms = 1
    senders[0].socket.sendall(ordinary(1))
    late = senders[0].receive()
    disk.durable.flush_timeout_ms = 60_000
    disk.let_go.set()
    disk.error = ServiceNotAvailableError("log", "closed", None, "the log is not writable")
    for peer in senders:
        peer.socket.sendall(ordinary(2) + ordinary(3))
    failed = [peer.receive() for peer in senders for _ in range(2)]

    assert (late.opaque, late.code) == (1, ResponseCode.FLUSH_DISK_TIMEOUT)
    assert "not on disk after" in late.remark
    assert int(late.fields["queueOffset"]) > 0
    assert [each.opaque for each in failed] == [2, 3] * len(senders)
    assert {each.code for each in failed} == {ResponseCode.SERVICE_NOT_AVAILABLE}
    assert "the log is not writable" in failed[0].remark
    assert "msgId" not in failed[0].fields
    assert durable.server.broker.sends.times.failed_count == len(failed)
    assert_none_waits(durable)


def test_a_connection_that_closes_meanwhile_leaves_nothing(durable, disk, senders):
    disk.let_go.clear()
    for peer in senders:
        peer.socket.sendall(ordinary(1) + ordinary(2))
    durable.wait_until(lambda: durable.server.broker.durable.count == 2 * len(senders))
    before = len(durable.server.service.peers)
    senders[0].socket.close()
    durable.wait_until(lambda: len(durable.server.service.peers) < before)

    disk.let_go.set()

    assert [peer.receive().opaque for peer in senders[1:] for _ in range(2)] == [1, 2] * (
        len(senders) - 1
    )
    assert_none_waits(durable)


def test_a_server_that_stops_answers_first(durable, disk, senders):
    service = durable.server.service
    disk.let_go.clear()
    for peer in senders:
        peer.socket.sendall(ordinary(1))
    durable.wait_until(lambda: durable.server.broker.durable.count == len(senders))

    stopped = asyncio.run_coroutine_threadsafe(service.stop(), service.loop)
    durable.wait_until(lambda: service.is_stopping)
    disk.let_go.set()

    assert {peer.receive().code for peer in senders} == {ResponseCode.SUCCESS}
    stopped.result(20)


@COMPILED
def test_too_many_that_wait_go_the_way_that_refuses_them(durable, disk):
    taken, peer, config = taken_from_bytes(durable), durable.peer(), durable.server.config
    disk.let_go.clear()
    peer.socket.sendall(ordinary(1))
    assert disk.begun.wait(20)
    durable.server.broker.durable.count += config.limits.waiting_sends
    peer.socket.sendall(ordinary(2))
    refused = peer.receive()
    durable.server.broker.durable.count -= config.limits.waiting_sends

    disk.let_go.set()

    assert (refused.opaque, refused.code) == (2, ResponseCode.SYSTEM_BUSY)
    assert "[OVERLOAD]" in refused.remark
    assert peer.receive().opaque == 1
    assert taken == [1]


@COMPILED
def test_only_what_is_not_stored_yet_keeps_others_from_the_short_way(durable, disk):
    taken, peer = taken_from_bytes(durable), durable.peer()
    peer.socket.sendall(ordinary(1))
    assert peer.receive().opaque == 1
    disk.let_go.clear()
    appender, log = durable.store.log._appender, durable.store.log

    def no_room():
        appender.move_record_limit(appender.end_offset - 1)

    durable.on_loop(no_room)
    end = log.max_physical_offset
    peer.socket.sendall(ordinary(2))
    durable.wait_until(lambda: log.max_physical_offset > end)
    assert (taken, counts(durable)[2]) == ([1], 1)

    peer.socket.sendall(ordinary(3))

    durable.wait_until(lambda: taken == [1, 1])
    assert counts(durable)[2] == 2
    disk.let_go.set()
    assert [peer.receive().opaque for _ in range(2)] == [2, 3]
    assert_none_waits(durable)


@COMPILED
def test_a_send_by_a_task_keeps_others_from_the_short_way_only_until_it_is_stored(durable, disk):
    taken, peer, log = taken_from_bytes(durable), durable.peer(), durable.store.log
    disk.let_go.clear()
    end = log.max_physical_offset
    unusual = "UNIQ_KEY\x01u\x02DELAY\x011\x02"
    peer.socket.sendall(ordinary(1, i=unusual))
    durable.wait_until(lambda: log.max_physical_offset > end)
    assert disk.begun.wait(20)
    assert counts(durable)[2] == 1

    for opaque in (2, 3):
        peer.socket.sendall(ordinary(opaque))
        durable.wait_until(lambda opaque=opaque: len(taken) == opaque - 1)

    disk.let_go.set()
    assert sorted(peer.receive().opaque for _ in range(3)) == [1, 2, 3]
    assert_none_waits(durable)


def test_nobody_waits_for_a_put_that_waits_for_space(durable, monkeypatch):
    begun, let_go, log = threading.Event(), threading.Event(), type(durable.store.log)
    sends, real = durable.server.broker.sends, log.look_ahead

    def slow(self, offset, size):
        begun.set()
        assert let_go.wait(60)
        return real(self, offset, size)

    def no_room():
        appender = durable.store.log._appender
        appender.move_record_limit(appender.end_offset - 1)

    durable.on_loop(no_room)
    monkeypatch.setattr(log, "look_ahead", slow)
    peer, other = durable.peer(), durable.peer()
    try:
        peer.socket.sendall(ordinary(1, b"x" * 1_000))
        assert begun.wait(20)
        assert other.ask(RequestCode.GET_BROKER_CONFIG).code == ResponseCode.SUCCESS
        peer.socket.sendall(ordinary(2))
        durable.wait_until(lambda: sends.waiting_count)
        sends.clock = lambda: 2.0  # since then two seconds have gone by
        waits = (sends.put_ms, sends.head_wait_ms)
    finally:
        let_go.set()

    assert waits == (2_000, 2_000)
    assert [peer.receive().opaque for _ in range(2)] == [1, 2]
    durable.wait_until(lambda: not sends.waiting_count)
    assert (sends.put_ms, sends.head_wait_ms) == (0, 0)


def test_sends_that_wait_for_the_disk_are_counted_with_how_long_they_have_waited(durable, disk):
    sends, peer = durable.server.broker.sends, durable.peer()
    disk.let_go.clear()
    peer.socket.sendall(ordinary(1))
    assert disk.begun.wait(20)
    peer.socket.sendall(ordinary(2))
    durable.wait_until(lambda: sends.waiting_count == 2)
    sends.clock = lambda: 3.0

    found = (sends.put_ms, sends.head_wait_ms)
    disk.let_go.set()

    assert found == (3_000, 3_000)
    assert [peer.receive().opaque for _ in range(2)] == [1, 2]


@pytest.mark.parametrize("code", [SEND, RequestCode.SEND_BATCH_MESSAGE])
def test_what_goes_by_a_task_is_stored_at_once_and_answered_when_it_is_on_disk(durable, disk, code):
    peer, log = durable.peer(), durable.store.log
    disk.let_go.clear()
    end = log.max_physical_offset
    body = encode_batch([BatchEntry(body=b"x"), BatchEntry(body=b"y")]) if code != SEND else b"x"
    header = message("orders", properties="DELAY\x010\x02UNIQ_KEY\x01u\x02")
    sent = peer.send(Command.request(code, header, body=body))
    durable.wait_until(lambda: log.max_physical_offset > end)
    assert disk.begun.wait(20)
    assert counts(durable)[2] == 1
    # Whoever asks something else is answered meanwhile.
    assert durable.peer().ask(RequestCode.GET_BROKER_CONFIG).code == ResponseCode.SUCCESS

    disk.error = ServiceNotAvailableError("log", "closed", None, "the log is not writable")
    disk.let_go.set()

    answer = peer.answer_to(sent)
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "the log is not writable" in answer.remark


def test_the_lane_of_python_takes_no_durable_sends(durable, monkeypatch):
    from reput_server.broker.send import fastpathswitch as direct
    from reput_server.broker.send.fastpath import SendFastPath

    monkeypatch.setattr(direct, "send_lane", SendFastPath)
    service, taken = durable.server.service, []
    service._handlers.from_bytes[0].__self__._made_of = ()  # another lane is made
    durable.on_loop(lambda: taken.append(service.take_bytes(None, ordinary())))

    assert taken == [(b"", 0, 0)]
