"""A broker's directory as the source of its log, while a broker writes there."""

from __future__ import annotations

import contextlib
import json
import shutil

import pytest
from brokerdirectories import unpacked
from dledgerlog import DLedgerLog
from fakemaster import FILE_SIZE
from followers import WAIT, caught_up, ended
from masterlogs import CONFIG, bytes_of, message

import reput
from reput.record.layout import BLANK_MAGIC, HEADER_DTYPE, SIZE_AND_MAGIC
from reput_client.remoting import encode_report
from reput_server.follow import (
    BrokerError,
    DirectorySource,
    FollowConfig,
    State,
    following,
    open_replica,
)
from reput_server.follow.localmaster import connection
from reput_server.follow.localmaster.master import DirectoryMaster
from reput_testing.crashes.expectedstate import messages_of
from reput_tools.brokerfiles import decode
from reput_tools.doctor import Severity, verify

pytestmark = pytest.mark.shows("follower")


@contextlib.contextmanager
def followed(path, master, config, **options):
    source = DirectorySource(str(master))
    with (
        open_replica(path, source, config, **{"plugins": ["consumequeue"], **options}) as store,
        following(store, source, config) as follower,
    ):
        yield store, follower


@pytest.fixture
def master(tmp_path):
    return tmp_path / "master"


@contextlib.contextmanager
def writing(path, count=0):
    """A store at ``path``, as a broker has it open, with some messages."""
    with reput.open(path, plugins=[], config=CONFIG) as store:
        for number in range(count):
            store.put(message(number))
        yield store


def test_a_log_that_grows_comes_byte_for_byte(tmp_path, master, quick):
    with writing(master, 700) as store, followed(tmp_path / "own", master, quick()) as (own, it):
        caught_up(it)
        for number in range(700, 1_200):  # over several files
            store.put(message(number))
        status = caught_up(it)

        assert len(store.log.file_offsets) > 2
        assert bytes_of(own) == bytes_of(store)
        assert status.state is State.FOLLOWING
        assert status.master == str(master)
        assert status.lag.size == 0
        assert sum(each.max_queue_offset for each in own.queues()) == 1_200


def test_nothing_is_written_into_the_directory(tmp_path, master, quick):
    with writing(master, 30):
        pass
    before = {each: each.stat().st_mtime_ns for each in master.rglob("*")}

    with followed(tmp_path / "own", master, quick(metadata=True)) as (_, it):
        caught_up(it)

    assert {each: each.stat().st_mtime_ns for each in master.rglob("*")} == before


def test_the_next_start_goes_on(tmp_path, master, quick):
    with writing(master, 50):
        pass
    with followed(tmp_path / "own", master, quick()) as (_, it):
        caught_up(it)
    with writing(master) as store:
        for number in range(50, 90):
            store.put(message(number))
        with followed(tmp_path / "own", master, quick()) as (own, it):
            caught_up(it)
            assert bytes_of(own) == bytes_of(store)


def test_a_record_that_java_is_writing_is_waited_for(tmp_path, master, quick):
    with writing(master, 20) as store:
        store.flush()
        whole = store.log.max_physical_offset
        file = master / "commitlog" / ("0" * 20)
        data = store.log.read(0, whole)
    record = data[: int.from_bytes(data[:4], "big")]
    next_one = record[:28] + whole.to_bytes(8, "big") + record[36:]
    (master / "lock").write_bytes(b"lock")  # a program that is not reput has it open
    with file.open("r+b") as opened:
        opened.seek(whole)
        opened.write(next_one[:-30])

    with followed(tmp_path / "own", master, quick()) as (own, it):
        caught_up(it)
        assert own.log.max_physical_offset == whole
        with file.open("r+b") as opened:
            opened.seek(whole)
            opened.write(next_one)
        with it._shared.changed:
            assert it._shared.changed.wait_for(
                lambda: own.log.max_physical_offset == whole + len(next_one), WAIT
            )


def test_a_log_that_was_cut_and_grew_again_has_diverged(tmp_path, master, quick):
    with writing(master, 50):
        pass
    with followed(tmp_path / "own", master, quick()) as (own, it):
        caught_up(it)
        end = own.log.max_physical_offset
        with reput.open(tmp_path / "other", plugins=[], config=CONFIG) as other:
            for number in range(80):
                other.put(message(number, seed=3))
            data = bytes_of(other)
        with (master / "commitlog" / ("0" * 20)).open("r+b") as opened:
            opened.write(data)
        error = ended(it)

    assert error.state is State.DIVERGED
    assert own.log.max_physical_offset == end


def test_a_shorter_log_has_lost_messages(tmp_path, master, quick):
    with writing(master, 50):
        pass
    with followed(tmp_path / "own", master, quick()) as (_, it):
        caught_up(it)
    with writing(tmp_path / "shorter", 20):
        pass
    master.rename(tmp_path / "gone")
    (tmp_path / "shorter").rename(master)

    with followed(tmp_path / "own", master, quick()) as (_, it):
        assert ended(it).state is State.MASTER_LOST


def test_metadata_is_that_of_the_broker(tmp_path, master, quick):
    with writing(master, 10):
        (master / "config").mkdir(exist_ok=True)
        groups = {"subscriptionGroupTable": {"billing": {"groupName": "billing"}}}
        (master / "config" / "subscriptionGroup.json").write_text(json.dumps(groups))
        with followed(tmp_path / "own", master, quick(metadata=True)) as (_, it):
            with it._shared.changed:
                assert it._shared.changed.wait_for(lambda: it._shared.metadata_count, WAIT)
            assert it.status().text == ""

    own = tmp_path / "own" / "config"
    assert decode((own / "subscriptionGroup.json").read_bytes()) == groups
    assert not (own / "consumerOffset.json").exists()


def test_a_topic_that_has_batch_queues_at_the_broker_gets_them(tmp_path, quick):
    root = unpacked("rocketmq-5.5.0/batch-queues", tmp_path)
    with reput.open(root, "r", plugins=["consumequeue"]) as reader:
        expected = [(each.queue_offset, each.body) for each in reader.messages("orders")]

    with followed(tmp_path / "own", root, quick(metadata=True)) as (own, it):
        caught_up(it)
        found = [(each.queue_offset, each.body) for each in own.messages("orders")]

    assert found == expected
    assert (tmp_path / "own" / "batchconsumequeue" / "orders").exists()
    with reput.open(tmp_path / "own", "r") as reader:
        assert reader.problems == ()


@pytest.mark.parametrize("make", ["nothing", "no log", "dledger"])
def test_a_directory_without_a_log_is_refused(tmp_path, master, make):
    if make != "nothing":
        (master / ("commitlog" if make == "no log" else "dledger-n0")).mkdir(parents=True)

    with pytest.raises(BrokerError, match=r"commitlog has no file; name the storePathRootDir"):
        open_replica(tmp_path / "own", DirectorySource(str(master)), FollowConfig())

    assert not (tmp_path / "own").exists()


@pytest.mark.parametrize("case", ["4.9.7", "5.3.3", "5.3.3-mixed"])
def test_a_log_of_dledger_becomes_a_plain_one_that_grows(tmp_path, case, quick):
    root = unpacked(f"dledger/{case}", tmp_path)
    with reput.open(root, "r", plugins=()) as reader:
        expected = [view.body for view in messages_of(reader)]

    with followed(tmp_path / "own", root, quick(), plugins=["consumequeue", "index"]) as (own, it):
        caught_up(it)
        assert [view.body for view in messages_of(own)] == expected
    with reput.open(root, "w", plugins=["consumequeue", "transaction"]) as store:
        half = store.plugin("transaction").prepare(reput.Message("orders", b"committed"))
        store.plugin("transaction").commit(half)
        store.put_many([reput.Message("orders", b"x" * 700, i % 4) for i in range(900)])
    with followed(tmp_path / "own", root, quick(), plugins=["consumequeue", "index"]) as (own, it):
        caught_up(it)
        views = list(messages_of(own))
        half, committed = [each for each in views if each.body == b"committed"]

    assert [view.body for view in views[: len(expected)]] == expected
    assert [view.body for view in views[-900:]] == [b"x" * 700] * 900
    assert committed.prepared_transaction_offset in (half.physical_offset, 0)
    assert not (tmp_path / "own" / "dledger-n0").exists()
    found = [each for each in verify(tmp_path / "own").findings if each.severity > Severity.NOTICE]
    assert found == []


@pytest.mark.parametrize("keeps_plain", [True, False])
def test_a_log_that_dledger_takes_over_is_followed_there(
    tmp_path, master, quick, keeps_plain, monkeypatch
):
    monkeypatch.setattr(connection, "_HEARTBEAT_SECONDS", 0.02)
    with writing(tmp_path / "plain") as store:
        store.put_many([message(number, seed=3) for number in range(60)])
        records = [batch.record(row) for batch in store.scan() for row in range(len(batch))]
    ledger = DLedgerLog(tmp_path / "new", FILE_SIZE, FILE_SIZE if keeps_plain else 0)
    for record in records:
        ledger.append(record)
    ledger.write()
    with writing(master, 30) as store:
        end = store.log.max_physical_offset

    with followed(tmp_path / "own", master, quick()) as (own, it):
        caught_up(it)
        if keeps_plain:
            with (master / "commitlog" / ("0" * 20)).open("r+b") as opened:
                opened.seek(end)
                opened.write(SIZE_AND_MAGIC.pack(FILE_SIZE - end, BLANK_MAGIC))
        else:
            shutil.rmtree(master / "commitlog")
        ledger.folder.rename(master / ledger.folder.name)
        if keeps_plain:
            with it._shared.changed:
                assert it._shared.changed.wait_for(
                    lambda: own.log.max_physical_offset > FILE_SIZE, WAIT
                )
            caught_up(it)
            assert len(list(messages_of(own))) == 90
        else:
            assert ended(it).state is State.DIVERGED


def test_only_committed_entries_are_followed_and_damage_is_named(tmp_path, master, quick):
    with writing(tmp_path / "plain", 300) as store:
        records = [batch.record(row) for batch in store.scan() for row in range(len(batch))]
    ledger = DLedgerLog(master)
    for record in records:
        ledger.append(record)
    ledger.write(committed=99, leader="n1")

    with followed(tmp_path / "own", master, quick()) as (own, it):
        caught_up(it)
        assert len(list(messages_of(own))) == 100
        ledger.note(199)
        caught_up(it)
        assert len(list(messages_of(own))) == 200
        ledger.spoil(ledger.entries[250], b"\xff" * 48)
        ledger.note(299)
        assert it.wait_state(State.MASTER_GONE, timeout=WAIT) is State.MASTER_GONE
        assert "magic" in it.status().text or "entry" in it.status().text
        assert len(list(messages_of(own))) == 250


def test_a_replica_of_dledger_is_the_same_without_the_oldest_file(tmp_path, master, quick):
    with writing(tmp_path / "plain", 300) as store:
        records = [batch.record(row) for batch in store.scan() for row in range(len(batch))]
    at, ledger = HEADER_DTYPE.fields["prepared_transaction_offset"][1], DLedgerLog(master)
    for number, record in enumerate(records):
        half = ledger.offsets[3 if number == 299 else number - 2] if number > 280 else 0
        ledger.append(record[:at] + half.to_bytes(8, "big") + record[at + 8 :])
    ledger.write()

    with followed(tmp_path / "own", master, quick()) as (own, it):
        caught_up(it)
        before = bytes_of(own)
    (ledger.directory / ("0" * 20)).unlink()
    with followed(tmp_path / "own", master, quick()) as (own, it):
        caught_up(it)
        assert bytes_of(own) == before
        assert list(messages_of(own))[-1].prepared_transaction_offset == 0


def test_a_file_of_dledger_that_is_removed_meanwhile_is_not_read_as_a_blank(tmp_path, master):
    with writing(tmp_path / "plain", 300) as store:
        records = [batch.record(row) for batch in store.scan() for row in range(len(batch))]
    ledger = DLedgerLog(master)
    for record in records:
        ledger.append(record)
    ledger.write()
    source = DirectoryMaster(str(master))
    size = ledger.file_size

    received = []
    with contextlib.closing(source), source.connect(source.facts(), FollowConfig()) as connection:
        connection.send(encode_report(5_000))
        received.append(connection.read(1.0)[0].data)
        for base in (0, size, 2 * size):
            (ledger.directory / f"{base:020d}").unlink()
        with pytest.raises(BrokerError, match="the file was removed"):
            received.extend(connection.read(1.0)[0].data for _ in range(20))

    assert 5_000 + sum(map(len, received)) in (size, 2 * size)


def test_a_note_of_dledger_that_is_missing_is_waited_for(tmp_path, master, quick):
    with writing(tmp_path / "plain", 30) as store:
        records = [batch.record(row) for batch in store.scan() for row in range(len(batch))]
    ledger = DLedgerLog(master)
    for record in records:
        ledger.append(record)
    ledger.write()
    with followed(tmp_path / "own", master, quick()) as (own, it):
        caught_up(it)
    (ledger.folder / "checkpoint").write_bytes(b"")

    with followed(tmp_path / "own", master, quick()) as (own, it):
        assert it.wait_state(State.MASTER_GONE, timeout=WAIT) is State.MASTER_GONE
        assert "checkpoint" in it.status().text
        ledger.write()
        caught_up(it)
        assert len(list(messages_of(own))) == 30


def test_a_store_does_not_follow_itself(master):
    with writing(master, 5):
        pass

    with pytest.raises(reput.errors.NotReplicaError):
        open_replica(master, DirectorySource(str(master)), FollowConfig())
