"""Documents that a broker keeps in RocksDB: they are read, and a change is refused."""

from __future__ import annotations

import shutil
import sys

import pytest
from brokerdirectories import snapshot, unpacked

from reput.files import Disk
from reput_tools.brokerfiles import BrokerDocument, DatabaseDocumentError, UnreadableDocumentError

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


def test_a_file_counts_for_more_than_a_database(root):
    (root / "config" / "topics.json").write_text('{"topicConfigTable":{"news":{}}}')

    assert document(root, "topics.json", []).read() == {"topicConfigTable": {"news": {}}}


@pytest.mark.parametrize("case", ["no package", "damaged", "another release"])
def test_a_database_that_cannot_be_read_is_a_problem(case, root, monkeypatch):
    config = root / "config"
    if case == "no package":
        monkeypatch.setitem(sys.modules, "rocksdict", None)
        reason = r"\[rocksdb\]"
    elif case == "damaged":
        pytest.importorskip("rocksdict")
        (config / "topics" / "CURRENT").write_bytes(b"?")
        reason = "cannot be read"
    else:
        shutil.move(config / "topics", config / "rdb")
        reason = "configManagerVersion=v2"
    problems: list[str] = []
    of_broker = document(root, "topics.json", problems)

    assert of_broker.read() == {}
    assert len(problems) == 1
    with pytest.raises(UnreadableDocumentError, match=reason):
        of_broker.require()
