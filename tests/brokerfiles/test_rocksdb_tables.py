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
from reput_tools.brokerfiles import BrokerDocument, DatabaseDocumentError, UnreadableDocumentError
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


def not_permitted(_disk, path):
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


CASES = ["no package", "damaged", "another release", "one for all", "no permission"]


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
