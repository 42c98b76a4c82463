"""`BrokerDocument`: a file is changed, and what cannot be read of it is never lost."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from reput.errors import ReputError
from reput.files import Disk
from reput_testing import SimulatedDisk
from reput_tools.brokerfiles import (
    BrokerDocument,
    UnreadableDocumentError,
    copies_in,
    decode,
    keep_copy,
)

NOW = 1_700_000_000_000
TORN = b'{"table":{"one":1,"tw'
OTHER = b'{"table":{"zero":0}}'


def document(directory, *, disk=None, problems=None, **options) -> BrokerDocument:
    note = (problems if problems is not None else []).append
    return BrokerDocument(str(directory), "f.json", disk or Disk(), lambda: NOW, note, **options)


class Unreadable(Disk):
    """A disk whose backups belong to another user."""

    def read_file(self, path: str, limit: int) -> bytes:
        if path.endswith(".bak"):
            raise PermissionError(f"{path}: no permission")
        return super().read_file(path, limit)


def put(name, value):
    def edit(found: dict[str, Any]) -> bool:
        table = found.setdefault("table", {})
        before = table.get(name)
        table[name] = value
        return before != value

    return edit


def table_in(path):
    return decode(path.read_bytes())["table"]


@pytest.mark.parametrize(
    ("main", "backup", "found", "told"),
    [
        (None, None, {}, 0),
        (b'{"a":1}', b'{"a":2}', {"a": 1}, 0),
        (None, b'{"a":2}', {"a": 2}, 0),
        (b"{", b'{"a":2}', {"a": 2}, 1),
        (b"", b'{"a":2}', {"a": 2}, 1),
        (bytes(9), b'{"a":2}', {"a": 2}, 1),
        (b"[]", b"", {}, 2),
    ],
)
def test_the_backup_is_read_where_the_file_says_nothing(tmp_path, main, backup, found, told):
    problems: list[str] = []
    if main is not None:
        (tmp_path / "f.json").write_bytes(main)
    if backup is not None:
        (tmp_path / "f.json.bak").write_bytes(backup)

    assert document(tmp_path, problems=problems).read() == found
    assert len(problems) == told


def test_a_change_counts_the_version_up_and_keeps_what_was_before_as_the_backup(tmp_path):
    file = document(tmp_path)

    assert [file.change(put("a", number)) for number in (1, 2, 2)] == [True, True, False]

    version = {"counter": 2, "stateVersion": 0, "timestamp": NOW}
    assert json.loads((tmp_path / "f.json").read_bytes()) == {
        "dataVersion": version,
        "table": {"a": 2},
    }
    assert table_in(tmp_path / "f.json.bak") == {"a": 1}


def test_members_that_only_others_know_are_kept(tmp_path):
    (tmp_path / "f.json").write_bytes(b'{"own":[1,{"x":null}],"table":{"b":2}}')

    document(tmp_path).change(put("a", 1))

    found = decode((tmp_path / "f.json").read_bytes())
    assert (found["own"], found["table"]) == ([1, {"x": None}], {"a": 1, "b": 2})


# ------------------------------------------------------------------ what cannot be read


@pytest.mark.parametrize(
    ("main", "backup"), [(TORN, None), (None, TORN), (TORN, TORN), (TORN, b""), (bytes(40), None)]
)
def test_a_change_is_refused_where_neither_file_can_be_read(tmp_path, main, backup):
    files = {"f.json": main, "f.json.bak": backup}
    for name, data in files.items():
        if data is not None:
            (tmp_path / name).write_bytes(data)
    file = document(tmp_path)

    with pytest.raises(UnreadableDocumentError, match="not overwritten") as caught:
        file.change(put("a", 1))

    assert isinstance(caught.value, ReputError)
    assert isinstance(caught.value, OSError)  # as callers expect of a file that is not written
    there = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    assert there == {name: data for name, data in files.items() if data is not None}


def test_a_file_that_was_corrected_can_be_changed_again(tmp_path):
    file = document(tmp_path)
    (tmp_path / "f.json").write_bytes(TORN)
    file.read()
    with pytest.raises(UnreadableDocumentError):
        file.require()

    (tmp_path / "f.json").write_bytes(b'{"table":{"one":1,"two":2}}')

    assert file.change(put("three", 3))
    file.require()
    assert table_in(tmp_path / "f.json") == {"one": 1, "two": 2, "three": 3}


def test_a_missing_and_an_empty_file_are_no_obstacle(tmp_path):
    (tmp_path / "f.json").write_bytes(b"")

    assert document(tmp_path).change(put("a", 1))

    assert table_in(tmp_path / "f.json") == {"a": 1}
    assert copies_in(Disk(), str(tmp_path), "f.json") == []


def test_a_change_that_begins_with_the_backup_keeps_a_copy_of_the_file(tmp_path):
    problems: list[str] = []
    (tmp_path / "f.json").write_bytes(TORN)
    (tmp_path / "f.json.bak").write_bytes(OTHER)
    file = document(tmp_path, problems=problems)

    file.change(put("a", 1))
    file.change(put("a", 2))

    assert table_in(tmp_path / "f.json") == {"zero": 0, "a": 2}
    assert (tmp_path / "f.json.unreadable").read_bytes() == TORN
    assert file.copies == ["f.json.unreadable"]
    assert any("f.json.unreadable" in each for each in problems)


def test_a_change_that_may_begin_anew_keeps_copies_of_both_files(tmp_path):
    (tmp_path / "f.json").write_bytes(TORN)
    (tmp_path / "f.json.bak").write_bytes(b"[")
    file = document(tmp_path, starts_again=True)

    file.change(put("a", 1))
    file.change(put("a", 2))

    assert table_in(tmp_path / "f.json") == {"a": 2}
    assert {each: (tmp_path / each).read_bytes() for each in file.copies} == {
        "f.json.unreadable": TORN,
        "f.json.bak.unreadable": b"[",
    }


@pytest.mark.parametrize("main", [TORN, b"", None])
def test_a_backup_that_the_disk_does_not_give_is_never_overwritten(tmp_path, main):
    if main is not None:
        (tmp_path / "f.json").write_bytes(main)
    (tmp_path / "f.json.bak").write_bytes(OTHER)
    file = document(tmp_path, disk=Unreadable(), starts_again=True)

    with pytest.raises(UnreadableDocumentError, match="no permission"):
        file.change(put("a", 1))

    assert (tmp_path / "f.json.bak").read_bytes() == OTHER
    kept = tmp_path / "f.json"
    assert (kept.read_bytes() if kept.exists() else None) == main


def test_a_file_that_is_too_long_for_a_whole_copy_is_not_overwritten(tmp_path, monkeypatch):
    monkeypatch.setattr("reput_tools.brokerfiles.brokerdocument._SIZE_MAX", len(OTHER))
    (tmp_path / "f.json").write_bytes(OTHER + b"  ")
    (tmp_path / "f.json.bak").write_bytes(OTHER)
    file = document(tmp_path, starts_again=True)

    with pytest.raises(UnreadableDocumentError, match="more than"):
        file.change(put("a", 1))

    assert (tmp_path / "f.json").read_bytes() == OTHER + b"  "


def test_replacing_a_document_keeps_a_copy_too(tmp_path):
    (tmp_path / "f.json").write_bytes(TORN)
    file = document(tmp_path, is_versioned=False)

    assert [file.replace({"a": 1}), file.replace({"a": 1})] == [True, False]

    assert json.loads((tmp_path / "f.json").read_bytes()) == {"a": 1}
    assert (tmp_path / "f.json.unreadable").read_bytes() == TORN


def test_bytes_that_are_no_text_are_read_as_brokers_do_and_kept(tmp_path):
    data = '{"table":{"größe":1}}'.encode("latin-1")
    (tmp_path / "f.json").write_bytes(data)

    document(tmp_path).change(put("a", 2))

    assert table_in(tmp_path / "f.json") == {"gr\ufffd\ufffde": 1, "a": 2}
    assert (tmp_path / "f.json.unreadable").read_bytes() == data


def test_a_document_that_says_something_else_counts_as_unreadable(tmp_path):
    def check(found):
        if not isinstance(found.get("table", {}), dict):
            raise ValueError("table is not an object")

    (tmp_path / "f.json").write_bytes(b'{"table":[1]}')
    file = document(tmp_path, check=check)

    assert file.read() == {}
    with pytest.raises(UnreadableDocumentError, match="table is not an object"):
        file.change(put("a", 1))
    assert (tmp_path / "f.json").read_bytes() == b'{"table":[1]}'


def test_each_unreadable_version_is_kept_once_and_there_is_a_bound(tmp_path):
    path = str(tmp_path / "f.json")

    copies = [keep_copy(Disk(), path, data) for data in (b"1", b"2", b"1", b"2")]
    for number in range(3, 10):
        keep_copy(Disk(), path, b"%d" % number)

    assert copies == [f"{path}.unreadable", f"{path}.unreadable-2"] * 2
    with pytest.raises(OSError, match="9 unreadable versions"):
        keep_copy(Disk(), path, b"10")
    assert len(copies_in(Disk(), str(tmp_path), "f.json")) == 9


def test_the_unreadable_bytes_survive_a_power_cut_at_every_operation(tmp_path):
    (tmp_path / "store" / "config").mkdir(parents=True)
    (tmp_path / "store" / "config" / "f.json").write_bytes(TORN)
    (tmp_path / "store" / "config" / "f.json.bak").write_bytes(OTHER)
    disk = SimulatedDisk(tmp_path / "store", lambda: None)
    file = document(tmp_path / "store" / "config", disk=disk)

    file.change(put("a", 1))
    file.change(put("a", 2))

    count = 0
    for number, point in enumerate([*disk.points, disk.now()]):
        for other, state in enumerate(point.states()):
            root = tmp_path / f"cut {number} {other}"
            state.materialize(root)
            found = [each.read_bytes() for each in (root / "config").iterdir()]
            assert TORN in found
            count += 1
    assert count > 10


def test_a_plugin_that_opens_leaves_the_change_of_another_alone(tmp_path):
    """One opens again while another is between the new file and its name."""
    opened = []

    class Between(Disk):
        def rename(self, source, target, **options):
            opening = threading.Thread(target=finish)
            opened.append(opening)
            opening.start()
            opening.join(0.05)  # long enough to remove the new file
            super().rename(source, target, **options)

    def finish():
        document(tmp_path).finish_replacing(flush=False)

    changed = document(tmp_path, disk=Between())
    assert changed.change(put("one", 1))
    for each in opened:
        each.join()

    assert opened
    assert table_in(tmp_path / "f.json") == {"one": 1}


def test_changes_on_two_threads_come_one_after_the_other(tmp_path):
    files = [document(tmp_path) for _ in range(3)]

    def add(found):
        found["table"] = {"a": found.get("table", {}).get("a", 0) + 1}
        return True

    def change(file):
        for _ in range(20):
            file.change(add)

    threads = [threading.Thread(target=change, args=[each]) for each in files]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert files[0].read()["table"] == {"a": 60}
