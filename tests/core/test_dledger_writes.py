"""Entries that are appended to the log of a one-node group of DLedger; others are refused."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from brokerdirectories import snapshot, unpacked
from dledgerlog import DLedgerLog, entries_in
from hypothesis import given, settings
from hypothesis import strategies as st

import reput
from reput.errors import ConfigError, CorruptFileError, NotReplicaError, UnsupportedFilesError
from reput_testing import ExpectedState, PowerCuts, QuickDisk
from reput_testing.crashes.expectedstate import Sent, messages_of
from reput_tools.doctor import Severity, verify

STORES = ["4.9.7", "5.3.3", "5.3.3-mixed", "5.5.0-killed"]
OPTIONS = {"plugins": ["consumequeue"], "threads": False}


def _early(folder):
    return reput.open(folder, plugins=(), clock=lambda: 1_700_000_000_000)


def records():
    """A few records in the order of a log."""
    with tempfile.TemporaryDirectory() as folder, _early(folder) as store:
        for number in range(24):
            store.put(reput.Message("orders", b"%d " % number * 40, queue_id=number % 2))
        return [batch.record(row) for batch in store.scan() for row in range(len(batch))]


RECORDS = records()


def written(root, term=0, **options):
    """A stopped node with a few entries in files of 16 KiB."""
    log = DLedgerLog(root / "store", term=term)
    for record in RECORDS:
        log.append(record)
    return log.write(**options)


def opened(root, **more):
    return reput.open(root, "w", **{**OPTIONS, "disk": QuickDisk(), **more})


def bodies(store):
    return [bytes(view.body) for view in messages_of(store)]


def require_healthy(root):
    found = [each for each in verify(root).findings if each.severity > Severity.NOTICE]
    assert found == []
    return entries_in(root)


@pytest.mark.parametrize("case", STORES)
@pytest.mark.costly
def test_a_recorded_node_takes_messages_of_all_kinds(case, tmp_path):
    root = unpacked(f"dledger/{case}", tmp_path)
    (folder,) = root.glob("dledger-n0")
    kept = {name: (folder / name).read_bytes() for name in ["currterm"]}
    kept |= {path: path.read_bytes() for path in folder.glob("index/*")}
    before = entries_in(root)
    plugins = ["consumequeue", "index", "schedule", "transaction"]

    light_queues = {"commitlog": {"max_light_queues": 10}}
    with reput.open(root, "w", plugins=plugins, config=light_queues) as store:
        end = store.log.max_physical_offset
        shown = bodies(store)
        one = store.put(reput.Message("orders", b"one", keys="mine"))
        store.put(reput.Message("orders", b"later", properties={"DELAY": "1"}))
        half = store.plugin("transaction").prepare(reput.Message("orders", b"committed"))
        store.plugin("transaction").commit(half)
        many = store.put_many([reput.Message("orders", b"x" * 700, i % 4) for i in range(900)])
        both = store.put_many([reput.Message("new", b"%d" % i) for i in range(3)], whole=True)
        light = store.put(
            reput.Message("new", b"light", properties={"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b"})
        )
        store.wait_dispatched()
        assert bodies(store)[: len(shown) + 1] == [*shown, b"one"]
        assert [each.body for each in store.query("orders", "mine").messages] == [b"one"]
        assert [each.body for each in store.read("%LMQ%b", 0, 0).messages] == [b"light"]
        assert store.log.max_physical_offset == light.physical_offset + light.size
        with pytest.raises(reput.errors.MessageTooLargeError):
            store.put(reput.Message("orders", b"x" * (store.log.file_size - 130)))

    after = require_healthy(root)
    assert after[: len(before)] == before
    assert after[len(before)].position == end == one.physical_offset - 48
    assert {each.term for each in after} == {0}
    stated = {each.position + 48 for each in after}
    assert stated >= {*many.physical_offsets.tolist(), *both.physical_offsets.tolist()}
    assert {path: (folder / path).read_bytes() for path in kept} == kept
    number = after[-1].index
    assert (folder / "checkpoint").read_text() == f"committedIndex={number}\nendIndex={number}\n"
    assert len(list(folder.glob("data/*"))) > 3
    with reput.open(root, "r") as store:
        assert store.problems == ()
        assert bodies(store)[-1] == b"light"


def test_nothing_of_a_log_is_trimmed(tmp_path):
    log = written(tmp_path)
    with opened(log.root) as store:
        store.put_many([reput.Message("orders", b"x" * 900)] * 60)
        store.flush()
        report = store.trim_log(store.log.max_physical_offset)

    assert report.start_offset == report.min_physical_offset == 0
    assert any("DLedger removes" in hold.reason for hold in report.holds)
    assert len(list(log.directory.iterdir())) > 3


# --------------------------------------------------------------------------- what is refused


def _without_entry(log):
    shutil.rmtree(log.directory)
    log.directory.mkdir()


def _second(log):
    shutil.copytree(log.folder, log.root / "dledger-n1")


REFUSED = {
    "another leader": (lambda log: log.write(leader="n2"), "several nodes"),
    "no vote": (lambda log: log.write(leader="null"), "for whom the node has voted"),
    "no term": (lambda log: (log.folder / "currterm").unlink(), "for whom the node has voted"),
    "a second election": (lambda log: (setattr(log, "term", 1), log.write()), "several elections"),
    "two nodes": (_second, "logs of several nodes"),
    "an unknown file": (lambda log: (log.folder / "meta").touch(), "dledger-n0/meta is not known"),
    "no entry": (_without_entry, "has no entry yet"),
    "no file": (lambda log: shutil.rmtree(log.directory), "has no entry yet"),
    "a broken first entry": (lambda log: log.spoil(0, b"\0\0\0\2"), "has no entry yet"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_state_that_is_not_known_to_be_a_group_of_one_is_refused(case, tmp_path):
    log = written(tmp_path)
    change, reason = REFUSED[case]
    change(log)
    before = snapshot(log.root)

    with pytest.raises(UnsupportedFilesError, match=reason):
        opened(log.root)

    assert snapshot(log.root) == before


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"config": {"commitlog": {"record_crc": True}}}, ConfigError),
        ({"config": {"commitlog": {"file_size": 1 << 20}}}, ConfigError),
        ({"master": "another"}, NotReplicaError),
    ],
)
def test_options_that_entries_cannot_follow_are_refused(options, error, tmp_path):
    log = written(tmp_path)

    with pytest.raises(error):
        opened(log.root, **options)

    assert entries_in(log.root)[-1].position == log.entries[-1]


# --------------------------------------------------------------------------- damage and crashes


@pytest.mark.parametrize(
    ("row", "spoilt", "reason"),
    [
        (-3, slice(90, 96), "sound entries follow damage"),
        (-3, slice(-48, 100), "sound entries follow damage"),
        (0, slice(90, 96), "no sound entry"),
    ],
)
def test_damage_that_a_broker_left_is_refused_and_not_cut(row, spoilt, reason, tmp_path):
    log = written(tmp_path)
    (log.root / "abort").touch()
    log.spoil(log.offsets[row] + spoilt.start, bytes(spoilt.stop - spoilt.start))
    before = [path.read_bytes() for path in log.directory.iterdir()]

    with pytest.raises(CorruptFileError, match=reason):
        opened(log.root)

    assert [path.read_bytes() for path in log.directory.iterdir()] == before
    assert not (log.root / "checkpoint").exists()


def test_a_last_entry_that_a_broker_left_unfinished_is_cut(tmp_path):
    log = written(tmp_path)
    (log.root / "abort").touch()
    log.spoil(log.offsets[-1] + 90, b"spoilt")

    with opened(log.root) as store:
        receipt = store.put(reput.Message("orders", b"next"))

    assert receipt.physical_offset == log.offsets[-1]
    assert require_healthy(log.root)[-1].index == len(log.offsets) - 1


@pytest.mark.parametrize("spoilt", [slice(0, 8), slice(8, 48), slice(0, 48), slice(56, 300)])
def test_a_put_that_a_kill_interrupted_leaves_no_message(spoilt, tmp_path):
    log = written(tmp_path)
    store = opened(log.root)
    store.put(reput.Message("orders", b"before"))
    many = store.put_many([reput.Message("orders", b"y" * 400)] * 3)
    at = int(many.physical_offsets[0]) - 48
    killed = DLedgerLog(tmp_path / "killed" / "store")
    shutil.copytree(log.root, killed.root)
    store.close()
    killed.spoil(at + spoilt.start, bytes(spoilt.stop - spoilt.start))

    with reput.open(killed.root, "r", plugins=()) as store:
        seen = bodies(store)
    with opened(killed.root) as store:
        found = bodies(store)
        store.put(reput.Message("orders", b"after"))

    assert found == seen
    assert found[-1] == b"before"
    assert require_healthy(killed.root)[-1].position == at


def _of_900(count):
    return [reput.Message("orders", b"x" * 900)] * count


def _left(root, to, messages):
    """What a kill leaves of a life in which these messages were put, and not flushed."""
    with opened(root) as store:
        store.put_many(messages)
        shutil.copytree(root, to)
    return to


def test_only_what_was_put_since_the_opening_is_cut_after_a_kill(tmp_path):
    log = written(tmp_path)
    with opened(log.root) as store:
        store.put_many(_of_900(40))
    (log.root / "lock").write_bytes(b"lock")  # a broker has it, and closes it
    log.spoil(log.offsets[5] + 90, b"spoilt")
    before = entries_in(log.root)

    killed = _left(log.root, tmp_path / "killed", _of_900(1))
    with opened(killed):
        pass

    assert entries_in(killed)[: len(before)] == before
    assert not list(killed.glob("reput/lost+found/*"))


def test_entries_of_a_closed_log_are_not_cut_as_the_last_one_was_changed(tmp_path):
    log = written(tmp_path)
    with opened(log.root) as store:
        end = store.put_many(_of_900(2)).physical_offsets
    for offset in (log.offsets[5], end[-1]):
        log.spoil(int(offset) + 100, b"spoilt")

    with reput.open(log.root, "r", plugins=()) as store:
        assert len(bodies(store)) == len(log.offsets)
    with pytest.raises(CorruptFileError, match="sound entries follow damage"):
        opened(log.root)


def test_remains_of_a_log_that_a_broker_has_cut_are_not_its_end(tmp_path):
    log = written(tmp_path)
    with opened(log.root) as store:
        store.put_many(_of_900(5))
    (log.root / "lock").write_bytes(b"lock")
    (log.root / "abort").touch()
    log.spoil(log.entries[-1], bytes(60))  # a broker has its end here, and left what follows

    with pytest.raises(CorruptFileError, match="sound entries follow damage"):
        opened(log.root)


def test_the_checkpoint_names_no_entry_that_a_power_cut_lost(tmp_path):
    log = written(tmp_path)
    (log.root / "abort").touch()
    at = log.entries[-3]
    log.spoil(at, bytes(log.file_size - at))

    killed = _left(log.root, tmp_path / "killed", _of_900(4))

    number = len(log.offsets) - 4
    text = (killed / "dledger-n0" / "checkpoint").read_text()
    assert text.startswith(f"committedIndex={number}\n")


def test_files_at_another_place_are_noticed(tmp_path):
    log = written(tmp_path)
    while log.position < log.file_size + 1_000:
        log.append(RECORDS[0])
    log.write()
    sorted(log.directory.iterdir())[-1].unlink()

    with pytest.raises(CorruptFileError, match="storePathDLedgerCommitLog"):
        opened(log.root)


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 9_000)),
        st.tuples(st.just("many"), st.lists(st.integers(0, 3_000), max_size=8)),
        st.tuples(st.just("whole"), st.lists(st.integers(0, 3_000), min_size=1, max_size=4)),
        st.tuples(st.sampled_from(["close", "kill", "read", "dispatch"]), st.just(0)),
    ),
    max_size=14,
)


@settings(deadline=None, max_examples=40)
@given(ACTIONS)
@pytest.mark.costly
def test_appends_and_reads_of_any_order_agree_with_a_list(actions):
    with tempfile.TemporaryDirectory() as folder:
        log = written(Path(folder))
        root, lives = log.root, 0
        with reput.open(root, "r", plugins=()) as reader:
            expected = bodies(reader)
        store, number = opened(root), 0
        for action, given_ in actions:
            sizes = given_ if isinstance(given_, list) else [given_]
            messages = [
                reput.Message("orders", b"%d" % (number + at) + b"z" * size, (number + at) % 2)
                for at, size in enumerate(sizes)
            ]
            if action == "put":
                store.put(messages[0])
            elif action in ("many", "whole"):
                store.put_many(messages, whole=action == "whole")
            elif action == "dispatch":
                store.wait_dispatched()
            elif action == "read":
                with reput.open(root, "r", plugins=()) as reader:
                    assert bodies(reader) == expected
            else:
                lives += 1
                after = Path(folder) / f"life-{lives}"
                if action == "close":
                    store.close()
                shutil.copytree(root, after)
                store.close()
                root, store = after, opened(after)
            if action in ("put", "many", "whole"):
                number += len(messages)
                expected += [bytes(each.body) for each in messages]
            assert bodies(store) == expected
        store.close()
        entries = require_healthy(root)
        assert [each.index for each in entries] == list(range(len(expected)))
        with reput.open(root, "r", plugins=["consumequeue"]) as store:
            found = [each.body for queue in (0, 1) for each in _queue(store, queue)]
        assert sorted(found) == sorted(expected)


def _queue(store, queue_id):
    start = 0
    while messages := store.read("orders", queue_id, start, max_count=64).messages:
        yield from messages
        start = messages[-1].queue_offset + 1


@pytest.mark.proof
@pytest.mark.shows("power-cut")
@pytest.mark.parametrize("flush", ["async", "sync"])
@pytest.mark.costly
def test_power_cuts_lose_nothing_that_was_promised(flush, tmp_path):
    log = written(tmp_path / "before")
    options = {"plugins": ["consumequeue"], "config": {"commitlog": {"flush": flush}}}
    known = ExpectedState(options).look(log.root)
    kept = [Sent(None, view.record, view.physical_offset) for view in known]
    witness = ExpectedState(options, kept, len(kept))
    cuts = PowerCuts(tmp_path / "cuts", tries=60)
    shutil.rmtree(log.folder / "index")  # which is large; a broker creates it again

    def life(witness, root):
        witness.open(root)
        for number in range(4):
            witness.put(reput.Message("orders", b"%d" % number * 1_500, queue_id=number % 2))
        witness.put_many([reput.Message("orders", b"m" * 700)] * 5)
        witness.flush()
        witness.put_many([reput.Message("orders", b"n" * 2_000)] * 7)
        witness.close()
        witness.open(root)
        witness.put(reput.Message("orders", b"last"))
        witness.close()

    def check(witness, point, root):
        witness.check_point(point, root)
        entries_in(Path(root))

    cuts.live(witness, life, check, again=(4,), content=log.root)

    cuts.check_tried(50)
