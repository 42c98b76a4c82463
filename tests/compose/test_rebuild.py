"""A rebuild of several plugins at once: some in parts, some in one piece, side by side."""

from __future__ import annotations

import shutil

import pytest
import rebuildstores
from permissions import forbid_writing
from rebuildstores import LOG, SPLIT

import reput
from reput.errors import PluginError
from reput_testing import QuickDisk, snapshot
from reput_testing.casebudget import is_soak
from reput_testing.disks.simulateddisk import SimulatedDisk
from reput_tools.offline import LocalEngine, rebuild, run_rebuild
from reput_tools.offline.rebuilder.rebuildtasks import OrderTask, ScanTask, TaskFailedError

PLUGINS = ["consumequeue", "index", "filter", "schedule", "transaction"]
CONFIG = {
    "commitlog": LOG,
    "consumequeue": {"units_per_file": 500},
    "index": {"slots_per_file": 1_000, "items_per_file": 9_000},
}


def fill(store):
    rebuildstores.fill(
        store,
        16_000,
        of=lambda number: {"keys": f"k{number}", "tags": "a" if number % 2 else "b"},
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A closed store of many plugins."""
    root = tmp_path_factory.mktemp("rebuild") / "store"
    with reput.open(root, plugins=PLUGINS, config=CONFIG) as store:
        fill(store)
    return root


@pytest.fixture
def path(made, tmp_path):
    return shutil.copytree(made, tmp_path / "store")


def derived(path):
    return {name: snapshot(path / name) for name in ("consumequeue", "index")}


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.costly
def test_all_that_can_be_rebuilt_is_and_comes_out_the_same(path, jobs):
    before = derived(path)
    for name in before:
        shutil.rmtree(path / name)
    told = []
    left = path / "reput" / "rebuild" / "of one that was killed" / "index"
    left.mkdir(parents=True)
    (left / "half").write_bytes(b"x")

    built = rebuild(
        path, jobs=jobs, split_size=SPLIT, progress=lambda done, total: told.append((done, total))
    )

    assert derived(path) == before
    for each in built:
        assert (each.message_count, each.split_count > 1) == (16_000, jobs > 1), each.plugin
    assert {"consumequeue", "index"} <= {each.plugin for each in built}
    # What plugins that act keep is more than what follows from the log.
    assert not {"schedule", "transaction"} & {each.plugin for each in built}
    assert told[-1][0] == told[-1][1]
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert not (path / "reput" / "rebuild").exists()
    with reput.open(path) as store:
        states = [each for each in store.plugins() if each.name in before]
        # Nothing had to be derived again, and both go on.
        assert [(each.lag_size, each.batch_count) for each in states] == [(0, 0)] * 2
        store.put(reput.Message("T2", b"more", 2, keys="more"))
        store.wait_dispatched(60)
        assert [each.body for each in store.query("T2", "more")] == [b"more"]


def test_those_in_one_piece_have_a_process_beside_the_splits(tmp_path):
    pytest.importorskip("reput_audit")
    path = tmp_path / "store"
    config = {name: CONFIG[name] for name in ("commitlog", "consumequeue")}
    with reput.open(path, plugins=["audit", "consumequeue"], config=config) as store:
        fill(store)
    before = snapshot(path / "audit"), snapshot(path / "consumequeue")
    rounds = []

    with LocalEngine(2) as engine:
        run = engine.run
        engine.run = lambda work, tasks, told: rounds.append(tasks) or run(work, tasks, told)
        built = run_rebuild(path, (), engine, split_size=SPLIT)

    assert (snapshot(path / "audit"), snapshot(path / "consumequeue")) == before
    assert [(each.plugin, each.split_count > 1) for each in built] == [
        ("audit", False),
        ("consumequeue", True),
    ]
    (tasks,) = rounds
    assert isinstance(tasks[0], OrderTask)  # begun first, as it takes longest
    assert all(isinstance(task, ScanTask) for task in tasks[1:])


@pytest.mark.costly
def test_a_comparison_changes_nothing_and_finds_what_differs(path):
    assert all(each.differences == () for each in rebuild(path, jobs=2, check=True))
    victim = next((path / "consumequeue").rglob("0" * 20))
    with open(victim, "r+b") as file:
        file.write(b"\xff")
    before = snapshot(path)

    found = [
        each.path
        for built in rebuild(path, jobs=2, split_size=SPLIT, check=True)
        for each in built.differences
    ]

    assert found == [str(victim.relative_to(path))]
    assert snapshot(path) == before


def test_queues_are_those_of_a_rebuild_although_a_plugin_that_adds_columns_was_suspended(tmp_path):
    path = tmp_path / "store"
    delayed = reput.Message("orders", b"x", tags="a", properties={"DELAY": "3"})
    with reput.open(path, plugins=PLUGINS) as store:
        store.put(delayed)
        store.suspend_plugin("schedule")
        store.put(delayed)
        store.wait_dispatched()
        store.resume_plugin("schedule")

    built = {each.plugin: each for each in rebuild(path, jobs=1, check=True)}

    assert built["consumequeue"].differences == ()


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.costly
def test_a_comparison_in_a_store_that_cannot_be_written_is_made_elsewhere(
    path, tmp_path, monkeypatch, jobs
):
    victim = next((path / "consumequeue").rglob("0" * 20))
    with open(victim, "r+b") as file:
        file.write(b"\xff")
    before = snapshot(path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    forbid_writing(monkeypatch, path)

    built = rebuild(path, jobs=jobs, split_size=SPLIT, check=True)

    found = [each.path for one in built for each in one.differences]
    assert found == [str(victim.relative_to(path))]
    assert snapshot(path) == before
    assert [*tmp_path.iterdir()] == [path]
    with pytest.raises(OSError, match="Read-only file system"):
        rebuild(path, jobs=jobs)


def test_on_other_machines_a_store_must_be_writable_for_a_comparison(path, monkeypatch):
    with LocalEngine(1) as engine:
        engine.is_local = False
        forbid_writing(monkeypatch, path)

        with pytest.raises(OSError, match="Read-only file system"):
            run_rebuild(path, (), engine, check=True)


@pytest.mark.costly
def test_a_failure_says_where_and_leaves_everything_as_it_was(path):
    """A plugin that cannot write where it is told to: its directory is a file."""
    before = snapshot(path)

    with LocalEngine(2) as engine:
        run = engine.run

        def into_a_file(work, tasks, told):
            job, _ = work.args
            parts = path / "reput" / "rebuild" / job.staging.rpartition("/")[2] / "index"
            parts.mkdir(parents=True)
            (parts / "parts").write_bytes(b"in the way")
            return run(work, tasks, told)

        engine.run = into_a_file
        with pytest.raises(TaskFailedError, match=r"split \d+ \[\d+, \d+\) for .*commitlog: .*Err"):
            run_rebuild(path, (), engine, split_size=SPLIT)

    assert snapshot(path) == before


def test_plugins_that_act_are_not_rebuilt_even_when_named(path):
    with pytest.raises(PluginError, match="more than what follows from the log"):
        rebuild(path, ["schedule"])


# --------------------------------------------------------------------------- the power is cut


def in_parts_here():
    """An engine that works in parts, one after the other in this process, so on a disk of ours."""
    engine = LocalEngine(1)
    engine.splits = True
    return engine


@pytest.mark.proof
@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.costly
def test_a_power_cut_at_any_operation_leaves_the_files_of_the_log(
    tmp_path, is_there, record_property, monkeypatch
):
    monkeypatch.setattr("reput_tools.offline.rebuilder.rebuilddriver._SPLIT_MIN", 4_096)
    config = {
        "commitlog": {"file_size": 8_192},
        "consumequeue": {"units_per_file": 5},
        "index": {"slots_per_file": 7, "items_per_file": 30},
    }
    live = tmp_path / "live"
    plugins = ["consumequeue", "index"]
    with reput.open(live, plugins=plugins, config=config, threads=False) as store:
        for number in range(80):
            store.put(reput.Message(f"T{number % 3}", b"%d" % number, keys=f"k{number} all"))
    wanted = {name: snapshot(live / name) for name in plugins}
    if not is_there:
        for name in plugins:
            shutil.rmtree(live / name)
    disk = SimulatedDisk(live)

    built = run_rebuild(live, (), in_parts_here(), split_size=4_096, disk=disk)

    assert all(each.split_count > 1 for each in built)
    assert {name: snapshot(live / name) for name in plugins} == wanted
    states = [state for point in disk.points for state in point.states(most=6, random_count=2)]
    # All of them in a soak; else some of them, evenly spread.
    tried = states if is_soak() else states[:: max(len(states) // 60, 1)]
    for number, state in enumerate(tried):
        root = tmp_path / f"state {number}"
        state.materialize(root)
        with reput.open(root, config=config, threads=False, disk=QuickDisk()) as store:
            store.wait_dispatched()
            assert len(store.query("T1", "all")) == 27, str(state)
        assert {name: snapshot(root / name) for name in plugins} == wanted, str(state)
        shutil.rmtree(root)
    record_property("crash states", len(tried))
