"""Writes that are cut short: at every step of publishing, and before it."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import pytest
from writtenstores import FILE_SIZE, NOW, bodies_of, planned, rows_of, table_of, write, written

import reput
from reput.files import Disk
from reput_arrow import columns_of
from reput_arrow.logwriter.publication import journal
from reput_arrow.logwriter.publication import publicationtarget as stands
from reput_arrow.logwriter.publication.commit import abort_write, commit_write, intent_of
from reput_arrow.logwriter.publication.journal import Intent, load_writes
from reput_arrow.logwriter.publication.publish import publish
from reput_arrow.logwriter.publication.recovery import take_back
from reput_arrow.logwriter.stagingdirectories import (
    STALE_MS,
    is_vacant,
    sweep,
)
from reput_spark import SparkReputError
from reput_testing import PowerCuts
from reput_testing.casebudget import is_soak
from reput_testing.disks.simulateddisk import SimulatedDisk
from reput_tools.offline import LocalEngine


class Killed(BaseException):
    """The process ended here."""


class DyingDisk(Disk):
    """Does so many changes once it is armed, and none after them; locks go as with a process."""

    def __init__(self, changes):
        self.left = changes
        self.armed = False
        self.done = []

    def _change(self, what):
        if self.armed:
            if self.left <= 0:
                self.left = -1
                raise Killed(what)
            self.left -= 1
            self.done.append(what)

    def write(self, descriptor, data, position):
        self._change("write")
        super().write(descriptor, data, position)

    def rename(self, source, target):
        self._change(f"rename {target}")
        super().rename(source, target)

    def remove(self, path):
        self._change(f"remove {path}")
        super().remove(path)

    def remove_directory(self, path):
        self._change(f"remove {path}")
        super().remove_directory(path)


class Arming(LocalEngine):
    """Numbers files, and arms the disk behind that."""

    def __init__(self, disk):
        super().__init__(1)
        self.disk = disk

    def run(self, work, tasks, told=lambda size: None):
        results = super().run(work, tasks, told)
        self.disk.armed = True
        return results


PARTITIONS = [[rows_of(0, 200)], [rows_of(1, 50)], [rows_of(2, 50)]]
BODIES = [body for (each,) in PARTITIONS for body in each.column("body").to_pylist()]
SMALL = {"file_size": FILE_SIZE}
OLD = rows_of(9, 30)
OLD_BODIES = OLD.column("body").to_pylist()
AGAIN = rows_of(8, 7)
AGAIN_BODIES = AGAIN.column("body").to_pylist()


def killed_after(root, changes, name="first"):
    """Kill a write after some changes behind its numbering; the disk, and whether it was."""
    disk = DyingDisk(changes)
    plan = planned(root, write_id=name)
    intent = intent_of(plan, written(plan, PARTITIONS))
    try:
        with Arming(disk) as engine:
            publish(str(root), intent, engine, disk=disk, clock=lambda: NOW)
    except Killed:
        return disk, True
    return disk, False


@pytest.fixture(scope="module")
def closed_store(tmp_path_factory):
    """Copies a closed store of one file, with one plugin, for opening all of them takes longer."""
    made = tmp_path_factory.mktemp("made") / "store"
    config = {"commitlog": {"file_size": FILE_SIZE}}
    with reput.open(made, plugins={"consumequeue"}, config=config) as store:
        store.put_many(columns_of(OLD))
    return lambda root: Path(shutil.copytree(made, root))


@pytest.fixture(scope="module")
def change_count(tmp_path_factory, closed_store):
    """How many changes publishing makes in a store of one file."""
    root = closed_store(tmp_path_factory.mktemp("count") / "store")
    disk, was_killed = killed_after(root, 1_000)
    assert not was_killed
    return len(disk.done)


def offsets_are_gapless(root):
    found = {}
    for row in table_of(root, ["topic", "queue_id", "queue_offset"]).to_pylist():
        key = row["topic"], row["queue_id"]
        assert row["queue_offset"] == found.get(key, 0)
        found[key] = row["queue_offset"] + 1


@pytest.mark.shows("spark-copies")
def test_wherever_a_write_is_killed_the_log_is_valid_and_the_next_write_settles_it(
    tmp_path, change_count, closed_store, caplog
):
    # The order of the changes is always the same; each is a place to be killed at.
    assert change_count > 15
    seen = set()
    for changes in range(change_count):
        root = closed_store(tmp_path / f"store{changes}")
        _, was_killed = killed_after(root, changes)
        assert was_killed
        had_intent = Intent.load(str(root), Disk()) is not None

        shown = bodies_of(root)
        assert shown[:30] == OLD_BODIES
        assert shown[30:] == BODIES[: len(shown) - 30]
        caplog.clear()
        with caplog.at_level(logging.WARNING, "reput_spark"):
            write(root, [[AGAIN]], write_id="second")

        said = [record.getMessage() for record in caplog.records]
        told_back = any("took back a write that was cut short name=first" in each for each in said)
        finished = any("finishing a write that was cut short name=first" in each for each in said)
        expected = OLD_BODIES + (BODIES if len(shown) > 30 else []) + AGAIN_BODIES
        assert bodies_of(root) == expected
        assert not (told_back and len(shown) > 30)
        assert not (finished and len(shown) == 30)
        offsets_are_gapless(root)
        assert Intent.load(str(root), Disk()) is None
        # Without an intent nobody can tell it from a write that is under way, but by the clock.
        left = list((root / "reput" / "spark").glob("write-*"))
        assert not (left and had_intent)
        assert told_back or finished or not had_intent
        seen.add("back" if told_back else "finished" if finished else "neither")
    assert seen == {"back", "finished", "neither"}


def test_wherever_a_first_write_is_killed_there_is_a_valid_log_or_none(tmp_path):
    seen = set()
    for changes in (0, 4, 8, 12, 16):
        root = tmp_path / f"store{changes}"
        _, was_killed = killed_after(root, changes)
        assert was_killed
        shown = bodies_of(root) if (root / "commitlog").exists() else []
        assert shown == BODIES[: len(shown)]
        seen.add(len(shown))

        write(root, [[AGAIN]], write_id="second")

        assert bodies_of(root) == (BODIES if shown else []) + AGAIN_BODIES
    assert len(seen) > 1


class Simulated(LocalEngine):
    """Numbers files on a disk whose power may go."""

    def __init__(self, disk):
        super().__init__(1)
        self.disk = disk

    def run(self, work, tasks, told=lambda size: None):
        results = [work(task, told, disk=self.disk) for task in tasks]
        self.point_count = len(self.disk.points)
        return results


@pytest.mark.shows("spark-copies")
@pytest.mark.usefixtures("quiet")
def test_a_power_cut_leaves_the_old_log_and_a_beginning_of_what_was_to_follow(
    tmp_path, closed_store, record_property
):
    root = closed_store(tmp_path / "disk" / "store")
    plan = planned(root)
    intent = intent_of(plan, written(plan, PARTITIONS))
    disk = SimulatedDisk(tmp_path / "disk")
    engine = Simulated(disk)
    publish(str(root), intent, engine, disk=disk)
    seen = set()

    def check(state, directory):
        shown = bodies_of(directory / "store")
        assert shown[:30] == OLD_BODIES
        assert shown[30:] == BODIES[: len(shown) - 30]
        seen.add(len(shown))

    cuts = PowerCuts(tmp_path / "states", most=4, random_count=1)
    # Telling what states there are takes longer than trying them: some of the points, then.
    points = disk.points[engine.point_count :]
    cuts.try_all(points if is_soak() else points[4::9], check)

    record_property("crash states", cuts.tried_count)
    assert {30, 330} <= seen


@pytest.mark.shows("spark-copies")
@pytest.mark.parametrize("changes", [6, 7])
def test_what_others_put_meanwhile_stays_between(tmp_path, closed_store, changes):
    root = closed_store(tmp_path / "store")
    killed_after(root, changes)
    shown = bodies_of(root)
    assert 30 < len(shown) < 330

    with reput.open(root) as store:
        store.put(reput.Message("T0", b"between"))
    write(root, [[AGAIN]])

    assert bodies_of(root) == [*shown, b"between", *BODIES[len(shown) - 30 :], *AGAIN_BODIES]
    offsets_are_gapless(root)


def test_a_named_write_counts_once(tmp_path):
    root = tmp_path / "store"
    for _ in range(3):
        write(root, PARTITIONS, write_id="day-1")
    write(root, [[AGAIN]], write_id="day-2")

    assert bodies_of(root) == BODIES + AGAIN_BODIES
    writes = load_writes(str(root), Disk())
    assert list(writes) == ["day-1", "day-2"]
    assert writes["day-1"].record_count == 300


def test_a_write_that_is_published_is_not_written_again(tmp_path):
    root = tmp_path / "store"
    write(root, PARTITIONS, write_id="day-1")

    tasks = written(planned(root, write_id="day-1"), PARTITIONS)

    assert [task.record_count for task in tasks] == [0, 0, 0]


def test_names_outlive_writes_without_one(tmp_path, monkeypatch):
    monkeypatch.setattr(journal, "_KEPT", 3)
    root = tmp_path / "store"
    write(root, [[OLD]], write_id="daily")
    for _ in range(4):
        write(root, [[AGAIN]])
    assert len(load_writes(str(root), Disk())) == 3

    write(root, [[OLD]], write_id="daily")
    assert bodies_of(root) == OLD_BODIES + AGAIN_BODIES * 4

    for name in ("a", "b", "c"):
        write(root, [[AGAIN]], write_id=name)
    assert list(load_writes(str(root), Disk())) == ["a", "b", "c"]


class FailingDisk(Disk):
    """Fails at changes that are told by a part of their path, once some were done."""

    def __init__(self, part, after=0, behind=0):
        self.part = part
        self.left = after
        self.waits = behind  # for so many files to get their names

    def _fail(self, path):
        if self.waits <= 0 and self.part in path:
            self.left -= 1
            if self.left < 0:
                raise OSError(39, "not now", path)

    def open(self, path, *, create=False, write=False, fresh=False):
        if write and path.endswith(self.part):  # a note that is written in place
            self._fail(path)
        return super().open(path, create=create, write=write, fresh=fresh)

    def rename(self, source, target):
        self._fail(target)
        self.waits -= "/commitlog/" in target
        super().rename(source, target)

    def remove(self, path):
        self._fail(path)
        super().remove(path)

    def remove_directory(self, path):
        self._fail(path)
        super().remove_directory(path)


def published_on(root, disk, partitions=PARTITIONS, **options):
    """Publish a write by a disk; what became of it."""
    plan = planned(root, **options)
    intent = intent_of(plan, written(plan, partitions))
    with LocalEngine(1) as engine:
        return publish(str(root), intent, engine, disk=disk, clock=lambda: NOW)


@pytest.mark.parametrize("part", ["/write-", "publish.json", "writes.json", "reput/state"])
def test_what_fails_behind_the_last_name_fails_no_write(tmp_path, closed_store, part):
    root = closed_store(tmp_path / "store")

    plan = planned(root, write_id="first")
    intent = intent_of(plan, written(plan, PARTITIONS))
    disk = FailingDisk(part, behind=len(intent.segments))
    with LocalEngine(1) as engine:
        done = publish(str(root), intent, engine, disk=disk, clock=lambda: NOW)

    assert disk.left < 0
    assert done.record_count == 300
    assert bodies_of(root) == OLD_BODIES + BODIES
    write(root, PARTITIONS, write_id="first")
    write(root, [[AGAIN]])
    assert bodies_of(root) == OLD_BODIES + BODIES + AGAIN_BODIES
    assert Intent.load(str(root), Disk()) is None
    assert load_writes(str(root), Disk())["first"].record_count == 300


def test_a_file_that_comes_while_it_is_cleared_up_fails_no_write(tmp_path, closed_store):
    root = closed_store(tmp_path / "store")

    class Late(Disk):
        def remove_directory(self, path):
            if Path(path).name.startswith("write-"):
                (Path(path) / "000000-late-000000").touch()  # by an attempt that does not count
            super().remove_directory(path)

    assert published_on(root, Late()).record_count == 300
    assert bodies_of(root) == OLD_BODIES + BODIES


@pytest.mark.parametrize("names", [1, 3])
def test_the_receipt_of_a_write_that_was_finished_later_is_that_of_all_of_it(
    tmp_path, closed_store, names
):
    root = closed_store(tmp_path / "store")
    files = len(intent_of(plan := planned(root), written(plan, PARTITIONS)).segments)
    abort_write(plan)
    after = names if names < files else files
    with pytest.raises(OSError, match="not now"):
        published_on(root, FailingDisk("/commitlog/", after=after), write_id="first")

    done = published_on(root, Disk(), write_id="first")

    assert done.was_there
    assert (done.record_count, done.start_offset) == (300, FILE_SIZE)
    with reput.open(root, "r", plugins=()) as store:
        assert done.end_offset == store.log.max_physical_offset


def cut_short(root, after, **options):
    """A write whose publishing fails behind so many names; its staging directory."""
    before = set((root / "reput" / "spark").glob("write-*"))
    with pytest.raises(OSError, match="not now"):
        published_on(root, FailingDisk("/commitlog/", after=after), write_id="first", **options)
    (staging,) = set((root / "reput" / "spark").glob("write-*")) - before
    return staging


def test_staged_files_that_are_gone_are_not_taken_for_published_ones(tmp_path, closed_store):
    root = closed_store(tmp_path / "store")
    shutil.rmtree(cut_short(root, 0))

    done = published_on(root, Disk(), write_id="first")

    assert done.taken_back == ("first",)
    assert not done.was_there
    assert bodies_of(root) == OLD_BODIES + BODIES


def test_a_write_part_of_which_is_gone_stops_the_next_one(tmp_path, closed_store):
    root = closed_store(tmp_path / "store")
    staging = cut_short(root, 1)
    moved = Path(shutil.move(staging, tmp_path / "aside"))
    shown = bodies_of(root)
    assert 30 < len(shown) < 330

    with pytest.raises(SparkReputError, match=r"\[REPUT_DATA_LOSS\] .*1 of its files in the log"):
        write(root, [[AGAIN]])
    assert bodies_of(root) == shown

    shutil.move(moved, staging)
    write(root, [[AGAIN]])
    assert bodies_of(root) == OLD_BODIES + BODIES + AGAIN_BODIES


def test_what_others_put_in_the_place_of_a_file_that_is_gone_is_not_taken_for_it(
    tmp_path, closed_store
):
    root = closed_store(tmp_path / "store")
    shutil.rmtree(cut_short(root, 0))
    with reput.open(root) as store:
        while store.log.max_physical_offset < 3 * FILE_SIZE:
            store.put(reput.Message("T0", bytes(500)))
    shown = bodies_of(root)

    done = published_on(root, Disk(), write_id="first")

    assert done.taken_back == ("first",)
    assert bodies_of(root) == shown + BODIES


def test_a_file_of_a_write_that_was_removed_as_the_oldest_of_the_log_was_published(
    tmp_path, closed_store
):
    root = closed_store(tmp_path / "store")
    cut_short(root, 2)
    log = root / "commitlog"
    with reput.open(root) as store:
        store.put(reput.Message("T0", b"between"))
    for name in sorted(each.name for each in log.iterdir())[:2]:
        (log / name).unlink()

    write(root, PARTITIONS, write_id="first")

    writes = load_writes(str(root), Disk())
    assert writes["first"].record_count == 300


def test_taking_back_leaves_the_intent_of_another_write(tmp_path, closed_store, monkeypatch):
    root = closed_store(tmp_path / "store")
    first = cut_short(root, 0).name
    load = Intent.load.__func__
    found = []

    def loaded(cls, root_, disk):
        intent = load(cls, root_, disk)
        if not found:
            # Behind this look, another write settles the intent and is cut short itself.
            found.append(intent)
            plan = planned(root, write_id="second")
            other = intent_of(plan, written(plan, PARTITIONS))
            failing = FailingDisk("/commitlog/", after=1)
            with pytest.raises(OSError, match="not now"), LocalEngine(1) as engine:
                publish(str(root), other, engine, disk=failing, clock=lambda: NOW)
        return intent

    monkeypatch.setattr(Intent, "load", classmethod(loaded))
    take_back(str(root), first)

    assert Intent.load(str(root), Disk()).name == "second"
    write(root, [[AGAIN]])
    assert bodies_of(root) == OLD_BODIES + BODIES + AGAIN_BODIES


def test_nobody_publishes_while_a_write_is_taken_back(tmp_path, closed_store, monkeypatch):
    root = closed_store(tmp_path / "store")
    plan = planned(root, write_id="second")
    other = intent_of(plan, written(plan, PARTITIONS))
    first = cut_short(root, 0).name
    remove = Intent.remove.__func__
    said = []

    def removed(cls, root_, disk):
        if not said:
            said.append(None)
            failing = FailingDisk("/commitlog/", after=1)
            try:
                with LocalEngine(1) as engine:
                    publish(str(root), other, engine, disk=failing, clock=lambda: NOW)
            except (SparkReputError, OSError) as error:
                said[0] = error
        remove(cls, root_, disk)

    monkeypatch.setattr(Intent, "remove", classmethod(removed))

    assert take_back(str(root), first)
    assert said[0].code == "LOCKED"
    assert bodies_of(root) == OLD_BODIES


def test_nobody_takes_back_while_another_write_has_the_lock(tmp_path, closed_store):
    root = closed_store(tmp_path / "store")
    first = cut_short(root, 0)

    with reput.open(root):
        assert not take_back(str(root), first.name)

    assert Intent.load(str(root), Disk()).staging == first.name
    assert take_back(str(root), first.name)
    assert bodies_of(root) == OLD_BODIES


def test_an_intent_that_nobody_could_read_again_is_not_saved(tmp_path, closed_store, monkeypatch):
    root = closed_store(tmp_path / "store")
    monkeypatch.setattr(journal, "_SIZE_LIMIT", 300)

    with pytest.raises(SparkReputError, match=r"publish\.json: \d+ bytes.*fewer tasks"):
        write(root, PARTITIONS)

    assert bodies_of(root) == OLD_BODIES


# ---------------------------------------------------------------------- abort


def test_abort_leaves_nothing_where_nothing_was(tmp_path):
    root = tmp_path / "store"
    plan = planned(root)
    written(plan, PARTITIONS)

    abort_write(plan)

    assert list(tmp_path.iterdir()) == []


def test_abort_leaves_a_directory_that_was_there(tmp_path):
    plan = planned(tmp_path)
    written(plan, PARTITIONS)

    abort_write(plan)

    assert list(tmp_path.iterdir()) == []


def test_abort_leaves_a_store_as_it_was(tmp_path, closed_store):
    root = closed_store(tmp_path / "store")
    before = sorted(str(path) for path in root.rglob("*"))
    plan = planned(root)
    written(plan, PARTITIONS)

    abort_write(plan)

    assert sorted(str(path) for path in root.rglob("*")) == before
    assert bodies_of(root) == OLD_BODIES


def test_files_of_attempts_that_do_not_count_are_not_published(tmp_path):
    plan = planned(tmp_path / "store")
    written(plan, PARTITIONS)  # attempts that died, or were too late
    tasks = written(plan, PARTITIONS)

    commit_write(plan, tasks)

    assert bodies_of(tmp_path / "store") == BODIES
    assert [each.name for each in (tmp_path / "store" / "reput" / "spark").iterdir()] == [
        "writes.json"
    ]


@pytest.mark.parametrize("changes", [1, 5, 7, 9, 13])
def test_abort_behind_a_commit_that_failed_keeps_what_is_published(tmp_path, closed_store, changes):
    root = closed_store(tmp_path / "store")
    disk = DyingDisk(changes)
    plan = planned(root)
    intent = intent_of(plan, written(plan, PARTITIONS))
    with pytest.raises(Killed), Arming(disk) as engine:
        publish(str(root), intent, engine, disk=disk)
    shown = bodies_of(root)

    abort_write(plan)

    assert bodies_of(root) == shown
    staged = list((root / "reput" / "spark").glob("write-*"))
    assert bool(staged) == (len(shown) > 30)
    write(root, [[AGAIN]])
    rest = [] if len(shown) == 30 else BODIES
    assert bodies_of(root) == OLD_BODIES + rest + AGAIN_BODIES


def test_a_new_store_whose_write_fails_is_not_there(tmp_path):
    plan = planned(tmp_path / "store")
    tasks = written(plan, PARTITIONS)
    directory = tmp_path / "store" / "reput" / "spark" / plan.staging
    (directory / tasks[1].segments[0].name).unlink()

    with pytest.raises(SparkReputError, match=r"\[REPUT_JOB\]"):
        commit_write(plan, tasks)
    abort_write(plan)

    assert list(tmp_path.iterdir()) == []


def test_a_new_store_whose_first_file_gets_no_name_is_not_there(tmp_path):
    root = tmp_path / "store"
    plan = planned(root)
    intent = intent_of(plan, written(plan, PARTITIONS))

    with pytest.raises(OSError, match="not now"), LocalEngine(1) as engine:
        publish(str(root), intent, engine, disk=FailingDisk("/commitlog/"))
    abort_write(plan)

    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_as_it_was_written_is_not_published(tmp_path, closed_store):
    root = closed_store(tmp_path / "store")
    plan = planned(root)
    tasks = written(plan, PARTITIONS)
    path = root / "reput" / "spark" / plan.staging / tasks[1].segments[0].name
    path.write_bytes(path.read_bytes()[:-1])

    with pytest.raises(SparkReputError, match="cut"):
        commit_write(plan, tasks)
    abort_write(plan)

    assert bodies_of(root) == OLD_BODIES


@pytest.mark.parametrize("at", [0, 4, 5_000])
def test_a_file_whose_bytes_have_not_come_to_the_disk_is_not_published(tmp_path, closed_store, at):
    root = closed_store(tmp_path / "store")
    plan = planned(root)
    tasks = written(plan, PARTITIONS)
    path = root / "reput" / "spark" / plan.staging / tasks[0].segments[0].name
    data = bytearray(path.read_bytes())
    count = 4 if at < 5 else 1_000
    data[at : at + count] = bytes(count)
    path.write_bytes(data)

    with pytest.raises(SparkReputError, match=r"\[REPUT_DAMAGED\] .*has not come to the disk"):
        commit_write(plan, tasks)
    abort_write(plan)

    assert bodies_of(root) == OLD_BODIES


def test_taking_back_what_is_not_there_does_nothing(tmp_path):
    write(tmp_path / "store", [[OLD]])

    assert take_back(str(tmp_path / "store"), f"write-{'0' * 32}")

    assert bodies_of(tmp_path / "store") == OLD_BODIES


# ---------------------------------------------------------------------- what is left lying


def test_what_a_dead_write_has_left_is_swept_when_it_is_old(tmp_path):
    root = tmp_path / "store"
    plan = planned(root)
    written(plan, PARTITIONS)
    disk = Disk()
    staging = root / "reput" / "spark" / plan.staging
    newest = max(disk.modified_ms(str(path)) for path in [staging, *staging.iterdir()])

    assert sweep(str(root), disk, set(), lambda: (newest + STALE_MS) / 1_000) == []
    assert sweep(str(root), disk, {plan.staging}, lambda: (newest + 2 * STALE_MS) / 1_000) == []
    assert sweep(str(root), disk, set(), lambda: (newest + STALE_MS + 1) / 1_000) == [plan.staging]

    assert not staging.exists()


def test_what_others_keep_beside_is_not_swept(tmp_path):
    root = tmp_path / "store"
    other = root / "reput" / "spark" / "query-1"
    other.mkdir(parents=True)
    (other / "segment").write_bytes(b"x")

    assert sweep(str(root), Disk(), set(), lambda: 1e12) == []

    assert (other / "segment").exists()
    assert not is_vacant(str(root), Disk())


def test_two_writes_at_once_follow_one_another(tmp_path):
    root = tmp_path / "store"
    first, second = planned(root), planned(root)
    tasks = written(first, PARTITIONS), written(second, [[AGAIN]])

    commit_write(second, tasks[1])
    commit_write(first, tasks[0])

    assert bodies_of(root) == AGAIN_BODIES + BODIES
    offsets_are_gapless(root)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"format": 2}',
        '{"format": 1, "tasks": [{"partition": 0, "segments": [{"name": "../x"}]}]}',
        '{"format": 1, "tasks": 7}',
    ],
)
def test_an_intent_that_is_none_is_not_acted_on(tmp_path, text):
    root = tmp_path / "store"
    write(root, [[OLD]])
    path = root / "reput" / "spark" / "publish.json"
    path.write_text(text)

    with pytest.raises(SparkReputError, match=r"publish\.json"):
        write(root, [[AGAIN]])

    assert bodies_of(root) == OLD_BODIES


def test_an_intent_that_leads_out_of_its_directory_is_not_acted_on(tmp_path, closed_store):
    root = closed_store(tmp_path / "store")
    plan = planned(root)
    intent_of(plan, written(plan, PARTITIONS)).save(str(root), Disk())
    path = root / "reput" / "spark" / "publish.json"
    facts = json.loads(path.read_text())
    facts["tasks"][0]["segments"][0]["name"] = "../../closed"
    path.write_text(json.dumps(facts))

    with pytest.raises(SparkReputError, match="not a name of a file"):
        write(root, [[AGAIN]])


def test_a_store_made_by_somebody_else_meanwhile_is_gone_on_with_or_refused(tmp_path):
    plan = planned(tmp_path / "store")
    tasks = written(plan, [[AGAIN]])
    with reput.open(tmp_path / "store", config={"commitlog": {"file_size": 65_536}}):
        pass

    with pytest.raises(SparkReputError, match="somebody has made the store since"):
        commit_write(plan, tasks)


def test_a_store_that_somebody_else_makes_meanwhile_is_not_removed_with_a_write(
    tmp_path, monkeypatch
):
    root = tmp_path / "store"
    plan = planned(root)
    tasks = written(plan, PARTITIONS)
    (root / "reput" / "spark" / plan.staging / tasks[1].segments[0].name).unlink()
    bring = stands._brought_to_end

    def brought(path, *arguments):
        with reput.open(root, plugins={"consumequeue"}, config={"commitlog": SMALL}):
            pass
        return bring(path, *arguments)

    monkeypatch.setattr(stands, "_brought_to_end", brought)
    with pytest.raises(SparkReputError, match=r"\[REPUT_JOB\]"):
        commit_write(plan, tasks)
    abort_write(plan)

    with reput.open(root, "r", plugins=()) as store:
        assert store.config.file_size == FILE_SIZE
