"""`reput_tools.offline`: stores that are looked at without a lock, or held by it and changed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import attrs
import pytest
from openstores import plugin, put
from statefiles import forget_progress

import reput
from reput.errors import (
    CorruptFileError,
    PluginError,
    PluginNotFoundError,
    ServiceNotAvailableError,
    StoreLockedError,
    StoreNotFoundError,
)
from reput.storefiles import UNFINISHED, Phase, refuse_unfinished
from reput_testing import FaultyDisk, QuickDisk, snapshot
from reput_tools.offline import inspect_store, lock_store

FILE_SIZE = 4_096
CONFIG = {"commitlog": {"file_size": FILE_SIZE}}
NOW = 1_700_000_000_000
WRITER = """
    import sys
    import reput
    store = reput.open(sys.argv[1])
    print("open", flush=True)
    sys.stdin.read()
"""


def notes():
    return plugin("notes", reput_dispatch=lambda self, batch: None)


def opened(root, plugins=()):
    return reput.open(
        root, plugins=plugins, config=CONFIG, clock=lambda: NOW, disk=QuickDisk(), threads=False
    )


def filled(root, count, plugins=()):
    """A closed store; where each message begins, and where the log ends."""
    with opened(root, plugins) as store:
        offsets = put(store, count)
        store.wait_dispatched()
        return offsets, store.log.max_physical_offset


def bodies(root):
    with reput.open(root, "r", plugins=()) as store:
        return [batch.message(row).body for batch in store.scan() for row in range(len(batch))]


# --------------------------------------------------------------------------- who may hold it


@pytest.mark.costly
def test_a_store_that_another_process_has_open_is_refused_with_what_to_do(tmp_path):
    filled(tmp_path, 1)
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "open\n"

        with (
            pytest.raises(StoreLockedError, match="close that one") as refusal,
            lock_store(tmp_path),
        ):
            pass

        assert refusal.value.holder_pid == process.pid
        assert (inspect_store(tmp_path).is_open, inspect_store(tmp_path).writer_pid) == (
            True,
            process.pid,
        )
        assert not inspect_store(tmp_path).was_closed
        process.stdin.close()
        process.wait()


def test_a_held_store_is_opened_by_no_writer_until_it_is_let_go(tmp_path):
    filled(tmp_path, 1)

    with lock_store(tmp_path):
        with pytest.raises(StoreLockedError):
            reput.open(tmp_path)
        assert inspect_store(tmp_path).is_open

    assert not inspect_store(tmp_path).is_open
    opened(tmp_path).close()


def test_where_no_store_is_none_is_held_and_nothing_is_made(tmp_path):
    with pytest.raises(StoreNotFoundError, match="commitlog"), lock_store(tmp_path / "none"):
        pass

    assert inspect_store(tmp_path / "none").written_by is None
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_held_to_be_read_is_as_before_and_refuses_changes(tmp_path):
    filled(tmp_path, 3)
    (tmp_path / "lock").unlink()
    before = snapshot(tmp_path)

    with lock_store(tmp_path, writes=False) as closed:
        assert closed.is_sound
        with pytest.raises(ValueError, match="to be read only"):
            closed.suspend("notes")

    assert snapshot(tmp_path) == before


def test_a_writer_that_comes_while_a_store_without_a_lock_file_is_read_is_noticed(tmp_path):
    filled(tmp_path, 1)
    (tmp_path / "lock").unlink()

    with pytest.raises(StoreLockedError), lock_store(tmp_path, writes=False):
        opened(tmp_path).close()


# --------------------------------------------------------------------------- what is told of it


@pytest.mark.parametrize("case", ["demo", "basic"])
def test_a_directory_of_rocketmq_is_told_as_such(case, golden_store):
    found = inspect_store(golden_store(case))

    assert (found.written_by, found.manifest, found.closed_at) == ("rocketmq", None, None)
    assert found.checkpoint.log_timestamp
    assert found.was_closed


@pytest.mark.parametrize(
    ("name", "writer"), [("timerwheel", "rocketmq 5"), ("rocksdbstore", "rocketmq 5.4")]
)
def test_a_release_of_rocketmq_is_known_by_what_only_that_makes(
    name, writer, golden_store, tmp_path
):
    shutil.copytree(golden_store("demo"), tmp_path / "store")
    (tmp_path / "store" / name).mkdir()

    assert inspect_store(tmp_path / "store").written_by == writer


def test_a_closed_store_tells_its_log_and_what_it_remembers(tmp_path):
    offsets, end = filled(tmp_path, 3)

    with lock_store(tmp_path) as closed:
        assert (closed.written_by, closed.was_closed, closed.closed_at) == ("reput", True, end)
        assert closed.log.max_physical_offset == end
        assert closed.last_record_offset == offsets[-1]
        assert closed.is_sound
        assert closed.sections()["commitlog"]["file_size"] == FILE_SIZE
        assert list(closed.plugins().plugins) == []
    assert inspect_store(tmp_path).sizes()["commitlog"] > 0


def test_a_store_whose_plugin_is_not_installed_says_so(tmp_path):
    filled(tmp_path, 1, [notes()])

    assert inspect_store(tmp_path).manifest.plugins == ("notes",)
    with pytest.raises(PluginNotFoundError, match="notes"):
        inspect_store(tmp_path).plugins()


def test_the_page_does_what_it_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "offline.md").read_text(encoding="utf-8")

    for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        exec(compile(block, "docs/offline.md", "exec"), {"lock_store": lock_store})

    printed = capsys.readouterr().out.splitlines()
    assert printed == re.findall(r"# prints (.*)", page)


# --------------------------------------------------------------------------- its plugins


def test_a_plugin_that_is_suspended_and_resumed_is_so_at_the_next_opening(tmp_path):
    filled(tmp_path, 1, [notes()])

    with lock_store(tmp_path) as closed:
        closed.suspend("notes")
    with opened(tmp_path, [notes()]) as store:
        assert [state.state for state in store.plugins()] == [Phase.SUSPENDED]
    with lock_store(tmp_path) as closed:
        record = closed.resume("notes")

    assert (record.state, record.asked) == (Phase.RUNNING, False)
    with opened(tmp_path, [notes()]) as store:
        assert [state.state for state in store.plugins()] == [Phase.RUNNING]


def test_a_plugin_whose_progress_is_forgotten_is_given_all_of_the_log_again(tmp_path):
    _, end = filled(tmp_path, 5, [notes()])

    assert inspect_store(tmp_path).dispatched_to("notes") == end
    with lock_store(tmp_path) as closed:
        closed.forget_progress("notes")
    assert inspect_store(tmp_path).dispatched_to("notes") == 0
    assert given_again(tmp_path) == 5


def test_a_plugin_that_is_forgotten_is_given_all_of_the_log_when_it_comes_again(tmp_path):
    filled(tmp_path, 5, [notes()])
    with lock_store(tmp_path) as closed:
        closed.suspend("notes")
        closed.forget_plugin("notes")

    found = inspect_store(tmp_path)
    assert (found.manifest.plugins, found.records.names()) == ((), [])
    opened(tmp_path, []).close()
    assert given_again(tmp_path) == 5


def test_a_plugin_that_is_not_used_cannot_be_forgotten(tmp_path):
    filled(tmp_path, 1, [notes()])

    with lock_store(tmp_path) as closed, pytest.raises(PluginNotFoundError, match="it uses notes"):
        closed.forget_plugin("other")
    assert inspect_store(tmp_path).manifest.plugins == ("notes",)


def given_again(root):
    """How many messages a plugin of that name is given when the store is opened with it."""
    seen = []
    again = plugin("notes", reput_dispatch=lambda self, batch: seen.append(len(batch)))
    with opened(root, [again]) as store:
        store.wait_dispatched()
    return sum(seen)


def test_a_forgetting_that_is_cut_short_leaves_a_plugin_that_misses_nothing(tmp_path):
    """Each call of the disk fails in turn: the plugin is used or not, and never half forgotten."""

    def forget(root, disk):
        filled(root, 5, [notes()])
        with lock_store(root, disk=disk) as closed:
            closed.forget_plugin("notes")

    counting = FaultyDisk()
    forget(tmp_path / "whole", counting)
    outcomes = set()
    for fail_at in range(1, len(counting.calls) + 1):
        root = tmp_path / str(fail_at)
        with contextlib.suppress(OSError):
            forget(root, FaultyDisk(fail_at, lasting=True))

        found = inspect_store(root)
        outcomes.add((found.manifest.plugins, found.dispatched_to("notes") == 0))
        given = given_again(root)
        assert given == 5 or (given == 0 and "notes" in found.manifest.plugins)

    assert outcomes == {(("notes",), False), (("notes",), True), ((), True)}


@pytest.mark.parametrize("name", ["../notes", "a/b", ""])
def test_a_name_that_leads_elsewhere_is_no_plugins(tmp_path, name):
    filled(tmp_path, 1)

    with lock_store(tmp_path) as closed, pytest.raises(PluginError):
        closed.forget_progress(name)


def replace(root, built, disk):
    with lock_store(root, disk=disk) as closed:
        aside = os.path.join(closed.root, "reput", "aside")
        closed.replace_directories("notes", str(built), ["notes"], aside=aside)


def with_notes(root):
    _, end = filled(root, 3, [notes()])
    for directory, text in [(root, "old"), (root / "reput" / "built", "new")]:
        (directory / "notes").mkdir(parents=True)
        (directory / "notes" / "file").write_text(text)
    return end


def test_new_directories_count_only_when_all_of_them_are_in_their_place(tmp_path):
    end = with_notes(tmp_path / "whole")
    counting = FaultyDisk()
    replace(tmp_path / "whole", tmp_path / "whole" / "reput" / "built", counting)
    assert (tmp_path / "whole" / "notes" / "file").read_text() == "new"
    assert inspect_store(tmp_path / "whole").dispatched_to("notes") == end

    for fail_at in range(1, len(counting.calls) + 1):
        root = tmp_path / str(fail_at)
        with_notes(root)
        with pytest.raises(OSError, match="No space"):
            replace(root, root / "reput" / "built", FaultyDisk(fail_at, lasting=True))

        if inspect_store(root).dispatched_to("notes"):  # else its files are derived anew
            # Changed only after the progress was forgotten, and counted only when it was complete.
            found = (root / "notes" / "file").read_text()
            assert found in ("old", "new")
            aside = root / "reput" / "aside" / "notes"
            assert aside.exists() == (found == "new")


# --------------------------------------------------------------------------- more of its log


def half_and_whole(tmp_path, count=60):
    """A store with the first file's messages, and one of the same with all of them."""
    offsets, end = filled(tmp_path / "whole", count)
    first = sum(offset < FILE_SIZE for offset in offsets)
    filled(tmp_path / "half", first)
    assert FILE_SIZE < end < 2 * FILE_SIZE + FILE_SIZE
    return offsets, end, first


def append(root, source, offsets, end, disk=None):
    with lock_store(root, disk=disk) as closed:
        assert closed.next_base_offset == FILE_SIZE
        names = sorted(os.listdir(source))[1:]
        paths = [os.path.join(closed.root, "reput", name) for name in names]
        for name, path in zip(names, paths, strict=True):
            shutil.copy(os.path.join(source, name), path)
        closed.append_files(paths)
        closed.close_log(end, offsets[-1])


def test_files_that_are_appended_are_the_next_ones_of_the_log(tmp_path):
    offsets, end, _ = half_and_whole(tmp_path)

    append(tmp_path / "half", tmp_path / "whole" / "commitlog", offsets, end)

    assert snapshot(tmp_path / "half" / "commitlog") == snapshot(tmp_path / "whole" / "commitlog")
    found = inspect_store(tmp_path / "half")
    assert (found.was_closed, found.has_abort, found.closed_at) == (True, True, end)
    with opened(tmp_path / "half") as store:
        assert put(store, 1)[0] == end


def test_a_crash_while_files_are_appended_leaves_a_log_that_is_shorter_and_valid(tmp_path):
    offsets, end, first = half_and_whole(tmp_path)
    source, counting = tmp_path / "whole" / "commitlog", FaultyDisk()
    shutil.copytree(tmp_path / "half", tmp_path / "counted")
    append(tmp_path / "counted", source, offsets, end, counting)
    whole = bodies(tmp_path / "whole")

    for fail_at in range(1, len(counting.calls) + 1):
        root = tmp_path / str(fail_at)
        shutil.copytree(tmp_path / "half", root)
        with pytest.raises(OSError, match="No space"):
            append(root, source, offsets, end, FaultyDisk(fail_at, lasting=True))

        opened(root).close()
        found = bodies(root)
        assert len(found) >= first
        assert found == whole[: len(found)]


def test_nothing_is_appended_to_a_store_whose_end_no_writer_noted(tmp_path):
    filled(tmp_path, 3)
    forget_progress(tmp_path)
    before = snapshot(tmp_path / "commitlog")

    with (
        lock_store(tmp_path) as closed,
        pytest.raises(ServiceNotAvailableError, match=r"open it once with reput\.open"),
    ):
        closed.append_files([str(tmp_path / "none")])

    assert snapshot(tmp_path / "commitlog") == before


@pytest.mark.proof
@pytest.mark.parametrize("text", ["do it again with: make-it\n{}\n", "", "no line end", "\udcff"])
def test_an_unfinished_store_is_opened_by_nothing(tmp_path, text):
    with reput.open(tmp_path / "store", plugins=[], threads=False) as store:
        store.put(reput.Message("T", b"body"))
    (tmp_path / "store" / UNFINISHED).write_bytes(text.encode("utf-8", "surrogateescape"))
    before = snapshot(tmp_path)

    for attempt in (
        lambda: reput.open(tmp_path / "store"),
        lambda: reput.open(tmp_path / "store", "r"),
        lambda: lock_store(tmp_path / "store").__enter__(),
        lambda: refuse_unfinished(str(tmp_path / "store")),
    ):
        with pytest.raises(StoreNotFoundError, match="the store is not finished") as caught:
            attempt()
        assert text.partition("\n")[0] in str(caught.value) or "\udcff" in text

    assert snapshot(tmp_path) == before


def test_an_unfinished_directory_without_a_log_is_not_taken_for_an_empty_store(tmp_path):
    (tmp_path / UNFINISHED).write_text("later")

    with pytest.raises(StoreNotFoundError, match="later"):
        reput.open(tmp_path)

    assert snapshot(tmp_path) == {UNFINISHED: b"later"}


@pytest.mark.parametrize("entry", [inspect_store, lambda path: lock_store(path).__enter__()])
@pytest.mark.parametrize(
    ("path", "reason"), [("", "it is empty"), (b"", "it is empty"), ("a\0b", "without NUL bytes")]
)
def test_a_text_that_is_no_path_is_an_error_before_anything_is_looked_at(
    tmp_path, monkeypatch, entry, path, reason
):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ValueError, match=f"path: .*{reason}"):
        entry(path)

    assert os.listdir() == []


def test_a_replica_of_which_a_plugin_is_forgotten_stays_a_replica(tmp_path):
    filled(tmp_path, 1, [notes()])
    manifest = inspect_store(tmp_path).manifest
    attrs.evolve(manifest, master="broker-a").save(inspect_store(tmp_path).state_file)

    with lock_store(tmp_path) as closed:
        closed.forget_plugin("notes")

    assert inspect_store(tmp_path).manifest.master == "broker-a"


@pytest.mark.parametrize("change", ["suspend", "resume", "forget_progress", "forget_plugin"])
def test_a_damaged_state_file_is_not_hidden_by_a_new_one(tmp_path, change):
    filled(tmp_path, 1, [notes()])
    path = tmp_path / "reput" / "state"
    damaged = bytes(path.stat().st_size)
    path.write_bytes(damaged)

    with lock_store(tmp_path) as closed, pytest.raises(CorruptFileError, match="move the file"):
        getattr(closed, change)("notes")

    assert path.read_bytes() == damaged
