"""A follower has its master's log byte for byte, whatever the connection does, or says why not."""

from __future__ import annotations

import asyncio
import contextlib
import math
import select
import struct
import time

import pytest
from fakemaster import FILE_SIZE, FakeLog, FakeMaster
from followers import WAIT, caught_up, ended, followed
from masterlogs import bytes_of, log_of

import reput
from reput.errors import ReadOnlyStoreError, ReplicaError, StoreLockedError
from reput_server.follow import (
    BrokerError,
    FollowConfig,
    FollowEndedError,
    Follower,
    LogRange,
    ReplicaFeed,
    Source,
    State,
    open_replica,
)
from reput_server.follow.follower.masterpoller import MasterPoller
from reput_server.follow.follower.receiver import Receiver
from reput_server.follow.follower.sharedstate import SharedState
from reput_server.follow.follower.startoffset import Own, first_report
from reput_server.follow.replication.connection import HaConnection


@contextlib.contextmanager
def paused_follower(store, master, config, paused=lambda _: None, **options):
    """A follower of ``master`` that calls ``paused`` with the seconds of each pause of 5 s or more,
    instead of waiting."""
    follower = Follower(store, Source.at(master.address), config, **options)
    pause = SharedState.pause

    def instead(shared, seconds):
        return paused(seconds) if seconds >= 5.0 else pause(shared, seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SharedState, "pause", instead)
        follower.start()
        try:
            yield follower
        finally:
            follower.stop()


def test_a_follower_that_has_ended_stays_ended_for_its_other_threads():
    shared = SharedState("a master", lambda: 0.0)
    shared.end(FollowEndedError(State.FELL_BEHIND, "it removed its log", "use a new directory"))

    with shared.changed:  # a frame of before comes, or the connection is gone
        shared.become(State.FOLLOWING, "")
        shared.become(State.MASTER_GONE, "no connection")

    assert shared.state is State.FELL_BEHIND
    assert shared.text == "it removed its log; use a new directory"


@pytest.mark.parametrize("seed", range(4))
def test_a_follower_has_the_masters_bytes_wherever_frames_are_cut(tmp_path, log, quick, seed):
    with (
        FakeMaster(log, seed=seed) as master,
        followed(tmp_path / "store", master, quick()) as (store, follower),
    ):
        status = caught_up(follower)
        read = store.read("topic-0", 0, 0, 32)

        assert bytes_of(store) == bytes(log.data)
        assert (status.state, status.master) == (State.FOLLOWING, "shop/broker-a")
        assert (status.lag.size, status.lag.message_count, status.lag.seconds) == (0, 0, 0.0)
        assert status.dispatched_offset == log.end
        assert [message.keys for message in read][:3] == [("k0",), ("k6",), ("k12",)]


def test_messages_are_there_as_they_are_sent(tmp_path, log_bytes, quick):
    log = FakeLog(log_bytes[:1_000])
    with (
        FakeMaster(log, seed=1) as master,
        followed(tmp_path / "store", master, quick()) as (store, follower),
    ):
        for end in range(1_000, len(log_bytes), 30_000):
            master.append(log_bytes[len(log.data) : end])
            caught_up(follower)
        master.append(log_bytes[len(log.data) :])
        caught_up(follower)

        assert bytes_of(store) == log_bytes


def test_connections_that_break_anywhere_cost_nothing(tmp_path, log, quick):
    with FakeMaster(log, seed=3) as master:
        master.closed_after = [0, 1, 5, 60, 1_000, 40_000, 5_000, 7]
        with followed(tmp_path / "store", master, quick(overlap=500)) as (store, follower):
            status = caught_up(follower)

            assert bytes_of(store) == bytes(log.data)
            assert status.connection_count > 8
            assert status.received_size > len(log.data)  # some of it was compared
            for reports in master.reports[8:]:
                assert 1 <= reports[0] <= log.end - 500


def test_the_next_start_goes_on_where_the_last_ended(tmp_path, log_bytes, quick):
    log = FakeLog(log_bytes[:100_001])  # inside of a record
    with FakeMaster(log) as master:
        with followed(tmp_path / "store", master, quick()) as (store, follower):
            assert follower.wait_state(State.FOLLOWING, timeout=WAIT) is State.FOLLOWING
            follower.wait_caught_up(WAIT)
            for wait in (follower.wait_caught_up, follower.wait_state):
                with pytest.raises(ValueError, match="timeout: a number"):
                    wait(timeout=math.nan)
            end = store.log.max_physical_offset
        master.append(log_bytes[100_001:])
        with followed(tmp_path / "store", master, quick(overlap=64)) as (store, follower):
            caught_up(follower)

            assert bytes_of(store) == log_bytes
        assert end <= 100_001
        assert master.reports[-1][0] == end - 64


@pytest.mark.parametrize("begin", ["latest", FILE_SIZE + 77])
def test_a_follower_begins_with_the_file_that_holds_its_begin(tmp_path, log, quick, begin):
    first = log.end - log.end % FILE_SIZE if begin == "latest" else FILE_SIZE
    with (
        FakeMaster(log) as master,
        followed(tmp_path / "store", master, quick(begin=begin)) as (store, follower),
    ):
        caught_up(follower)

        assert store.log.min_physical_offset == first
        assert bytes_of(store) == bytes(log.data[first:])


def test_an_empty_master_is_followed_from_its_first_byte(tmp_path, log_bytes, quick):
    log = FakeLog()
    with (
        FakeMaster(log) as master,
        followed(tmp_path / "store", master, quick()) as (store, follower),
    ):
        master.wait_reports(2)
        master.append(log_bytes[:5_000])
        master.append(log_bytes[5_000:])
        caught_up(follower)

        assert bytes_of(store) == log_bytes


# --------------------------------------------------------------------------- what is reported


def test_an_observer_acknowledges_nothing(tmp_path, log, quick):
    with (
        FakeMaster(log) as master,
        followed(tmp_path / "store", master, quick()) as (_, follower),
    ):
        caught_up(follower)

        assert master.wait_reports(4)[:4] == [1, -(2**50), -(2**50), -(2**50)]


def test_a_replica_reports_only_what_is_on_disk(tmp_path, log, quick):
    with (
        FakeMaster(log) as master,
        followed(tmp_path / "store", master, quick(acknowledge=True)) as (store, follower),
    ):
        caught_up(follower)
        reports = master.wait_report(log.end)

        assert store.flushed_offset == log.end
        assert reports == sorted(reports)
        assert reports[0] == 1


def test_a_replica_asks_for_nothing_beyond_what_is_on_disk():
    own = Own(min_offset=0, end_offset=900, flushed_offset=500, file_size=1_000, is_empty=False)
    found = LogRange(0, 900)

    assert first_report(own, found, FollowConfig(acknowledge=True, overlap=100)) == 400
    assert first_report(own, found, FollowConfig(overlap=100)) == 800


@pytest.mark.parametrize("replicas", [None, 2])
def test_an_observer_lets_time_pass_before_it_connects_to_a_master_that_waits(
    tmp_path, log, quick, replicas
):
    waits = []
    config = quick(settle_time=5.0, allow_stalls=True)
    options = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": replicas}
    with (
        FakeMaster(log, config=options) as master,
        open_replica(tmp_path / "store", master.address, config, plugins=[]) as store,
    ):
        with paused_follower(store, master, config, waits.append) as follower:
            caught_up(follower)

    assert waits[0] == 5.0 or 5.0 in waits


@pytest.mark.parametrize("begin", ["oldest", "latest", FILE_SIZE + 77])
def test_an_empty_replica_lets_time_pass_before_a_report_that_names_what_it_lacks(
    tmp_path, log, quick, begin
):
    path, waits = tmp_path / "store", []
    config = quick(settle_time=5.0, acknowledge=True, begin=begin)
    options = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2}

    def settled(store):
        with paused_follower(store, master, config, waits.append) as follower:
            caught_up(follower)
        return waits.count(5.0)

    with FakeMaster(log, config=options) as master:
        with open_replica(path, master.address, config, plugins=[]) as store:
            assert settled(store) == 1
        with open_replica(path, master.address, config, plugins=[]) as store:
            assert settled(store) == 1  # it has what its first report acknowledges


def test_a_replica_flushes_what_it_has_before_its_first_report(tmp_path, log, quick):
    config = quick(acknowledge=True, overlap=500)
    with (
        FakeMaster(log) as master,
        open_replica(tmp_path / "store", master.address, config, plugins=[]) as store,
    ):
        ReplicaFeed(store).feed(0, bytes(log.data))
        with paused_follower(store, master, config):
            assert master.wait_reports(1)[0] == log.end - 500


# --------------------------------------------------------------------------- silence


def test_a_transfer_that_comes_slowly_is_not_silence(tmp_path, log, quick, monkeypatch):
    skew, reads = [0.0], [0]
    read = HaConnection.read

    def slow_read(self, seconds):
        found = read(self, seconds)
        skew[0] += 15.0  # as if the next bytes took so long
        reads[0] += 1
        return found

    class SlowMaster(FakeMaster):
        async def _send(self, writer, offset, limit, reading):
            data = bytes(self.log.data[offset:])
            frame = struct.pack(">qi", offset, len(data)) + data
            size = len(frame) // 8 + 1
            for at in range(0, len(frame), size):
                before = reads[0]
                writer.write(frame[at : at + size])
                await writer.drain()
                while reads[0] == before and not reading.done():
                    await asyncio.sleep(0.001)
            await reading

    monkeypatch.setattr(HaConnection, "read", slow_read)
    config = quick(silence=20.0, report_interval=1_000.0)
    with (
        SlowMaster(log) as master,
        open_replica(tmp_path / "store", master.address, config, plugins=[]) as store,
        paused_follower(
            store, master, config, clock=lambda: time.monotonic() + skew[0]
        ) as follower,
    ):
        state = follower.wait_state(State.FOLLOWING, State.MASTER_GONE, timeout=100 * WAIT)

        assert state is State.FOLLOWING, follower.status()
        assert bytes_of(store) == bytes(log.data)


def test_a_long_flush_is_not_silence(tmp_path, log_bytes, quick, monkeypatch):
    skew, flushes = [0.0], []
    wait_flushed = reput.Store.wait_flushed

    def slow_flush(self, offset, timeout=None):
        found = wait_flushed(self, offset, timeout)
        connection = follower._shared.connection
        if connection is not None:
            select.select([connection._socket], [], [], WAIT)  # the master goes on meanwhile
            skew[0] += 1_000.0
            flushes.append(offset)
        return found

    monkeypatch.setattr(reput.Store, "wait_flushed", slow_flush)
    config = quick(acknowledge=True, silence=20.0)
    with (
        FakeMaster(FakeLog(log_bytes[:50_000])) as master,
        open_replica(tmp_path / "store", master.address, config, plugins=[]) as store,
    ):
        follower = Follower(
            store, Source.at(master.address), config, clock=lambda: time.monotonic() + skew[0]
        )
        follower.start()
        try:
            master.wait_reports(2)
            master.append(log_bytes[50_000:])
            master.wait_report(len(log_bytes), seconds=20)
        finally:
            follower.stop()

    assert len(flushes) > 1
    assert len(master.reports) == 1


# --------------------------------------------------------------------------- what ends it


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_master_that_removes_its_first_file_meanwhile_is_asked_again(
    tmp_path, log_bytes, quick, is_empty
):
    path, config = tmp_path / "store", quick(settle_time=5.0, allow_stalls=True)
    options = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2}
    log = FakeLog(log_bytes[: FILE_SIZE + 3_000])
    with FakeMaster(log, config=options) as master:
        if not is_empty:
            with followed(path, master, quick()) as (_, follower):
                caught_up(follower)

        def remove(seconds):
            if seconds == 5.0 and not log.base:
                log.data, log.base = bytearray(log_bytes[FILE_SIZE:]), FILE_SIZE

        with (
            open_replica(path, master.address, config) as store,
            paused_follower(store, master, config, remove) as follower,
        ):
            caught_up(follower)
            caught_up(follower)  # the log has grown since the first answer

            assert store.log.min_physical_offset == (FILE_SIZE if is_empty else 0)
            assert bytes_of(store) == log_bytes[store.log.min_physical_offset :]
            assert follower.status().connection_count > 1
    assert master.reports[-1][0] == FILE_SIZE


def test_a_host_name_that_is_not_valid_is_tried_again(tmp_path, log, quick):
    with FakeMaster(log) as master:
        config = quick(ha_address="a..b:10912")
        with followed(tmp_path / "store", master, config) as (_, follower):
            assert follower.wait_state(State.MASTER_GONE, timeout=WAIT) is State.MASTER_GONE
            assert "'a..b' is not a valid host name" in follower.status().text
    with pytest.raises(BrokerError, match=r"'a\.\.b' is not a valid host name"):
        open_replica(tmp_path / "other", "a..b:10911", quick())
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    "method", [(Receiver, "_follow_once"), (MasterPoller, "_ask_range")], ids=["receiver", "asker"]
)
def test_an_error_that_was_not_expected_ends_it_with_a_state(
    tmp_path, log, quick, monkeypatch, caplog, method
):
    def fail(*_):
        raise ZeroDivisionError("of a test")

    monkeypatch.setattr(*method, fail)
    with FakeMaster(log) as master, followed(tmp_path / "store", master, quick()) as (_, follower):
        error = ended(follower)

    assert error.state is State.STORE_FAILED
    assert "ZeroDivisionError: of a test" in error.reason
    assert [each.exc_info[0] for each in caplog.records if each.exc_info] == [ZeroDivisionError]


def test_a_store_that_is_only_read_is_refused_at_the_start(tmp_path):
    reput.open(tmp_path / "store", plugins=[]).close()

    with reput.open(tmp_path / "store", "r", plugins=[]) as store:
        follower = Follower(store, Source.at("127.0.0.1:1"))
        with pytest.raises(ReadOnlyStoreError, match='open it with mode="w"'):
            follower.start()
        follower.stop()


def test_a_master_that_moves_is_waited_for_where_it_is(tmp_path, log_bytes, quick):
    config = quick(ask_timeout=5.0)
    first, second = FakeMaster(FakeLog(log_bytes[:3_000])), FakeMaster(FakeLog(log_bytes))
    with FakeMaster(FakeLog()) as server, first, second:
        server.answers[106] = first._body(106)
        source = Source.named(server.address, "broker-a")
        with open_replica(tmp_path / "store", source, config, plugins=[]) as store:
            follower = Follower(store, source, config)
            follower.start()
            try:
                assert follower.wait_state(State.FOLLOWING, timeout=WAIT) is State.FOLLOWING
                old = follower._shared.master
                ask, asked = old.log_range, []

                def moving():
                    # The first question of the wait finds the master gone, which then moves.
                    asked.append(1)
                    if len(asked) > 1:
                        server.answers[106] = second._body(106)
                    return ask()

                first.stop()
                old.log_range = moving
                caught_up(follower)

                assert bytes_of(store) == log_bytes
                server.answers[106] = second._body(106).replace(second.address.encode(), b"none")
                second.drop_connections()
                follower.wait_state(State.MASTER_GONE, timeout=WAIT)
                server.answers[106] = second._body(106)
                assert follower.wait_state(State.FOLLOWING, timeout=WAIT) is State.FOLLOWING
            finally:
                follower.stop()


def test_a_master_whose_tail_was_cut_and_grew_again_has_diverged(tmp_path, log_bytes, quick):
    other = log_of(tmp_path / "other", 1_300, seed=5)
    path = tmp_path / "store"
    with FakeMaster(FakeLog(log_bytes)) as master, followed(path, master, quick()) as (_, follower):
        caught_up(follower)
    cut = len(log_bytes) - 300
    grown = FakeLog(log_bytes[:cut] + other[cut : len(log_bytes) + 5_000])
    dispatched = []
    with FakeMaster(grown) as master, followed(path, master, quick()) as (store, follower):
        error = ended(follower)
        dispatched += [each.dispatched_to for each in store.plugins()]

        assert error.state is State.DIVERGED
        assert str(cut) in error.reason
        assert bytes_of(store) == log_bytes
    assert dispatched == [len(log_bytes)]
    kept = list((path / "reput" / "lost+found").glob("*of-master"))
    assert [each.read_bytes()[:200] for each in kept] == [bytes(grown.data[cut : cut + 200])]


def test_a_master_that_restarts_with_less_has_lost_messages(tmp_path, log_bytes, quick):
    path = tmp_path / "store"
    with FakeMaster(FakeLog(log_bytes)) as master, followed(path, master, quick()) as (_, follower):
        caught_up(follower)
        master.stop()
        with FakeMaster(FakeLog(log_bytes[:-3_113]), ports=master.ports):
            error = ended(follower)

    assert error.state is State.MASTER_LOST
    assert "3,113 bytes" in error.reason


def test_a_master_that_comes_back_is_followed_again(tmp_path, log_bytes, quick):
    path = tmp_path / "store"
    first = FakeMaster(FakeLog(log_bytes[:90_000]))
    with first, followed(path, first, quick()) as (store, follower):
        follower.wait_state(State.FOLLOWING, timeout=WAIT)
        first.stop()
        assert follower.wait_state(State.MASTER_GONE, timeout=WAIT) is State.MASTER_GONE
        assert "the next try is in" in follower.status().text
        with FakeMaster(FakeLog(log_bytes), ports=first.ports):
            status = caught_up(follower)

            assert bytes_of(store) == log_bytes
            assert status.state is State.FOLLOWING
            assert "the next try is in" not in status.text


@pytest.mark.parametrize("is_live", [False, True])
def test_a_master_that_removed_what_is_missing_is_told(tmp_path, log_bytes, quick, is_live):
    path = tmp_path / "store"
    part = log_bytes[:70_000]
    with FakeMaster(FakeLog(part)) as master, followed(path, master, quick()) as (_, follower):
        follower.wait_state(State.FOLLOWING, timeout=WAIT)
        if is_live:
            master.is_muted = True
            master.min_offset = 2 * FILE_SIZE
            master.log.data = bytearray(log_bytes)
            error = ended(follower)
    if not is_live:
        rest = FakeLog(log_bytes[2 * FILE_SIZE :], base=2 * FILE_SIZE)
        with FakeMaster(rest) as master, followed(path, master, quick()) as (_, follower):
            error = ended(follower)

    assert error.state is State.FELL_BEHIND
    assert f"begins at {2 * FILE_SIZE}" in error.reason
    assert "new directory" in error.advice


def test_bytes_that_are_no_records_are_fetched_again_and_then_told(tmp_path, log_bytes, quick):
    spoilt = bytearray(log_bytes)
    spoilt[70_000:70_400] = bytes(400)
    with (
        FakeMaster(FakeLog(bytes(spoilt))) as master,
        followed(tmp_path / "store", master, quick()) as (store, follower),
    ):
        error = ended(follower)
        end = store.log.max_physical_offset

        assert error.state is State.CORRUPT
        assert 68_000 < end <= 70_000
        assert bytes_of(store) == log_bytes[:end]
    assert len(master.reports) == 3


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"enableDLegerCommitLog": "true"}, "DLedger"),
        ({"enableControllerMode": "true"}, "controller mode"),
        ({"brokerRole": "SLAVE", "brokerId": 1}, "is a slave"),
        ({"brokerRole": "SYNC_MASTER", "inSyncReplicas": None}, "SYNC_MASTER of 4.x"),
        ({"haListenPort": None}, "names no HA port.*--ha HOST:PORT"),
    ],
)
def test_brokers_that_cannot_be_followed_are_refused_before_a_store_is_made(
    tmp_path, log, quick, options, text
):
    with (
        FakeMaster(log, config=options) as master,
        pytest.raises(FollowEndedError, match=text) as raised,
    ):
        open_replica(tmp_path / "store", master.address, quick())

    assert raised.value.state is State.REFUSED
    assert not (tmp_path / "store").exists()


def test_a_broker_that_names_no_ha_port_is_followed_at_a_given_one(tmp_path, log, quick):
    with FakeMaster(log, config={"haListenPort": None}) as master:
        config = quick(ha_address=f"127.0.0.1:{master.ha_port}")
        with followed(tmp_path / "store", master, config) as (_, follower):
            caught_up(follower)

            assert follower.status().state is State.FOLLOWING


@pytest.mark.parametrize("option", ["acknowledge", "allow_stalls"])
def test_a_waiting_master_is_followed_by_who_asks_for_it(tmp_path, log, quick, option):
    options = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": None}
    with (
        FakeMaster(log, config=options) as master,
        followed(tmp_path / "store", master, quick(**{option: True})) as (_, follower),
    ):
        caught_up(follower)


def test_a_store_follows_one_broker(tmp_path, log, quick):
    path = tmp_path / "store"
    with FakeMaster(log) as master, followed(path, master, quick()) as (_, follower):
        caught_up(follower)
        master.config = {"brokerName": "broker-b"}

        with pytest.raises(FollowEndedError, match="follows shop/broker-a, and this is shop/br"):
            open_replica(path, master.address, quick())
        master.drop_connections()
        assert ended(follower).state is State.REFUSED


def test_files_of_another_size_end_it(tmp_path, log, quick):
    path = tmp_path / "store"
    with FakeMaster(log) as master, followed(path, master, quick()) as (_, follower):
        caught_up(follower)
        master.config = {"mappedFileSizeCommitLog": FILE_SIZE * 2}
        master.drop_connections()

        assert ended(follower).state is State.FILE_SIZE_CHANGED
        with pytest.raises(FollowEndedError, match="file size changed"):
            open_replica(path, master.address, quick())


def test_an_offset_that_the_master_does_not_have_is_refused(tmp_path, log, quick):
    config = quick(begin=1 << 40)
    with (
        FakeMaster(log) as master,
        followed(tmp_path / "store", master, config) as (_, follower),
    ):
        assert "has no offset 1099511627776" in ended(follower).reason


def test_two_followers_do_not_share_a_directory(tmp_path, log, quick):
    path = tmp_path / "store"
    with (
        FakeMaster(log) as master,
        followed(path, master, quick()),
        pytest.raises(StoreLockedError),
    ):
        open_replica(path, master.address, quick())


def test_a_port_that_is_not_a_masters_is_tried_again(tmp_path, log, quick):
    with FakeMaster(log) as master:
        config = quick(ha_address=master.address)  # it waits for a frame of remoting
        with followed(tmp_path / "store", master, config) as (_, follower):
            assert follower.wait_state(State.MASTER_GONE, timeout=WAIT) is State.MASTER_GONE


def test_a_store_that_follows_takes_no_puts_until_it_is_promoted(tmp_path, log, quick):
    path = tmp_path / "store"
    with FakeMaster(log) as master, followed(path, master, quick()) as (store, follower):
        caught_up(follower)
        with pytest.raises(ReplicaError, match="shop/broker-a"):
            store.put(reput.Message("topic-0", b"mine"))
    with reput.open(path) as store:
        store.promote()
        receipt = store.put(reput.Message("topic-0", b"mine", queue_id=0))

        assert receipt.physical_offset >= log.end
        assert receipt.queue_offset == 200


def test_waiting_for_a_follower_that_ends_says_why(tmp_path, log, quick):
    with (
        FakeMaster(log) as master,
        followed(tmp_path / "store", master, quick(begin=1 << 40)) as (_, follower),
        pytest.raises(FollowEndedError, match="refused"),
    ):
        follower.wait_caught_up(WAIT)


def test_a_time_that_is_over_is_no_error(tmp_path, log_bytes, quick):
    with FakeMaster(FakeLog(log_bytes)) as master:
        master.is_muted = True
        with followed(tmp_path / "store", master, quick()) as (_, follower):
            assert not follower.wait_caught_up(0.0)
            master.wait_reports(1)
            assert not follower.wait_caught_up(0.02)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_first_record_that_is_not_valid_is_told_and_taken_once_it_is(
    tmp_path, log_bytes, quick, is_restarted
):
    path = tmp_path / "store"
    spoilt = bytearray(log_bytes)
    spoilt[88] ^= 1
    with FakeMaster(FakeLog(bytes(spoilt))) as master:
        with followed(path, master, quick()) as (_, follower):
            assert ended(follower).state is State.CORRUPT
        if is_restarted:
            with followed(path, master, quick()) as (_, follower):
                assert ended(follower).state is State.CORRUPT
        master.log.data[88] ^= 1
        with followed(path, master, quick()) as (store, follower):
            caught_up(follower)

            assert bytes_of(store) == log_bytes
