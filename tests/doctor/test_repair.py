"""`reput repair`: what it plans, makes and says; what is left of a repair that was interrupted."""

from __future__ import annotations

import json
import os
import re
import shutil

import pytest
from commands import commands
from zoo.cases import cases
from zoo.judging import wrong_in_log, wrong_in_queues
from zoo.stores import healthy, put_down

import reput
from reput.errors import StoreNotFoundError
from reput.files import Disk
from reput_testing import ManualClock, QuickDisk, snapshot, traces
from reput_tools.doctor import Severity, verify
from reput_tools.doctor.repair.backup import NoBackupError
from reput_tools.doctor.repair.diskspace import NoSpaceError
from reput_tools.doctor.repair.repairrun import (
    NotEmptyError,
    look_and_plan,
    repair,
    repair_in_place,
    undo,
)

pytestmark = [pytest.mark.usefixtures("quiet"), pytest.mark.shows("repair")]

CASES = {case.name: case for case in cases()}
SICK = "reput/several"
RENAMED = "reput/log-swapped"
"""Two files of the log have exchanged their names."""
SHIFTED = "rocketmq-4.8.0-slow/log-shifted"


@pytest.fixture
def sick(tmp_path):
    """Put down a case of the zoo; return its directory."""

    def put(name=SICK):
        put_down(CASES[name].make().files, tmp_path / "store")
        return tmp_path / "store"

    return put


@pytest.fixture
def run():
    with commands() as runner:
        yield runner


def contents(root):
    """Bytes of all files but the lock."""
    return {name: data for name, data in snapshot(root).items() if name != "lock"}


def is_served(root, name=SICK):
    case = CASES[name]
    with reput.open(root, "r") as store:
        found = case.make()
        wrong = [
            *wrong_in_log(store, healthy(case.store), found),
            *wrong_in_queues(store, healthy(case.store), found),
        ]
    return wrong == []


# --------------------------------------------------------------------------- what it makes


def test_a_repair_changes_nothing_in_the_damaged_store(sick, tmp_path):
    root = sick()
    before = traces(root)

    repair(root, tmp_path / "repaired")

    assert traces(root) == before


def test_a_lost_message_keeps_its_name_and_its_keys_in_the_ledger(sick, tmp_path):
    root = sick("reput/flip-body-middle")
    (harmed,) = CASES["reput/flip-body-middle"].make().harmed
    message = healthy("reput").records[harmed]

    repair(root, tmp_path / "repaired")

    with reput.open(tmp_path / "repaired", "r") as store:
        (loss,) = store.losses()
        assert (loss.topic, loss.queue_id) == (message.topic, message.queue_id)
        assert loss.queue_offset == message.queue_offset
        assert loss.keys == " ".join(message.keys)
        kept = (tmp_path / "repaired" / "reput" / "lost+found" / loss.kept).read_bytes()
    assert len(kept) == message.size
    assert kept != message.record


def test_queues_name_the_messages_of_a_file_that_is_gone(sick):
    root = sick("rocketmq-4.8.0-slow/log-missing-middle")
    gone = CASES["rocketmq-4.8.0-slow/log-missing-middle"].make().harmed
    origin = healthy("rocketmq-4.8.0-slow").records

    with look_and_plan(root) as plan:
        named = {part.start_offset: part for part in plan.lost if part.topic is not None}

    assert named.keys() == gone
    for offset, part in named.items():
        message = origin[offset]
        assert (part.topic, part.queue_id) == (message.topic, message.queue_id)
        assert part.queue_offset == message.queue_offset
    with_keys = [offset for offset in gone if origin[offset].keys]
    assert all(named[offset].key_hashes for offset in with_keys)
    assert any(notice.kind == "log-file.missing" for notice in plan.notices)


@pytest.mark.parametrize("field", ["size", "magic", "physical_offset", "queue_id", "queue_offset"])
def test_a_field_that_everything_else_tells_is_mended_and_nothing_is_lost(sick, tmp_path, field):
    name = f"rocketmq-4.8.0-slow/flip-{field}-middle"
    root = sick(name)
    (harmed,) = CASES[name].make().harmed

    done = repair(root, tmp_path / "repaired")

    assert [mend.field for mend in done.plan.mends] == [field]
    assert not done.plan.lost
    with reput.open(tmp_path / "repaired", "r") as store:
        assert store.get(harmed).record == healthy("rocketmq-4.8.0-slow").records[harmed].record
        assert not store.losses()


def test_a_renamed_queue_file_mends_no_header(sick):
    with look_and_plan(sick("rocketmq-4.8.0-slow/consumequeue-renamed")) as plan:
        assert plan.mends == ()


def test_offsets_of_consumers_beyond_the_end_are_put_to_the_end_and_the_others_stay(sick, tmp_path):
    root = sick("reput/config-beyond")
    before = json.loads(_quoted(healthy("reput").files["config/consumerOffset.json"]))

    done = repair(root, tmp_path / "repaired")

    after = (tmp_path / "repaired" / "config" / "consumerOffset.json").read_bytes()
    assert json.loads(_quoted(after)) == before
    assert [notice.kind for notice in done.plan.notices] == ["config.offset-beyond"]


def _quoted(data):
    return re.sub(rb"([{,]\s*)(\d+):", rb'\1"\2":', data)


def test_the_ledger_is_restored_from_the_records_that_fill_the_log(sick, tmp_path):
    root = sick("reput-history/state-missing")

    repair(root, tmp_path / "repaired")

    with reput.open(tmp_path / "repaired", "r") as store:
        (loss,) = store.losses()
    assert (loss.reason, loss.action) == ("BODY_CRC", "filled")
    assert loss.topic is not None


def test_a_queue_that_lost_its_last_messages_gives_no_queue_offset_twice(sick, tmp_path):
    name = "reput/log-missing-last"
    root = sick(name)
    gone = [healthy("reput").records[offset] for offset in CASES[name].make().harmed]
    ends = {}
    for message in gone:
        queue = message.topic, message.queue_id
        ends[queue] = max(ends.get(queue, 0), message.queue_offset + 1)

    repair(root, tmp_path / "repaired")

    with reput.open(tmp_path / "repaired", threads=False) as store:
        for (topic, queue_id), end in ends.items():
            assert store.put(reput.Message(topic, b"more", queue_id)).queue_offset >= end


# --------------------------------------------------------------------------- what it refuses


def test_a_directory_with_files_in_it_is_refused(sick, tmp_path):
    (tmp_path / "repaired").mkdir()
    (tmp_path / "repaired" / "notes").write_text("mine")

    with pytest.raises(NotEmptyError, match="notes"):
        repair(sick(), tmp_path / "repaired")

    assert (tmp_path / "repaired" / "notes").read_text() == "mine"


def test_too_little_space_is_noticed_before_anything_is_made(sick, tmp_path, monkeypatch):
    root = sick()
    monkeypatch.setattr(Disk, "usage", lambda self, path: (0, 1000))

    with pytest.raises(NoSpaceError, match="1,000 are free"):
        repair(root, tmp_path / "repaired")
    with pytest.raises(NoSpaceError):
        repair_in_place(root)

    assert os.listdir(tmp_path) == ["store"]


def test_a_store_that_is_open_is_refused(run, tmp_path):
    put_down(healthy("reput").files, tmp_path / "store")

    with reput.open(tmp_path / "store", threads=False):
        found = run("repair", tmp_path / "store", tmp_path / "repaired")

    assert found.code == 4
    assert not (tmp_path / "repaired").exists()


# --------------------------------------------------------------------------- in place


@pytest.mark.parametrize("name", [SICK, RENAMED, SHIFTED, "reput/log-grown"])
def test_a_repair_in_place_is_taken_back_to_the_byte(sick, tmp_path, name):
    root = sick(name)
    before = contents(root)

    done = repair_in_place(root, tmp_path / "kept")

    assert done.built is not None
    assert is_served(root, name)
    undo(root, tmp_path / "kept")
    assert contents(root) == before


def test_a_backup_serves_once_and_for_its_store_only(sick, tmp_path):
    root = sick()
    repair_in_place(root, tmp_path / "kept")
    put_down(healthy("reput").files, tmp_path / "other")

    with pytest.raises(NoBackupError, match="it is the backup of"):
        undo(tmp_path / "other", tmp_path / "kept")
    undo(root, tmp_path / "kept")
    with pytest.raises(NoBackupError, match="before"):
        undo(root, tmp_path / "kept")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"store": 1}', None])
def test_what_is_no_backup_is_refused(run, sick, tmp_path, text):
    root = sick()
    (tmp_path / "kept").mkdir()
    if text is not None:
        (tmp_path / "kept" / "backup.json").write_text(text)

    found = run("repair", root, "--undo", "--backup", tmp_path / "kept")

    assert found.code == 5
    assert "no backup" in found.err


# --------------------------------------------------------------------------- interrupted


class Killed(BaseException):
    """The process has ended: nothing is changed any more."""


CHANGES = (
    *("rename", "remove", "remove_directory", "write_some", "truncate", "replace"),
    *("make_one_directory", "create_fresh"),
)


class Mortal:
    """Ends everything at the n-th change of a file."""

    def __init__(self, monkeypatch, last):
        self.count, self.last = 0, last
        for name in CHANGES:
            monkeypatch.setattr(Disk, name, self._guarded(getattr(Disk, name)))

    def _guarded(self, change):
        def guarded(*arguments, **options):
            self.count += 1
            if self.last is not None and self.count > self.last:
                raise Killed
            return change(*arguments, **options)

        return guarded


def changes_of(monkeypatch, work):
    """How many changes a repair makes."""
    with monkeypatch.context() as patched:
        mortal = Mortal(patched, None)
        work()
    return mortal.count


def is_killed(monkeypatch, last, count, work):
    """Do ``work`` up to so many of its changes; return whether it was killed before its end.

    A store that is open meanwhile notes its progress as time goes by, so that a quick run may make
    a few changes less than the one that was counted.
    """
    with monkeypatch.context() as patched:
        Mortal(patched, last)
        try:
            work()
        except Killed:
            return True
    assert last >= count - 10
    return False


def places(count, many=8):
    """Places at which a repair is interrupted, spread over all of its changes."""
    return sorted(
        {*range(0, count, max(count // many, 1)), 1, 2, 3, count - 3, count - 2, count - 1}
    )


@pytest.mark.proof
@pytest.mark.parametrize("name", [SICK, SHIFTED])
@pytest.mark.costly
def test_an_interrupted_repair_is_refused_as_a_store_and_done_again(
    run, sick, tmp_path, monkeypatch, name
):
    root = sick(name)
    target = tmp_path / "repaired"
    count = changes_of(monkeypatch, lambda: repair(root, tmp_path / "first"))
    assert count > 60

    for last in places(count):
        if is_killed(monkeypatch, last, count, lambda: repair(root, target)):
            if os.path.exists(target / "unfinished"):
                with pytest.raises(StoreNotFoundError, match="do it again with: reput repair"):
                    reput.open(target)
                assert "not finished" in run("info", target).err
            repair(root, target)
        assert is_served(target, name)
        assert not os.path.exists(target / "unfinished")
        shutil.rmtree(target)


@pytest.mark.proof
@pytest.mark.parametrize("name", [SICK, RENAMED])
@pytest.mark.costly
def test_an_interrupted_repair_in_place_is_taken_back(sick, tmp_path, monkeypatch, name):
    root = sick(name)
    before = contents(root)
    count = changes_of(monkeypatch, lambda: repair_in_place(root, tmp_path / "first"))
    undo(root, tmp_path / "first")
    assert contents(root) == before

    for last in places(count):
        kept = tmp_path / f"kept-{last}"
        is_killed(monkeypatch, last, count, lambda kept=kept: repair_in_place(root, kept))
        if os.path.exists(root / "unfinished"):
            with pytest.raises(StoreNotFoundError, match="--undo"):
                reput.open(root)
        if os.path.exists(kept / "backup.json"):
            undo(root, kept)
        assert contents(root) == before, f"after {last} changes"


@pytest.mark.proof
@pytest.mark.costly
def test_an_interrupted_undo_is_finished_by_the_next_one(sick, tmp_path, monkeypatch):
    root = sick(RENAMED)
    before = contents(root)
    repair_in_place(root, tmp_path / "first")
    count = changes_of(monkeypatch, lambda: undo(root, tmp_path / "first"))

    for last in places(count):
        kept = tmp_path / f"kept-{last}"
        repair_in_place(root, kept)
        with monkeypatch.context() as patched:
            Mortal(patched, last)
            with pytest.raises(Killed):
                undo(root, kept)
        undo(root, kept)
        assert contents(root) == before, f"after {last} changes"


# --------------------------------------------------------------------------- the command


def test_a_dry_run_shows_the_plan_and_changes_nothing(run, sick, tmp_path):
    root = sick()
    before = traces(root)

    shown = run("repair", root, tmp_path / "repaired", "--dry-run")
    told = run("repair", root, "--dry-run", "--json")

    assert shown.code == told.code == 8
    assert "Nothing was changed" in shown.out
    document = json.loads(told.out)
    assert document["lost_message_count"] == len(CASES[SICK].make().harmed)
    assert {each["action"] for each in document["lost"]} == {"filled"}
    files = {each["file"] for each in document["files"]}
    assert files >= {"checkpoint", "config/topics.json"}
    assert document["needed_size"] > 0
    assert traces(root) == before
    assert not (tmp_path / "repaired").exists()


def test_the_command_repairs_and_finds_nothing_the_second_time(run, sick, tmp_path):
    first = run("repair", sick(), tmp_path / "repaired", "--json")
    second = run("repair", tmp_path / "repaired", tmp_path / "again")

    assert first.code == 8
    assert json.loads(first.out)["target"] == str(tmp_path / "repaired")
    assert second.code == 0
    assert "Nothing to do" in second.out


def test_in_place_and_undo_say_what_to_do_next(run, sick, tmp_path):
    root = sick("reput/flip-queue_id-middle")

    mended = run("repair", root, "--in-place")
    back = run("repair", root, "--undo")

    assert mended.code == back.code == 0
    assert f"reput repair {root} --undo --backup {root}.backup" in mended.out
    assert "is as it was before the repair" in back.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "NEW_DIRECTORY is missing"),
        (["new", "--in-place"], "not both"),
        (["new", "--undo"], "--undo takes"),
        (["new", "--backup", "kept"], "--backup belongs to"),
    ],
)
def test_a_wrong_command_line_does_nothing(run, sick, arguments, says):
    found = run("repair", sick(), *arguments)

    assert found.code == 2
    assert says in found.err


# --------------------------------------------------------------------------- little that is left

ORIGIN = healthy("reput")
LOG = {name: data for name, data in ORIGIN.files.items() if name.startswith("commitlog/")}
LITTLE = {
    "no log file": {"commitlog/notes": b"mine"},
    "empty log files": dict.fromkeys(LOG, b""),
    "log files of zeros": dict.fromkeys(LOG, bytes(4096)),
    "log files of noise": {name: bytes(range(1, 256)) * 17 for name in LOG},
    "one cut log file": {"commitlog/00000000000000000000": next(iter(LOG.values()))[:3000]},
}


@pytest.mark.parametrize("left", LITTLE)
def test_whatever_is_left_of_a_log_is_mended_and_gives_no_queue_offset_twice(tmp_path, left):
    others = {name: data for name, data in ORIGIN.files.items() if name not in LOG}
    put_down({**others, **LITTLE[left]}, tmp_path / "store")
    ends = {queue: max(offsets) + 1 for queue, offsets in ORIGIN.queues().items()}

    done = repair(tmp_path / "store", tmp_path / "repaired")

    assert done.built is not None
    assert repair(done.target, tmp_path / "again").built is None
    with reput.open(done.target, threads=False) as store:
        for (topic, queue_id), end in ends.items():
            assert store.put(reput.Message(topic, b"more", queue_id)).queue_offset == end


@pytest.mark.costly
def test_a_log_without_anything_beside_it_is_a_store_again(tmp_path):
    origin = healthy("rocketmq-4.8.0-slow")
    log = {name: data for name, data in origin.files.items() if name.startswith("commitlog/")}
    put_down(log, tmp_path / "store")

    done = repair(tmp_path / "store", tmp_path / "repaired")

    with reput.open(done.target, "r") as store:
        counts = {(each.topic, each.queue_id): each.message_count for each in store.queues()}
    assert counts == {queue: len(offsets) for queue, offsets in origin.queues().items()}


def test_empty_log_files_of_a_broker_are_an_empty_log(tmp_path):
    origin = healthy("rocketmq-4.8.0-v6")
    put_down({**origin.files, **dict.fromkeys(origin.log_names, b"")}, tmp_path / "store")

    done = repair(tmp_path / "store", tmp_path / "repaired")

    assert {each.kind for each in done.plan.notices} >= {"log-file.strange"}


def test_files_that_are_missing_after_one_that_is_not_full_are_filled_one_by_one(tmp_path):
    log = dict(LOG)
    first, *gone, last = sorted(LOG)[1:5]
    log[first] = log[first][:-1_000] + bytes(1_000)
    for name in gone:
        del log[name]
    others = {name: data for name, data in ORIGIN.files.items() if name not in LOG}
    put_down({**others, **log}, tmp_path / "store")

    done = repair(tmp_path / "store", tmp_path / "repaired")

    assert {each.file for each in done.plan.notices if each.kind == "log-file.missing"} == {*gone}
    with reput.open(done.target, "r") as store:
        assert store.get(int(last[-20:])).record == ORIGIN.records[int(last[-20:])].record
    worst = verify(done.target, jobs=1).worst
    assert worst is None or worst == Severity.NOTICE


@pytest.mark.parametrize("damaged", ["checkpoint", "note"])
def test_compacted_messages_that_are_older_than_the_log_are_kept(tmp_path, damaged):
    pytest.importorskip("reput_compaction")
    root = tmp_path / "store"
    config = {"commitlog": {"file_size": 4096}, "compaction": {"topics": ["facts"]}}
    with reput.open(
        root, plugins=["consumequeue", "compaction"], config=config, threads=False, disk=QuickDisk()
    ) as store:
        for number in range(24):
            store.put(reput.Message("facts", b"%d" % number, keys=f"k{number % 9}"))
        store.put_many([reput.Message("orders", b"x" * 900) for _ in range(10)])
        store.wait_dispatched()
        store.plugin("compaction").compact()
        store.flush()
        store.wait_dispatched()
        store.flush()
        assert store.trim_log(8192).min_physical_offset == 8192
    if damaged == "checkpoint":
        (root / "checkpoint").write_bytes(b"short")
    else:
        (note,) = (root / "reput/compaction/facts/0").glob("0*")
        data = bytearray(note.read_bytes())
        data[36:40] = b"\x7f" * 4  # the queue offset of the third message
        note.write_bytes(data)

    repair(root, tmp_path / "repaired", jobs=1)

    with reput.open(tmp_path / "repaired", "r") as store:
        found = [view.body for view in store.read("facts", 0, 0, 100)]
    assert found == [b"%d" % number for number in range(15, 24)]
    findings = verify(tmp_path / "repaired", jobs=1).findings
    assert not [each for each in findings if each.severity > 0]


@pytest.mark.parametrize("damaged", ["checkpoint", "records", "head"])
def test_compacted_messages_stay_and_superseded_ones_do_not_come_back(tmp_path, damaged):
    pytest.importorskip("reput_compaction")
    root = tmp_path / "store"
    config = {"commitlog": {"file_size": 8192}, "compaction": {"topics": ["facts"]}}
    plugins = ["consumequeue", "compaction"]
    with reput.open(root, plugins=plugins, config=config, threads=False, disk=QuickDisk()) as store:
        for number in range(24):
            store.put(reput.Message("facts", b"%d" % number, queue_id=0, keys=f"k{number % 9}"))
        store.wait_dispatched()
        store.plugin("compaction").compact()
        places = [
            place
            for each in store.scan()
            for place in zip(each.physical_offset.tolist(), each.size.tolist(), strict=True)
        ]
    ranges = {"records": places[15:20], "head": [(0, places[17][0])]}
    log = root / "commitlog" / ("0" * 20)
    data = bytearray(log.read_bytes())
    for start, size in ranges.get(damaged, []):
        data[start : start + size] = bytes(size)
    log.write_bytes(data)
    if damaged == "checkpoint":
        (root / "checkpoint").write_bytes(b"short")

    done = repair(root, tmp_path / "repaired", jobs=1)

    assert done.built
    with reput.open(tmp_path / "repaired", "r") as store:
        found = [view.body for view in store.read("facts", 0, 0, 100)]
    assert found == [b"%d" % number for number in range(15, 24)]


def test_a_plugin_that_was_suspended_stays_suspended(sick, tmp_path):
    root = sick("reput/flip-body-middle")
    with reput.open(root, threads=False) as store:
        name = store.plugins()[0].name
        store.suspend_plugin(name)
    (root / "checkpoint").write_bytes(b"short")

    repair(root, tmp_path / "repaired", jobs=1)

    with reput.open(tmp_path / "repaired", "r") as store:
        states = {each.name: str(each.state) for each in store.plugins()}
    assert [each for each, state in states.items() if state == "suspended"] == [name]


def test_a_search_by_time_stays_right_where_the_clock_was_set_back(tmp_path):
    root, clock = tmp_path / "store", ManualClock()
    with reput.open(
        root, plugins=["consumequeue"], clock=clock, threads=False, disk=QuickDisk()
    ) as store:
        for step in (1_000, 1_000, 1_000, -7_200_000, 1_000, 1_000):
            store.put(reput.Message("Topic", queue_id=0))
            clock.now += step
    (root / "checkpoint").write_bytes(b"short")

    repair(root, tmp_path / "repaired", jobs=1)

    times = range(clock() - 10_000, clock() + 7_210_000, 500_000)
    with reput.open(root, "r") as before, reput.open(tmp_path / "repaired", "r") as after:
        found = [before.offset_by_time("Topic", 0, each) for each in times]
        assert [after.offset_by_time("Topic", 0, each) for each in times] == found


@pytest.mark.parametrize(
    "name",
    [
        "config/topics.json",
        "consumequeue/orders/0/00000000000000000000",
        "index",
        "checkpoint",
        "reput/state",
    ],
)
def test_a_directory_in_the_place_of_a_file_is_left_out(tmp_path, name):
    name = min(each for each in ORIGIN.files if each.startswith(name))
    files = {**ORIGIN.files, f"{name}/inside": b"mine"}
    del files[name]
    put_down(files, tmp_path / "store")

    done = repair(tmp_path / "store", tmp_path / "repaired", jobs=1)

    assert ("store.not-a-file", name) in [(each.kind, each.file) for each in done.plan.notices]
    assert verify(done.target, jobs=1).worst in (None, Severity.NOTICE)
    if name == "checkpoint":
        before = contents(tmp_path / "store")
        repair_in_place(tmp_path / "store", jobs=1)
        assert verify(tmp_path / "store", jobs=1).worst is None
        undo(tmp_path / "store")
        assert contents(tmp_path / "store") == before
