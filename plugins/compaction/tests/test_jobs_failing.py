"""Jobs whose tasks fail, are done twice, or whose process is killed between two rounds."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys

import compactedstores
import pytest
from compactedstores import files_of, many, open_store, put

from reput.errors import CorruptFileError
from reput_compaction.job import plan
from reput_compaction.job.jobtasks import LayTask, MergeTask, ScanTask, WriteTask
from reput_compaction.run.compaction import Compaction
from reput_compaction.run.superseded import SORT_FACTOR
from reput_testing import FaultyDisk, ManualClock
from reput_tools.offline import LocalEngine, TaskFailedError

HERE = LocalEngine(1)


@pytest.fixture
def closed(tmp_path):
    """A store with something to compact, and the files that a compaction leaves."""
    clock = ManualClock()
    with open_store(tmp_path / "store", clock) as store:
        put(store, many(200, 20))
    shutil.copytree(tmp_path / "store", tmp_path / "done")
    with open_store(tmp_path / "done", clock) as store:
        store.plugin("compaction").compact()
    return tmp_path / "store", files_of(tmp_path / "done")


class Twice(LocalEngine):
    """Does every task twice, in the other order, and takes the first answer of the second time."""

    def run(self, work, tasks, told=lambda size: None):
        super().run(work, tasks, told)
        return super().run(work, list(reversed(tasks)), told)[::-1]


def test_an_attempt_that_was_given_up_leaves_no_trace(closed):
    root, expected = closed

    with open_store(root) as store:
        store.plugin("compaction").compact(engine=Twice(1), split_size=2_000)

    assert files_of(root) == expected


def test_an_attempt_that_outlives_its_job_writes_nothing_that_counts(closed):
    root, expected = closed
    late = []

    class Engine(LocalEngine):
        def run(self, work, tasks, told=lambda size: None):
            late.append((work, tasks))
            return super().run(work, tasks, told)

    with open_store(root) as store:
        store.plugin("compaction").compact(engine=Engine(1), split_size=2_000)
    for work, tasks in late:
        for task in tasks:
            # Its directory is gone, and with it what the round before has written.
            with pytest.raises((TaskFailedError, CorruptFileError)):
                work(task, lambda size: None)

    assert files_of(root) == expected


class FailingIn(LocalEngine):
    """Fails in the first task of a kind, after that one has done its work."""

    def __init__(self, kind):
        super().__init__(1)
        self.kind = kind

    def run(self, work, tasks, told=lambda size: None):
        def fails(task, report):
            work(task, report)
            if isinstance(task, self.kind):
                raise TaskFailedError(str(task), "OSError: no space")

        return super().run(fails if isinstance(tasks[0], self.kind) else work, tasks, told)


@pytest.mark.parametrize("kind", [ScanTask, MergeTask, LayTask, WriteTask])
@pytest.mark.costly
def test_a_job_that_fails_changes_nothing_and_can_be_done_again(closed, kind):
    root, expected = closed
    with open_store(root) as store:
        for queue in store.plugin_objects["compaction"].queues.values():
            queue.close_last()
        before = files_of(root)

        with pytest.raises(TaskFailedError, match=r"(split|part|layout|write task) .*no space"):
            store.plugin("compaction").compact(engine=FailingIn(kind), split_size=2_000)

        assert files_of(root) == before
        store.plugin("compaction").compact(engine=HERE)
    assert files_of(root) == expected


def test_an_error_says_what_was_being_done(closed):
    root, _ = closed

    disk = FaultyDisk(1, lasting=True, below="/scan-")
    with open_store(root, disk=disk) as store, pytest.raises(TaskFailedError) as caught:
        store.plugin("compaction").compact(engine=HERE)

    assert "split 0, [0, " in str(caught.value)
    assert f"{root}/compaction/compactionLog/t/0/00000000000000000000" in str(caught.value)
    assert "No space left on device" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_record_that_is_not_its_unit_s_is_told_and_nothing_is_changed(closed):
    root, _ = closed
    path = root / "compaction/compactionLog/u/2/00000000000000000000"
    with open(path, "r+b") as file:
        file.seek(20)
        file.write(b"\xff" * 8)  # the queue offset of the first record
    with open_store(root) as store:
        before = [(info.topic, info.min_queue_offset) for info in store.queues()]

        with pytest.raises(CorruptFileError) as caught:
            store.plugin("compaction").compact(engine=HERE, split_size=2_000)

        assert caught.value.path == str(path)
        assert [(info.topic, info.min_queue_offset) for info in store.queues()] == before
    assert not (root / "reput/compacting").exists()


@pytest.mark.parametrize("number", range(5))
@pytest.mark.costly
def test_whoever_is_killed_between_two_rounds_leaves_the_store_as_it_was(closed, tmp_path, number):
    root, expected = closed
    killed = tmp_path / "killed"

    class Engine(LocalEngine):
        rounds = 0

        def run(self, work, tasks, told=lambda size: None):
            found = super().run(work, tasks, told)
            Engine.rounds += 1
            if Engine.rounds == number:
                shutil.copytree(root, killed)
            return found

    with open_store(root) as store:
        if number == 0:
            shutil.copytree(root, killed)
        store.plugin("compaction").compact(engine=Engine(1), split_size=2_000)
    assert (killed / "reput/compacting").exists() == (number > 0)

    with open_store(killed) as store:
        assert not (killed / "reput/compacting").exists()
        assert sum(len(store.read("t", queue, 0)) for queue in range(3)) > 30
        store.plugin("compaction").compact(engine=HERE)
    found = files_of(killed)
    assert {name: found[name] for name in expected if "compaction" in name} == {
        name: data for name, data in expected.items() if "compaction" in name
    }


@pytest.mark.costly
def test_whoever_is_killed_between_two_queues_leaves_the_others_to_the_next_run(
    closed, tmp_path, monkeypatch
):
    root, expected = closed
    copies = []

    def finish(self):
        finishes(self)
        copies.append(tmp_path / f"copy-{len(copies)}")
        shutil.copytree(root, copies[-1])

    finishes = Compaction.finish
    monkeypatch.setattr(Compaction, "finish", finish)
    with open_store(root) as store:
        store.plugin("compaction").compact(engine=HERE)
    monkeypatch.undo()
    assert len(copies) == 6

    for number, copy in enumerate(copies):
        with open_store(copy) as store:
            assert len(store.plugin("compaction").compact(engine=HERE)) == 5 - number
        found = files_of(copy)
        assert {name: found[name] for name in expected if "compaction" in name} == {
            name: data for name, data in expected.items() if "compaction" in name
        }


class Watching(LocalEngine):
    """Notes the tasks."""

    def __init__(self):
        super().__init__(1)
        self.tasks = []

    def run(self, work, tasks, told=lambda size: None):
        self.tasks += tasks
        return super().run(work, tasks, told)


@pytest.mark.parametrize("keys", [3, 1_000_000])
def test_no_task_needs_more_memory_for_keys_than_it_may_take(tmp_path, monkeypatch, keys):
    """Neither with as many keys as messages, nor with few that come again and again."""
    monkeypatch.setattr(plan, "_ROWS_MIN", 1 << 30)
    memory, engine = 65_536, Watching()
    options = {"sizes": (1 << 20, 1 << 18), "offset_map_size": memory}
    with open_store(tmp_path, **options) as store:
        put(store, [(f"{number % keys}", b"x", 0) for number in range(12_000)])

        (result,) = store.plugin("compaction").compact(engine=engine)

    assert result.messages_after == min(keys, 12_000)
    merges = [task for task in engine.tasks if isinstance(task, MergeTask)]
    assert len(merges) > 4
    # Parts are even but for chance.
    assert max(task.size for task in merges) * SORT_FACTOR < 1.5 * memory
    runs = [segment.count for task in merges for segment in task.segments]
    assert max(runs) * 24 * SORT_FACTOR < memory


DRIVER = """
import os, signal, sys
from compactedstores import open_store
from reput_tools.offline import LocalEngine

class Engine(LocalEngine):
    rounds = 0
    def run(self, work, tasks, told=lambda size: None):
        Engine.rounds += 1
        def told_and_killed(size):
            if Engine.rounds == int(sys.argv[2]) and size > 0:
                os.kill(os.getpid(), signal.SIGKILL)
            told(size)
        return super().run(work, tasks, told_and_killed)

if __name__ == "__main__":
    with Engine(2) as engine, open_store(sys.argv[1]) as store:
        store.plugin("compaction").compact(engine=engine, split_size=2_000)
"""


@pytest.mark.parametrize("number", [1, 4])
@pytest.mark.costly
def test_a_driver_that_is_killed_in_a_round_costs_nothing_but_the_job(closed, tmp_path, number):
    root, expected = closed
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(compactedstores.__file__)}

    # Its processes have its pipe, too: reading to the end waits until they have noticed.
    done = subprocess.run(
        [sys.executable, script, root, str(number)],
        env=environment,
        stdout=subprocess.PIPE,
        timeout=100,
        check=False,
    )

    assert done.returncode == -signal.SIGKILL
    assert (root / "reput/compacting").exists()
    with open_store(root) as store:
        assert not (root / "reput/compacting").exists()
        store.plugin("compaction").compact(engine=HERE)
    found = files_of(root)
    assert {name: found[name] for name in expected if "compaction" in name} == {
        name: data for name, data in expected.items() if "compaction" in name
    }
