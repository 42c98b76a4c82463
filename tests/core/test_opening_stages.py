"""Opening a store in stages: each hands on what is finished, and what failed leaves nothing."""

from __future__ import annotations

import ast
import inspect
import threading
from importlib import metadata

import pytest

import reput
from reput.errors import NotAFileError
from reput.plugin import discovery
from reput.store.opening import assembly, logstages, stages, writeropening
from reput.store.opening import openstore as opening
from reput_testing import QuickDisk, open_files_under, snapshot

SMALL = {"commitlog": {"file_size": 4096}}


class Counting(reput.Plugin):
    """Counts how often it is opened and closed."""

    name = "counting"

    def __init__(self):
        super().__init__(None)
        self.told = []

    @reput.hookimpl
    def reput_open(self, context):
        self.told.append("open")

    @reput.hookimpl
    def reput_work(self, now):
        return None

    @reput.hookimpl
    def reput_close(self):
        self.told.append("close")


@pytest.mark.parametrize(
    "module",
    [opening, stages, logstages, writeropening, assembly],
    ids=lambda module: module.__name__,
)
def test_no_stage_sets_an_attribute_of_what_another_one_made(module):
    targets = [
        ast.unparse(target)
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Attribute)
    ]

    assert targets == []


@pytest.mark.parametrize(
    "stage",
    [
        "stages.lock_store",
        "stages.configure",
        "logstages.find_files",
        "changes.begin_changes",
        "logstages.examine",
        "changes.repair_log",
        "changes.open_writable_log",
        "changes.start_writing",
        "starting.open_plugins",
        "changes._queue_offsets",
        "starting.finished",
        "changes.close_at_exit",
    ],
)
@pytest.mark.parametrize("error", [OSError("no"), KeyboardInterrupt()])
def test_an_opening_that_fails_behind_a_stage_gives_up_everything(
    tmp_path, monkeypatch, stage, error
):
    root, plugin = tmp_path / "store", Counting()
    part, name = stage.split(".")
    parts = {
        "stages": stages,
        "logstages": logstages,
        "changes": writeropening,
        "starting": assembly,
    }
    real = getattr(parts[part], name)

    def failing(*arguments, **named):
        real(*arguments, **named)
        raise error

    for module in (opening, stages, logstages, writeropening, assembly):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, failing)
    before = threading.enumerate()

    with pytest.raises(type(error)):
        reput.open(root, plugins=[plugin], config=SMALL, disk=QuickDisk())

    assert [each for each in threading.enumerate() if each not in before] == []
    assert open_files_under(root) == []
    assert plugin.told.count("open") <= plugin.told.count("close") <= 1
    monkeypatch.undo()
    with reput.open(root, plugins=[Counting()], config=SMALL, disk=QuickDisk()) as store:
        assert store.put(reput.Message("T", b"x")).queue_offset == 0


def test_before_the_log_is_repaired_a_failed_opening_leaves_no_sign_of_a_crash(
    tmp_path, monkeypatch
):
    with reput.open(tmp_path, plugins=[], config=SMALL, disk=QuickDisk()) as store:
        store.put(reput.Message("T", b"x"))
    (tmp_path / "abort").unlink()  # as where a plugin had kept the queues
    before = snapshot(tmp_path)

    def failing(*arguments):
        raise OSError("no")

    monkeypatch.setattr(writeropening, "examine", failing)
    with pytest.raises(OSError, match="no"):
        reput.open(tmp_path)

    assert snapshot(tmp_path) == before


def test_what_is_installed_is_looked_for_once_while_the_path_stays_the_same(tmp_path, monkeypatch):
    real, asked = metadata.entry_points, []

    def counting(**arguments):
        asked.append(arguments)
        return real(**arguments)

    monkeypatch.setattr(metadata, "entry_points", counting)
    monkeypatch.setattr(discovery, "_known", (None, ()))
    with reput.open(tmp_path, plugins=[], config=SMALL, disk=QuickDisk()):
        fresh = len(asked)
    with reput.open(tmp_path, disk=QuickDisk()):
        again = len(asked) - fresh
    monkeypatch.syspath_prepend(tmp_path)
    with reput.open(tmp_path, disk=QuickDisk()):
        on_another_path = len(asked) - fresh - again
    (tmp_path / "a file beside").touch()
    with reput.open(tmp_path, disk=QuickDisk()):
        after_a_write = len(asked) - fresh - again - on_another_path
    (tmp_path / "more-1.dist-info").mkdir()
    with reput.open(tmp_path, disk=QuickDisk()):
        after_an_installation = len(asked) - fresh - again - on_another_path - after_a_write

    assert (fresh, again, on_another_path) == (1, 0, 1)
    assert (after_a_write, after_an_installation) == (0, 1)


# --------------------------------------------------------------------------- Undoing


def test_everything_is_undone_the_last_thing_first_also_where_one_fails():
    undoing, told = stages.Rollback(), []

    def failing():
        told.append("broken")
        raise OSError("no")

    undoing.in_any_case.append(lambda: told.append("lock"))
    undoing.when_failed.append(lambda: told.append("thread"))
    undoing.in_any_case.append(failing)
    undoing.in_any_case.append(lambda: told.append("log"))

    with pytest.raises(OSError, match="no"):
        undoing.undo_all()
    with pytest.raises(OSError, match="no"):
        undoing.release()

    assert told == ["thread", "log", "broken", "lock", "log", "broken", "lock"]


@pytest.mark.parametrize("name", ["checkpoint", "abort", "lock", "reput/state"])
def test_a_directory_in_place_of_a_file_is_named_by_a_writer_and_changes_no_reader(tmp_path, name):
    root = tmp_path / "store"
    with reput.open(root, plugins=(), config=SMALL, disk=QuickDisk()) as store:
        store.put(reput.Message("t", b"x"))
    path = root / name
    path.unlink(missing_ok=True)
    path.mkdir()

    with pytest.raises(NotAFileError) as caught:
        reput.open(root, plugins=(), config=SMALL, disk=QuickDisk())

    assert caught.value.path == str(path)
    with reput.open(root, "r", plugins=(), disk=QuickDisk()) as store:
        assert sum(map(len, store.scan())) == 1
