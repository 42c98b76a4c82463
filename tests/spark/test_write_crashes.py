"""Writes that are cut short: at every step of publishing, and before it."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import pytest
from writtenstores import FILE_SIZE, NOW, bodies_of, planned, rows_of, table_of, write, written

import reput
from reput.arrow import columns_of
from reput.disk import Disk
from reput.rebuild.engine import LocalEngine
from reput.testing import PowerCuts
from reput.testing.powercuts import is_soak
from reput.testing.simulateddisk import SimulatedDisk
from reput_spark import SparkReputError
from reput_spark.writing.driver import abort_write, commit_write, intent_of
from reput_spark.writing.intents import Intent, load_writes
from reput_spark.writing.publishing import publish, take_back
from reput_spark.writing.staging import STALE_MS, is_vacant, spark_directory, sweep


class Killed(OSError):
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
    config = {"commitlog": {"file_size": FILE_SIZE, "preallocate": False}}
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

    record_property("crash states", cuts.state_count)
    assert {30, 330} <= seen


@pytest.mark.parametrize("changes", [8, 9])
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


def test_a_write_that_was_finished_later_is_known_by_its_name(tmp_path, closed_store):
    root = closed_store(tmp_path / "store")
    killed_after(root, 9)

    write(root, PARTITIONS, write_id="first")

    assert bodies_of(root) == OLD_BODIES + BODIES


def test_a_write_that_was_taken_back_may_come_again(tmp_path, closed_store):
    root = closed_store(tmp_path / "store")
    killed_after(root, 3)

    write(root, PARTITIONS, write_id="first")

    assert bodies_of(root) == OLD_BODIES + BODIES


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
    newest = max(disk.modified(str(path)) for path in [staging, *staging.iterdir()])

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

    with pytest.raises(SparkReputError, match="no name of a file"):
        write(root, [[AGAIN]])


def test_a_store_made_by_somebody_else_meanwhile_is_gone_on_with_or_refused(tmp_path):
    plan = planned(tmp_path / "store")
    tasks = written(plan, [[AGAIN]])
    with reput.open(tmp_path / "store", config={"commitlog": {"file_size": 65_536}}):
        pass

    with pytest.raises(SparkReputError, match="somebody has made the store since"):
        commit_write(plan, tasks)


def test_the_directory_of_writes_is_the_stores_own(tmp_path):
    assert spark_directory(str(tmp_path)) == str(tmp_path / "reput" / "spark")
