"""`Disk.at`: a disk of one store touches nothing outside of it and follows no link below it."""

from __future__ import annotations

import os
import pickle
import threading
from pathlib import Path

import pytest

from reput.errors import DiskFrozenError, NotAFileError, ReputError, UnsafePathError
from reput.files.filepool import FilePool
from reput.files.system import storeroot
from reput.files.system.disk import Disk
from reput_testing import FaultyDisk, QuickDisk, SimulatedDisk

pytestmark = pytest.mark.shows("disk")

CANARY = b"not a file of the store"


@pytest.fixture
def outside(tmp_path):
    """A directory outside of the store that must stay as it is."""
    directory = tmp_path / "outside"
    (directory / "below").mkdir(parents=True)
    (directory / "canary").write_bytes(CANARY)
    (directory / "below" / "canary").write_bytes(CANARY)
    return directory


@pytest.fixture
def root(tmp_path):
    """A store's directory with a file and a directory."""
    (tmp_path / "store" / "below").mkdir(parents=True)
    (tmp_path / "store" / "file").write_bytes(b"store's own")
    (tmp_path / "store" / "below" / "file").write_bytes(b"store's own")
    return tmp_path / "store"


def contents(directory):
    """Every name below ``directory`` and the bytes of files."""
    return {
        path.relative_to(directory): path.is_file() and path.read_bytes()
        for path in sorted(directory.rglob("*"))
    }


OPERATIONS = {
    "open": lambda disk, path: disk.close(disk.open(path)),
    "open to write": lambda disk, path: disk.close(disk.open(path, write=True)),
    "create": lambda disk, path: disk.close(disk.open(path, create=True)),
    "create fresh": lambda disk, path: disk.close(disk.create_fresh(path)),
    "rename from": lambda disk, path: disk.rename(path, f"{disk.home}/renamed"),
    "rename to": lambda disk, path: disk.rename(f"{disk.home}/file", path),
    "remove directory": lambda disk, path: disk.remove_directory(path),
    "remove tree": lambda disk, path: disk.remove_tree(path),
    "status": lambda disk, path: disk.status(path),
    "identity": lambda disk, path: disk.identity(path),
    "modified_ms": lambda disk, path: disk.modified_ms(path),
    "usage": lambda disk, path: disk.usage(path),
    "list": lambda disk, path: disk.list(path),
    "make directory": lambda disk, path: disk.make_directory(path),
    "make directory below": lambda disk, path: disk.make_directory(f"{path}/made", durable=True),
    "make one directory": lambda disk, path: disk.make_one_directory(path),
    "flush directory": lambda disk, path: disk.flush_directory(path),
    "replace": lambda disk, path: disk.replace(path, b"new"),
    "read file": lambda disk, path: disk.read_file(path),
}


def bound(root, **options):
    """A bound disk that knows its root, for `OPERATIONS`."""
    disk = Disk().at(str(root), **options)
    disk.home = str(root)
    return disk


@pytest.mark.parametrize("name", ["canary", "below", "nothing"])
@pytest.mark.parametrize("is_last", [True, False])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_link_is_refused_by_every_operation_and_named(root, outside, operation, is_last, name):
    link = root / "below" / "link"
    link.symlink_to(outside / name if is_last else outside)
    before = contents(outside)

    with pytest.raises(UnsafePathError, match=r"is a symbolic link to .*follow_links") as caught:
        OPERATIONS[operation](bound(root), str(link if is_last else link / name))

    assert caught.value.path == str(link)
    assert not is_last or caught.value.filename == str(link)
    assert contents(outside) == before
    assert link.is_symlink()


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("way", ["{outside}/canary", "{root}/../outside/canary", "/", "{root}2/x"])
def test_what_is_outside_of_the_root_is_refused_by_every_operation(root, outside, operation, way):
    before = contents(outside)

    with pytest.raises(UnsafePathError):
        OPERATIONS[operation](bound(root), way.format(root=root, outside=outside))
    with pytest.raises(UnsafePathError):
        OPERATIONS[operation](bound(root, follow_links=True), f"{outside}/canary")

    assert contents(outside) == before


@pytest.mark.parametrize("follow_links", [False, True])
def test_a_scratch_directory_is_reached_too_and_nothing_else(root, outside, tmp_path, follow_links):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    disk = Disk().at(str(root), follow_links=follow_links, scratch=str(scratch))

    for each in (disk, pickle.loads(pickle.dumps(disk))):
        each.make_directory(str(scratch / "made" / "below"), durable=True)
        each.replace(str(scratch / "made" / "below" / "file"), b"made")
        assert each.read_file(str(scratch / "made" / "below" / "file")) == b"made"
        assert each.read_file(str(root / "file")) == b"store's own"
        each.remove_tree(str(scratch / "made"))
        assert contents(scratch) == {}
        for path in (f"{outside}/canary", f"{scratch}2/x", f"{scratch}/../outside/canary"):
            with pytest.raises(UnsafePathError):
                each.read_file(path)
        each.release()


def test_a_link_in_a_scratch_directory_is_refused(root, outside, tmp_path):
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / "link").symlink_to(outside)
    disk = Disk().at(str(root), scratch=str(tmp_path / "scratch"))

    with pytest.raises(UnsafePathError, match="is a symbolic link to"):
        disk.replace(str(tmp_path / "scratch" / "link" / "canary"), b"changed")

    assert (outside / "canary").read_bytes() == CANARY


def test_whether_a_link_exists_can_be_asked_and_not_what_it_hides(root, outside):
    (root / "link").symlink_to(outside)
    disk = bound(root)

    assert disk.exists(f"{root}/link")
    with pytest.raises(UnsafePathError):
        disk.exists(f"{root}/link/canary")


@pytest.mark.parametrize("follow_links", [False, True])
def test_removing_a_tree_removes_links_in_it_and_nothing_that_they_lead_to(
    root, outside, follow_links
):
    (root / "below" / "link").symlink_to(outside)
    (root / "below" / "another").symlink_to(outside / "canary")
    before = contents(outside)

    bound(root, follow_links=follow_links).remove_tree(f"{root}/below")

    assert contents(root) == {Path("file"): b"store's own"}
    assert contents(outside) == before


def test_removing_what_is_a_link_to_a_tree_never_empties_that(root, outside):
    (root / "link").symlink_to(outside)
    before = contents(outside)

    with pytest.raises(UnsafePathError):
        bound(root).remove_tree(f"{root}/link")
    bound(root, follow_links=True).remove_tree(f"{root}/link")
    Disk().remove_tree(f"{root}/nothing")

    assert not (root / "link").is_symlink()
    assert contents(outside) == before


def test_removing_removes_a_link_and_nothing_behind_one(root, outside):
    (root / "link").symlink_to(outside)
    before = contents(outside)

    with pytest.raises(UnsafePathError):
        bound(root).remove(f"{root}/link/canary")
    bound(root).remove(f"{root}/link")

    assert not (root / "link").is_symlink()
    assert contents(outside) == before


def test_entries_of_a_listing_follow_no_link(root, outside):
    (root / "link").symlink_to(outside)

    entries = {entry.name: entry for entry in bound(root).list(str(root))}

    assert list(entries) == ["below", "file", "link"]
    assert entries["below"].is_dir()
    assert entries["file"].is_file()
    assert entries["file"].stat().st_size == len(b"store's own")
    assert entries["file"].path == f"{root}/file"
    assert entries["link"].is_symlink()
    assert not entries["link"].is_dir(follow_symlinks=False)
    for look in ("is_dir", "is_file", "stat"):
        with pytest.raises(UnsafePathError, match="/link: is a symbolic link"):
            getattr(entries["link"], look)()


def test_the_root_and_what_is_above_it_may_be_links(root, tmp_path):
    (tmp_path / "up").symlink_to(tmp_path)
    (tmp_path / "direct").symlink_to(root)

    for place in (tmp_path / "up" / "store", tmp_path / "direct"):
        disk = bound(place)
        disk.replace(f"{place}/below/fresh", b"new")
        disk.flush_directory(str(place))
        disk.usage(str(place))
        assert disk.exists(str(place))
        assert disk.identity(str(place)) == Disk().identity(str(root))
        assert [entry.name for entry in disk.list(str(place))] == ["below", "file"]

    assert (root / "below" / "fresh").read_bytes() == b"new"


def test_links_are_followed_when_it_is_asked_for(root, outside):
    (root / "link").symlink_to(outside)
    disk = bound(root, follow_links=True)

    disk.replace(f"{root}/link/canary", b"new")
    disk.make_directory(f"{root}/link/made/deep", durable=True)

    assert (outside / "canary").read_bytes() == b"new"
    assert (outside / "made" / "deep").is_dir()
    assert disk.read_file(f"{root}/link/canary") == b"new"


def test_what_a_crash_left_under_a_temporary_name_is_removed_and_not_opened(root):
    before = os.open(root / "file.new", os.O_CREAT | os.O_RDWR)
    os.write(before, b"of the life before, and longer than what comes")

    bound(root).replace(f"{root}/file", b"new")

    assert (root / "file").read_bytes() == b"new"
    assert os.fstat(before).st_nlink == 0
    os.close(before)


def test_a_temporary_name_that_is_a_link_is_not_followed_even_where_links_are(root, outside):
    (root / "file.new").symlink_to(outside / "canary")

    bound(root, follow_links=True).replace(f"{root}/file", b"new")

    assert (outside / "canary").read_bytes() == CANARY
    assert (root / "file").read_bytes() == b"new"
    assert not (root / "file").is_symlink()


def test_a_file_with_a_second_name_is_read_and_not_written(root, outside):
    os.link(outside / "canary", root / "hard")
    disk = bound(root)

    for options in ({"write": True}, {"create": True}):
        with pytest.raises(UnsafePathError, match="2 names"):
            disk.open(f"{root}/hard", **options)
    disk.replace(f"{root}/hard", b"new")  # another file of that name

    assert (outside / "canary").read_bytes() == CANARY
    assert disk.read_file(f"{root}/hard") == b"new"


@pytest.mark.parametrize("options", [{}, {"write": True}, {"create": True}])
def test_pipes_are_refused_at_once(root, options):
    os.mkfifo(root / "pipe")

    with pytest.raises(UnsafePathError, match="pipe"):
        bound(root).open(f"{root}/pipe", **options)


def test_devices_are_refused(tmp_path):
    with pytest.raises(UnsafePathError, match="device"):
        Disk().at("/dev").open("/dev/null")


def test_errors_of_the_system_name_the_whole_path(root):
    disk = bound(root)

    for name in ("nothing", "below/nothing", "nothing/below", "file/below"):
        with pytest.raises(OSError, match=name.partition("/")[0]) as caught:
            disk.open(f"{root}/{name}")
        assert str(caught.value.filename).startswith(f"{root}/")
        assert not disk.exists(f"{root}/{name}")
    for each in (disk, Disk()):
        for call in (each.open, each.read_file, each.create_fresh):
            with pytest.raises(NotAFileError, match="below: a directory is in place of a file; mo"):
                call(f"{root}/below")
        with pytest.raises(NotAFileError, match=f"{root}/below:"):
            each.rename(f"{root}/file", f"{root}/below")
    with pytest.raises(FileNotFoundError) as caught:
        disk.rename(f"{root}/below/nothing", f"{root}/file")
    assert (caught.value.filename, caught.value.filename2) == (
        f"{root}/below/nothing",
        f"{root}/file",
    )
    assert disk.list(f"{root}/nothing") == []


# ------------------------------------------------------------------ several stores


def test_one_disk_serves_two_stores_and_mixes_nothing(tmp_path):
    disk = QuickDisk()
    first, second = disk.at(f"{tmp_path}/1"), disk.at(f"{tmp_path}/2")
    for number in "12":
        disk.make_directory(f"{tmp_path}/{number}")

    first.freeze("closed")
    second.replace(f"{tmp_path}/2/file", b"2")

    with pytest.raises(UnsafePathError):
        second.read_file(f"{tmp_path}/1/file")
    with pytest.raises(DiskFrozenError):
        first.replace(f"{tmp_path}/1/file", b"1")
    disk.replace(f"{tmp_path}/1/file", b"of the disk that is bound to nothing")


def test_a_bound_disk_is_bound_to_what_is_inside_of_its_root_only(root, outside):
    disk = bound(root)
    (root / "link").symlink_to(outside)

    inner = disk.at(f"{root}/below")
    assert inner.read_file(f"{root}/below/file") == b"store's own"
    with pytest.raises(UnsafePathError):
        inner.read_file(f"{root}/file")
    with pytest.raises(UnsafePathError):
        disk.at(str(outside))
    with pytest.raises(UnsafePathError):
        disk.at(f"{root}/link").read_file(f"{root}/link/canary")


def test_what_a_subclass_overrides_and_counts_stays_in_force(root):
    faulty = FaultyDisk()
    disk = faulty.at(str(root))

    disk.replace(f"{root}/file", b"new")
    counted = len(faulty.calls)
    faulty.plan(1)

    assert counted > 3
    with pytest.raises(OSError, match="No space"):
        disk.replace(f"{root}/file", b"newer")
    assert faulty.failed


def test_a_simulated_disk_sees_what_is_done_through_the_bound_one(root, tmp_path):
    simulated = SimulatedDisk(root)
    disk = simulated.at(simulated.directory)

    disk.replace(f"{simulated.directory}/file", b"new")
    state = next(simulated.crash_states())

    assert simulated.points[-1].operation.startswith("after flush directory")
    state.materialize(tmp_path / "after")
    assert (tmp_path / "after" / "file").read_bytes() == b"new"


def test_a_bound_disk_can_be_sent_to_another_process(root, outside):
    (root / "link").symlink_to(outside)
    disk = bound(root)
    disk.list(str(root))

    again = pickle.loads(pickle.dumps(disk))

    assert again.read_file(f"{root}/file") == b"store's own"
    with pytest.raises(UnsafePathError):
        again.read_file(f"{root}/link/canary")
    assert pickle.loads(pickle.dumps(Disk())).follows_links


def test_the_roots_descriptor_is_given_back(root):
    disk = bound(root)
    before = set(os.listdir("/proc/self/fd"))
    disk.list(str(root))

    disk.release()
    disk.release()

    assert set(os.listdir("/proc/self/fd")) <= before
    assert disk.read_file(f"{root}/file") == b"store's own"


# ------------------------------------------------------------------ frozen


CHANGES = {
    "open to write": lambda disk, path, _: disk.open(path, write=True),
    "create": lambda disk, path, _: disk.open(path, create=True),
    "write": lambda disk, _, descriptor: disk.write(descriptor, b"x", 0),
    "allocate": lambda disk, _, descriptor: disk.allocate(descriptor, 10),
    "truncate": lambda disk, _, descriptor: disk.truncate(descriptor, 10),
    "flush": lambda disk, _, descriptor: disk.flush(descriptor),
    "map": lambda disk, _, descriptor: disk.map(descriptor, 4),
    "rename": lambda disk, path, _: disk.rename(path, f"{path}2"),
    "remove": lambda disk, path, _: disk.remove(path),
    "remove directory": lambda disk, path, _: disk.remove_directory(f"{path}/../below"),
    "make directory": lambda disk, path, _: disk.make_directory(f"{path}2"),
    "flush directory": lambda disk, path, _: disk.flush_directory(os.path.dirname(path)),
    "replace": lambda disk, path, _: disk.replace(path, b"x"),
    "create fresh": lambda disk, path, _: disk.create_fresh(path),
}


@pytest.mark.parametrize("follow_links", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_a_disk_that_is_frozen_changes_nothing_and_goes_on_reading(root, change, follow_links):
    disk = bound(root, follow_links=follow_links)
    descriptor = disk.open(f"{root}/file", write=True)
    before = contents(root)

    disk.freeze("the store was closed")

    with pytest.raises(DiskFrozenError, match="the store was closed") as caught:
        CHANGES[change](disk, f"{root}/file", descriptor)
    assert isinstance(caught.value, OSError)
    assert isinstance(caught.value, ReputError)
    assert contents(root) == before
    assert disk.is_frozen
    assert disk.read(descriptor, 5, 0) == b"store"
    assert disk.read_file(f"{root}/below/file") == b"store's own"
    disk.close(descriptor)


def test_threads_that_start_together_open_the_root_once(root):
    disk, barrier, seen = bound(root), threading.Barrier(8), []

    def look():
        barrier.wait()
        seen.append(disk.read_file(f"{root}/below/file"))

    threads = [threading.Thread(target=look) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert seen == [b"store's own"] * 8
    places = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    assert places.count(os.path.realpath(root)) == 1


def test_a_pool_of_a_bound_disk_refuses_links(root, outside):
    (root / "link").symlink_to(outside / "canary")
    pool = FilePool(bound(root), 4)

    with pytest.raises(UnsafePathError):
        pool.read(f"{root}/link", 4, 0)

    assert pool.read(f"{root}/file", 5, 0) == b"store"
    pool.close()


@pytest.mark.parametrize(
    "error",
    [
        UnsafePathError("/a/link", "is a link", ""),
        DiskFrozenError("/a", "closed"),
        NotAFileError("/a/state"),
    ],
)
def test_its_errors_pickle(error):
    again = pickle.loads(pickle.dumps(error))

    assert (type(again), str(again), again.errno) == (type(error), str(error), error.errno)


# ------------------------------------------------------------------ directories on the way


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_link_in_a_directory_that_was_used_is_refused_by_every_operation(
    root, outside, operation
):
    disk = bound(root)
    disk.read_file(f"{root}/below/file")
    (root / "below" / "link").symlink_to(outside)
    before = contents(outside)

    for path in (root / "below" / "link", root / "below" / "link" / "canary"):
        with pytest.raises(UnsafePathError, match="/below/link: is a symbolic link"):
            OPERATIONS[operation](disk, str(path))
    for path in (root / "below" / ".." / ".." / "outside" / "canary", root / "below" / ".."):
        with pytest.raises(UnsafePathError):
            OPERATIONS[operation](disk, str(path))

    assert contents(outside) == before


def test_a_directory_is_looked_at_once_and_a_missing_one_every_time(root, outside, monkeypatch):
    disk, looked = bound(root), []
    system = os.stat
    monkeypatch.setattr(os, "stat", lambda path, **way: looked.append(path) or system(path, **way))

    disk.read_file(f"{root}/below/file")
    disk.read_file(f"{root}/below//file")
    assert looked == ["below"]

    for _ in range(2):
        assert disk.read_if_exists(f"{root}/nothing/canary") is None
    (root / "nothing").symlink_to(outside)
    with pytest.raises(UnsafePathError):
        disk.read_file(f"{root}/nothing/canary")


@pytest.mark.parametrize("known", [1, 2])
def test_many_directories_take_no_more_memory_than_some(root, outside, monkeypatch, known):
    monkeypatch.setattr(storeroot, "_KNOWN_MAX", known)
    disk = bound(root)
    for name in ("a/b/c", "d/e", "a/b"):
        disk.make_directory(f"{root}/{name}")
        disk.replace(f"{root}/{name}/file", name.encode())
        assert disk.read_file(f"{root}/{name}/file") == name.encode()

    (root / "a" / "link").symlink_to(outside)
    with pytest.raises(UnsafePathError):
        disk.replace(f"{root}/a/link/canary", b"x")


def test_a_directory_that_changed_its_name_is_found_there(root):
    disk = bound(root)
    disk.make_directory(f"{root}/fresh/deep")
    disk.replace(f"{root}/fresh/deep/file", b"new")

    disk.rename(f"{root}/below", f"{root}/old")
    disk.rename(f"{root}/fresh", f"{root}/below")

    assert disk.read_file(f"{root}/below/deep/file") == b"new"
    assert not disk.exists(f"{root}/below/file")
    disk.remove_tree(f"{root}/old")
    assert not disk.exists(f"{root}/old/file")
