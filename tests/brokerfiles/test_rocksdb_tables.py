"""Documents that a broker keeps in RocksDB: they are read, and a change is refused."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys

import pytest
from brokerdirectories import snapshot, unpacked

from reput.files import Disk
from reput_tools.brokerfiles import (
    BrokerDocument,
    DatabaseDocumentError,
    UnreadableDocumentError,
    rocksdbrows,
)
from reput_tools.doctor.convert.settingsfiles import settings_files

TABLES = {
    "topics.json": ("topicConfigTable", "orders"),
    "subscriptionGroup.json": ("subscriptionGroupTable", "CG1"),
    "consumerOffset.json": ("offsetTable", "orders@CG1"),
}


@pytest.fixture
def root(tmp_path):
    return unpacked("rocketmq-5.5.0/rocksdb-queues", tmp_path)


def document(root, name, problems):
    return BrokerDocument(str(root / "config"), name, Disk(), lambda: 1, problems.append)


@pytest.mark.parametrize("name", TABLES)
def test_a_document_in_rocksdb_is_read_and_not_written(name, root):
    pytest.importorskip("rocksdict")
    before, problems = snapshot(root), []
    of_broker = document(root, name, problems)
    table, key = TABLES[name]

    assert of_broker.exists
    assert of_broker.read()[table][key]
    for starts_again in (False, True):
        of_broker.starts_again = starts_again
        with pytest.raises(DatabaseDocumentError, match="reput convert"):
            of_broker.change(lambda found: bool(found.setdefault("a", 1)))
    with pytest.raises(DatabaseDocumentError):
        of_broker.replace({table: {}})

    assert not problems
    assert snapshot(root) == before


@pytest.mark.parametrize("suffix", ["", ".bak"])
@pytest.mark.parametrize(
    ("text", "is_newer"),
    [
        ("", False),
        ("{", False),
        ('{"offsetTable":{"orders@CG1":{0:0}}}', False),
        ('{"dataVersion":{"counter":99999},"offsetTable":{"orders@CG1":{0:0}}}', True),
    ],
)
def test_a_database_counts_for_more_than_a_file(text, is_newer, suffix, root):
    pytest.importorskip("rocksdict")
    name = "consumerOffset.json"
    wanted = document(root, name, []).read()
    (root / "config" / f"{name}{suffix}").write_text(text)
    before, problems = snapshot(root), []
    of_broker = document(root, name, problems)
    of_broker.starts_again = True

    assert of_broker.read() == wanted
    for refused in (
        lambda: of_broker.change(lambda found: bool(found.update(offsetTable={}) or True)),
        lambda: of_broker.replace({"offsetTable": {}}),
    ):
        with pytest.raises(DatabaseDocumentError):
            refused()
    told: list[str] = []
    settings = settings_files(str(root), Disk(), told.append)

    assert json.loads(settings[name]) == wanted
    assert told == problems
    assert [f"{name}{suffix}" in each and "newer" in each for each in told] == [True] * is_newer
    assert snapshot(root) == before


def put_row(path, key, value):
    rocksdict = pytest.importorskip("rocksdict")
    families = rocksdict.Rdict.list_cf(str(path))
    raw = rocksdict.Options(raw_mode=True)
    database = rocksdict.Rdict(
        str(path),
        options=raw,
        column_families={each: rocksdict.Options(raw_mode=True) for each in families},
    )
    database.get_column_family("default")[key] = value
    database.close()


@pytest.mark.parametrize("change", ["removed", "removed twice", "added"])
def test_a_database_that_changes_while_it_is_copied_is_copied_once_more(change, root, monkeypatch):
    pytest.importorskip("rocksdict")
    wanted = document(root, "topics.json", []).read()
    listed, read, calls = Disk.list, Disk.read_file, []

    def list_without_new_one(disk, path):
        found = listed(disk, path)
        if change == "added" and path.endswith("topics"):
            calls.append(path)
            return [each for each in found if len(calls) > 1 or each.name != "CURRENT"]
        return found

    def read_one_that_is_removed(disk, path, *limit):
        if change != "added" and path.endswith("CURRENT"):
            calls.append(path)
            if len(calls) == 1 or change == "removed twice":
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return read(disk, path, *limit)

    monkeypatch.setattr(Disk, "list", list_without_new_one)
    monkeypatch.setattr(Disk, "read_file", read_one_that_is_removed)
    problems: list[str] = []

    assert document(root, "topics.json", problems).read() == (
        {} if change == "removed twice" else wanted
    )
    assert len(calls) > 1
    assert ["No such file" in each for each in problems] == [True] * (change == "removed twice")


def not_permitted(_disk, path, *_):
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


CASES = [
    "no package",
    "damaged",
    "another release",
    "one for all",
    "no permission",
    "a row is a list",
    "a row is deep",
    "too large",
    "not read",
]


@pytest.mark.parametrize("case", CASES)
def test_a_database_that_cannot_be_read_is_a_problem(case, root, monkeypatch):
    config = root / "config"
    if case == "no package":
        monkeypatch.setitem(sys.modules, "rocksdict", None)
        reason = r"\[rocksdb\]"
    elif case == "damaged":
        pytest.importorskip("rocksdict")
        (config / "topics" / "CURRENT").write_bytes(b"?")
        reason = "cannot be read"
    elif case == "no permission":
        (config / "topics.json").write_text('{"topicConfigTable":{}}')
        monkeypatch.setattr(Disk, "exists", not_permitted)
        reason = "Permission denied"
    elif case.startswith("a row"):
        value = b"[1]" if case == "a row is a list" else b'{"a":' * 100_000
        put_row(config / "topics", b"news", value)
        reason = "rows cannot be read"
    elif case == "too large":
        pytest.importorskip("rocksdict")
        sizes = [each.stat().st_size for each in (config / "topics").iterdir()]
        monkeypatch.setattr(rocksdbrows, "_SIZE_MAX", sum(sizes) - 1)
        reason = "more than"
    elif case == "not read":
        pytest.importorskip("rocksdict")
        monkeypatch.setattr(Disk, "read_file", not_permitted)
        reason = "Permission denied"
    else:
        name = "rdb" if case == "another release" else "metadata"
        shutil.copytree(config / "topics", config / name)
        (config / "topics.json").write_text('{"topicConfigTable":{}}')
        reason = rf"config/{name} .*does not read"
    problems: list[str] = []
    of_broker = document(root, "topics.json", problems)

    assert of_broker.read() == {}
    assert len(problems) == 1
    with pytest.raises(UnreadableDocumentError, match=reason):
        of_broker.require()
