"""A log on a file system of Arrow's reads like one on this machine's disk, and is never changed."""

from __future__ import annotations

import ast
import inspect
import os
import textwrap

import pyarrow.fs
import pytest
from sparkstores import messages_of

from reput.files import Disk
from reput_arrow.logs import arrowdisk
from reput_arrow.logs.arrowdisk import ArrowDisk, LocalDisk, disk_of
from reput_spark import ReadOptions
from reput_spark.reader.tasks import plan_tasks, read_task
from reput_spark.source.schema import arrow_schema, spark_schema


class Handler(pyarrow.fs.FileSystemHandler):
    """A file system in Python, as that of a store of objects would be: files in a dictionary."""

    def __init__(self, root):
        self.files = {
            os.path.relpath(path, root): path.read_bytes()
            for path in root.rglob("*")
            if path.is_file()
        }
        self.opened = []

    def get_type_name(self):
        return "dictionary"

    def normalize_path(self, path):
        return path

    def _about(self, path):
        if path in self.files:
            return pyarrow.fs.FileInfo(
                path, pyarrow.fs.FileType.File, size=len(self.files[path]), mtime_ns=5_000_000
            )
        is_above = any(name.startswith(f"{path}/") for name in self.files)
        kind = pyarrow.fs.FileType.Directory if is_above else pyarrow.fs.FileType.NotFound
        return pyarrow.fs.FileInfo(path, kind)

    def get_file_info(self, paths):
        return [self._about(path.strip("/")) for path in paths]

    def get_file_info_selector(self, selector):
        prefix = selector.base_dir.strip("/") + "/"
        inside = {
            name.removeprefix(prefix).split("/")[0]
            for name in self.files
            if name.startswith(prefix)
        }
        return [self._about(prefix + name) for name in sorted(inside, reverse=True)]

    def open_input_file(self, path):
        if path.strip("/") not in self.files:
            raise FileNotFoundError(path)  # as the file systems of Arrow do
        self.opened.append(path)
        return pyarrow.PythonFile(pyarrow.BufferReader(self.files[path.strip("/")]), mode="r")

    def _refuse(self, *args):
        raise AssertionError("nobody may change anything")

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refuse
    delete_file = move = copy_file = open_output_stream = open_append_stream = _refuse
    open_input_stream = _refuse


@pytest.fixture(params=["handler", "subtree"])
def system(request, plain_store, tmp_path):
    """A file system that is not the local one, with the store in its directory ``bucket``."""
    if request.param == "handler":
        handler = Handler(plain_store)
        handler.files = {f"bucket/{name}": data for name, data in handler.files.items()}
        return pyarrow.fs.PyFileSystem(handler)
    (tmp_path / "bucket").symlink_to(plain_store)
    return pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())


@pytest.fixture
def elsewhere(system, monkeypatch):
    """Makes URIs of the scheme ``else`` lead to that file system."""
    monkeypatch.setattr(
        arrowdisk, "_system_of", lambda uri: (system, uri.removeprefix("else://").partition("?")[0])
    )


@pytest.mark.parametrize("split_size", ["65536", "file"])
def test_a_log_elsewhere_reads_like_one_here(elsewhere, plain_store, split_size):
    schema = arrow_schema(spark_schema(["physical_offset", "body", "store"]))
    options = ReadOptions.parse({"path": "else://bucket?region=x", "split_size": split_size})

    rows = [
        row
        for task in plan_tasks(options)
        for batch in read_task(task, options, schema)
        for row in batch.to_pylist()
    ]

    assert rows == [
        {
            "physical_offset": message.physical_offset,
            "body": message.body,
            "store": "else://bucket?region=x",
        }
        for message in messages_of(plain_store)
    ]


def test_one_file_elsewhere_is_read_alone(elsewhere, plain_store):
    name = sorted(path.name for path in (plain_store / "commitlog").iterdir())[1]
    options = ReadOptions.parse({"path": f"else://bucket/commitlog/{name}"})

    (task,) = plan_tasks(options)

    assert task.split.start_offset == int(name)
    assert task.place.directory == "else://bucket/commitlog"


def test_what_is_there_is_listed_as_by_the_system(system, plain_store):
    disk = ArrowDisk(system)
    log = plain_store / "commitlog"

    found = [
        (entry.name, entry.is_file(), entry.is_dir(), entry.stat().st_size)
        for entry in disk.list("bucket/commitlog")
    ]

    assert found == [
        (entry.name, entry.is_file(), entry.is_dir(), entry.stat().st_size)
        for entry in Disk().list(str(log))
    ]
    assert disk.list("bucket/nothing") == []
    assert disk.exists("bucket/commitlog")
    assert not disk.exists("bucket/nothing")


def test_a_file_is_read_at_any_place_and_ends_where_it_ends(system, plain_store):
    disk = ArrowDisk(system)
    name = sorted(path.name for path in (plain_store / "commitlog").iterdir())[0]
    data = (plain_store / "commitlog" / name).read_bytes()

    descriptor = disk.open(f"bucket/commitlog/{name}")
    buffer = bytearray(100)

    assert disk.size(descriptor) == len(data)
    assert disk.read(descriptor, 50, 30) == data[30:80]
    assert disk.read(descriptor, 50, len(data) - 5) == data[-5:]
    assert disk.read_into(descriptor, memoryview(buffer), len(data) - 40) == 40
    assert buffer[:40] == data[-40:]
    assert disk.data_ranges(descriptor, 5, 10) == [(5, 10)]
    assert disk.data_ranges(descriptor, 5, 5) == []
    assert disk.is_whole(descriptor, len(data))
    assert not disk.is_whole(descriptor, len(data) + 1)
    assert disk.modified_ms(f"bucket/commitlog/{name}") > 0
    disk.close(descriptor)
    with pytest.raises(KeyError):
        disk.read(descriptor, 1, 0)


def test_a_file_that_is_not_there_has_no_time(system):
    with pytest.raises(FileNotFoundError):
        ArrowDisk(system).modified_ms("bucket/nothing")


def test_every_other_operation_is_refused_and_reaches_no_file_of_the_system(tmp_path):
    disk = ArrowDisk(pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem()))
    reading = {"open", "close", "is_whole", "size", "read", "read_into", "data_ranges", "exists"}
    reading |= {"modified_ms", "list", "list_names"}
    # Which call the others.
    made_of_these = {"read_file", "read_if_exists", "read_pieces", "write", "write_pieces"}
    made_of_these |= {
        "create_fresh",
        "clear",
        "monotonic",
        "sleep",
        "at",
        "freeze",
        "release",
        "hold",
        "share_descriptors",
    }  # of disks of the system's own files
    names = [
        name
        for name, _ in inspect.getmembers(Disk, inspect.isfunction)
        if name not in reading | made_of_these and name[0] != "_"
    ]
    assert len(names) > 10

    for name in names:
        count = len(inspect.signature(getattr(Disk, name)).parameters) - 1
        with pytest.raises(PermissionError, match="only read"):
            getattr(disk, name)(*[0] * count)
    with pytest.raises(PermissionError, match="only read"):
        disk.write(1, b"x", 0)
    with pytest.raises(PermissionError, match="only read"):
        disk.open("x", create=True)
    assert list(tmp_path.iterdir()) == []


def test_no_operation_that_is_taken_over_touches_the_systems_files():
    for name in ("read_file",):
        tree = ast.parse(textwrap.dedent(inspect.getsource(getattr(Disk, name))))
        used = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not any(each.startswith("os.") for each in used)


def test_local_paths_need_no_arrow(tmp_path):
    for path in (str(tmp_path), f"file://{tmp_path}", f"file:{tmp_path}"):
        disk, inside = disk_of(path)

        assert type(disk) is LocalDisk
        assert inside == str(tmp_path)
