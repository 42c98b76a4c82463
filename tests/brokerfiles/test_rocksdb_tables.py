"""Documents that a broker keeps in RocksDB: they are read, and a change is refused."""

from __future__ import annotations

import contextlib
import errno
import gzip
import json
import os
import shutil
import sys

import pytest
from brokerdirectories import GOLDEN, snapshot, unpacked
from hypothesis import given
from hypothesis import strategies as st

from reput.files import Disk
from reput_tools.brokerfiles import (
    BrokerDocument,
    DatabaseDocumentError,
    UnreadableDocumentError,
    decode,
    rocksdbrows,
)
from reput_tools.brokerfiles.settingsv2 import document_of_v2, unknown_tables
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


@pytest.mark.parametrize("case", ["settings-v2", "settings-single"])
def test_one_database_for_all_settings_says_what_its_broker_answered(case, tmp_path):
    pytest.importorskip("rocksdict")
    root = unpacked(f"rocketmq-5.5.0/{case}", tmp_path)
    before, problems = snapshot(root), []
    with gzip.open(GOLDEN / "rocketmq-5.5.0" / case / "expected.jsonl.gz") as lines:
        rows = [json.loads(line) for line in lines]
    kinds = {"topics": "topics.json", "groups": "subscriptionGroup.json"}
    answers = {
        file: decode(row["document"].encode())
        for row in rows
        if (file := {**kinds, "offsets": "consumerOffset.json"}.get(row["kind"]))
    }

    for name, (table, key) in TABLES.items():
        found, answer = document(root, name, problems).read(), answers[name]
        key = key.replace("CG1", "billing")
        assert found[table][key] == answer[table][key]
        # A broker does not keep all that it creates itself, and v2 keeps nothing of it.
        own = {each for each in answer[table] if each not in {"orders", "payments", "stock"}}
        assert found[table].items() <= answer[table].items()
        assert name != "consumerOffset.json" or found[table] == answer[table]
        assert answer[table].keys() - found[table].keys() <= own
        version = found.get("dataVersion", answer["dataVersion"])
        assert answer["dataVersion"]["counter"] - version["counter"] in range(3)

    assert not problems
    assert snapshot(root) == before


V2_KEY = b"\x01\x00\x03\x02\x00\x04news"
"""Of a topic."""
OFFSET_KEY = b"\x01\x00\x01\x02\x00\x01g\x01\x00\x01t\x01\x00\x00\x00\x07"


@pytest.mark.parametrize(
    ("key", "value", "name", "reason"),
    [
        (b"orders", b"{}", "topics.json", "not a row of a table"),
        (V2_KEY, b"\x02{}", "topics.json", "serialization 02"),
        (V2_KEY, b"", "topics.json", "serialization of nothing"),
        (V2_KEY, b"\x01[]", "topics.json", "JSON object"),
        (V2_KEY[:-1], b"\x01{}", "topics.json", "cut off"),
        (V2_KEY + b"x", b"\x01{}", "topics.json", "after the name"),
        (b"\x01\x00\x03\x03", b"", "topics.json", "unknown kind"),
        (b"\x01\x00\x03\x01data_version", b"12", "topics.json", "24 bytes"),
        (OFFSET_KEY, b"1234567", "consumerOffset.json", "8 bytes"),
        (OFFSET_KEY[:-2], b"12345678", "consumerOffset.json", "4 bytes"),
        (
            OFFSET_KEY.replace(b"\x01t\x01", b"\x01t\x02"),
            b"12345678",
            "consumerOffset.json",
            "separator",
        ),
        (OFFSET_KEY.replace(b"g", b"\xff"), b"12345678", "consumerOffset.json", "utf-8"),
    ],
)
def test_a_row_of_v2_that_is_not_known_is_a_problem_of_its_document(
    key, value, name, reason, tmp_path
):
    pytest.importorskip("rocksdict")
    root = unpacked("rocketmq-5.5.0/settings-v2", tmp_path)
    other = "subscriptionGroup.json"
    wanted = document(root, other, []).read()
    put_row(root / "config" / "rdb", key, value)
    problems: list[str] = []
    of_broker = document(root, name, problems)

    assert of_broker.read() == {}
    with pytest.raises(UnreadableDocumentError, match=reason):
        of_broker.require()
    assert len(problems) == 1
    assert document(root, other, []).read() == ({} if key == b"orders" else wanted)


@given(
    st.dictionaries(
        st.one_of(st.binary(max_size=12), st.binary(max_size=20).map(lambda end: V2_KEY[:4] + end)),
        st.one_of(st.binary(max_size=9), st.binary(max_size=9).map(lambda end: b"\x01{" + end)),
        max_size=4,
    ),
    st.sampled_from(sorted(TABLES)),
)
def test_any_rows_of_v2_are_a_document_or_an_error_of_values(rows, name):
    with contextlib.suppress(ValueError):
        assert set(document_of_v2(rows, name)) <= {*TABLES[name], "pullOffsetTable", "dataVersion"}
    with contextlib.suppress(ValueError):
        unknown_tables(rows)


def test_tables_of_v2_that_are_not_known_are_named(tmp_path):
    pytest.importorskip("rocksdict")
    root = unpacked("rocketmq-5.5.0/settings-v2", tmp_path)
    wanted = document(root, "topics.json", []).read()
    put_row(root / "config" / "rdb", b"\x01\x00\x05\x02news", b"?")
    put_row(root / "config" / "rdb", OFFSET_KEY, b"\0\0\0\0\0\0\0\x09")
    problems: list[str] = []
    of_broker = document(root, "topics.json", problems)

    assert of_broker.read() == wanted
    assert of_broker.read() == wanted
    assert ["its tables 5 are not shown" in each for each in problems] == [True]
    offsets = document(root, "consumerOffset.json", []).read()["offsetTable"]
    assert offsets["t@g"] == {"7": 9}


def test_a_database_beside_that_was_changed_later_is_named(root, tmp_path):
    pytest.importorskip("rocksdict")
    newest = unpacked("rocketmq-5.5.0/settings-v2", tmp_path / "v2")
    shutil.copytree(root / "config" / "topics", newest / "config" / "topics")
    (newest / "config" / "topics.json").write_text('{"dataVersion":{"counter":9999}}')
    problems: list[str] = []
    of_broker = document(newest, "topics.json", problems)

    wanted = of_broker.read()
    assert not problems  # the other one is older, and brokers with v2 do not read the file
    version = b'{"counter":1,"timestamp":9999999999999}'
    put_row(newest / "config" / "topics", b"kvDataVersionKey", version, "kvDataVersion")
    assert of_broker.read() == wanted
    assert ["changed later" in each for each in problems] == [True]


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


def put_row(path, key, value, family="default"):
    rocksdict = pytest.importorskip("rocksdict")
    families = rocksdict.Rdict.list_cf(str(path))
    raw = rocksdict.Options(raw_mode=True)
    database = rocksdict.Rdict(
        str(path),
        options=raw,
        column_families={each: rocksdict.Options(raw_mode=True) for each in families},
    )
    database.get_column_family(family)[key] = value
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
    "too many rows",
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
    elif case == "too many rows":
        pytest.importorskip("rocksdict")
        monkeypatch.setattr(rocksdbrows, "_ROWS_SIZE_MAX", 1_000)
        reason = "rows have more than"
    elif case == "not read":
        pytest.importorskip("rocksdict")
        monkeypatch.setattr(Disk, "read_file", not_permitted)
        reason = "Permission denied"
    else:
        name = "rdb" if case == "another release" else "metadata"
        shutil.copytree(config / "topics", config / name)
        (config / "topics.json").write_text('{"topicConfigTable":{}}')
        reason = "not a row of a table" if name == "rdb" else "column family 'topic' does not exist"
    problems: list[str] = []
    of_broker = document(root, "topics.json", problems)

    assert of_broker.read() == {}
    assert len(problems) == 1
    with pytest.raises(UnreadableDocumentError, match=reason):
        of_broker.require()
