"""Connections whose sends wait for the disk: many are read in one call, and answered in another."""

from __future__ import annotations

import select

import attrs
from durablesends import COMPILED, assert_none_waits, count_shared, counts, ordinary

from reput_client.remoting import RequestCode, ResponseCode
from reput_server.wire import sharedreads as sharing_module


@COMPILED
def test_connections_that_are_read_together_are_answered_when_messages_are_on_disk(
    durable, disk, sharing
):
    before = len(disk.offsets)
    disk.let_go.clear()
    for at, peer in enumerate(sharing):
        peer.socket.sendall(ordinary(at) + ordinary(at + 10))
    assert disk.begun.wait(20)
    durable.wait_until(lambda: durable.server.broker.durable.count == 6)
    assert counts(durable)[0] == 6
    assert counts(durable)[1] > 0
    assert durable.peer().ask(RequestCode.GET_BROKER_CONFIG).code == ResponseCode.SUCCESS
    assert select.select([peer.socket for peer in sharing], [], [], 0)[0] == []

    disk.let_go.set()
    answers = [peer.receive() for peer in sharing for _ in range(2)]

    assert [each.opaque for each in answers] == [0, 10, 1, 11, 2, 12]
    assert {each.code for each in answers} == {ResponseCode.SUCCESS}
    assert 1 <= len(disk.offsets) - before <= 3
    last = max(int(each.fields["msgId"][-16:], 16) for each in answers)
    assert disk.offsets[-1] > last
    assert_none_waits(durable)
    assert count_shared(durable) == 3


@COMPILED
def test_connections_whose_answers_cannot_be_written_together_are_cut_and_counted_no_more(
    durable, disk, sharing, monkeypatch
):
    other, written = durable.peer(), []

    def fail(answers):
        written.append(len(answers))
        raise MemoryError

    monkeypatch.setattr(sharing_module, "write_sockets", fail)
    disk.let_go.clear()
    for peer in (*sharing, other):
        peer.socket.sendall(ordinary(1))
    durable.wait_until(lambda: durable.server.broker.durable.count == 4)
    disk.let_go.set()

    assert all(peer.is_closed() for peer in sharing)
    assert other.receive().opaque == 1
    assert sum(written) == 3
    assert_none_waits(durable)


@COMPILED
def test_a_connection_with_too_many_sends_that_wait_is_read_no_more_until_they_are_answered(
    durable, disk, sharing
):
    most = durable.server.config.limits.requests_per_peer
    sender, *others = sharing
    disk.let_go.clear()
    for at in range(most):
        sender.socket.sendall(ordinary(at))
    (peer,) = (
        each for each in durable.server.service.peers if each.address == sender.socket.getsockname()
    )
    durable.wait_until(lambda: peer._request_count == most)
    for at in range(most, most + 50):
        sender.socket.sendall(ordinary(at))
    durable.wait_until(lambda: peer._is_reading_paused)
    assert not peer._is_shared
    assert peer._request_count == most
    assert count_shared(durable) == 2

    disk.let_go.set()
    answers = [sender.receive() for _ in range(most + 50)]

    assert sorted(each.opaque for each in answers) == list(range(most + 50))
    assert {each.code for each in answers} == {ResponseCode.SUCCESS}
    for each in others:
        each.socket.sendall(ordinary(1))
        assert each.receive().opaque == 1
    assert_none_waits(durable)


@COMPILED
def test_a_connection_that_cannot_be_paused_is_cut_and_others_are_answered(
    durable, disk, sharing, monkeypatch
):
    service, failing = durable.server.service, sharing[0].socket.getsockname()
    real = service.unshare

    def unshare(descriptor):
        real(descriptor)
        if any(
            each.address == failing and each._descriptor == descriptor for each in service.peers
        ):
            raise OSError(28, "no space")

    monkeypatch.setattr(type(service), "unshare", lambda _, descriptor: unshare(descriptor))
    service.limits = attrs.evolve(service.limits, requests_per_peer=2)
    disk.let_go.clear()

    def send():
        for peer in sharing:
            peer.socket.sendall(ordinary(1) + ordinary(2))

    durable.on_loop(send)  # so that all of them are read in one turn
    durable.wait_until(lambda: durable.server.broker.durable.count == 6)
    disk.let_go.set()

    assert sharing[0].is_closed()
    assert [peer.receive().opaque for peer in sharing[1:] for _ in range(2)] == [1, 2, 1, 2]
    assert_none_waits(durable)


@COMPILED
def test_a_connection_that_is_lost_while_it_is_paused_counts_nothing_later(durable, disk, sharing):
    service, most = durable.server.service, durable.server.config.limits.requests_per_peer
    sender = sharing[0]
    (peer,) = (each for each in service.peers if each.address == sender.socket.getsockname())
    disk.let_go.clear()
    for at in range(most):
        sender.socket.sendall(ordinary(at))
    durable.wait_until(lambda: peer._request_count == most)
    durable.on_loop(lambda: peer.data_received(ordinary(1)[:50]))  # perhaps read before the pause
    assert (peer._is_reading_paused, service.held_bytes) == (True, 50)

    durable.on_loop(peer._transport.abort)
    durable.wait_until(lambda: peer not in service.peers)
    disk.let_go.set()

    assert_none_waits(durable)
    assert service.held_bytes == 0
