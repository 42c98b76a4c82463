"""`brokerjson`: files as RocketMQ's brokers write them come out as they went in."""

from __future__ import annotations

import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.files import Disk, brokerjson

FILE = """{
\t"of":{
\t\t"a \\"{1:2}\\" b":{0:12,-1:10
\t\t},
\t\t"none":{}
\t},
\t"l":["{7:8}",1]
}"""
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
KEYS = st.dictionaries(TEXTS, st.integers()) | st.dictionaries(
    st.integers().map(brokerjson.BareKey), st.integers()
)


def test_a_file_that_is_read_and_written_has_the_same_bytes():
    assert brokerjson.encode(brokerjson.decode(FILE.encode())) == FILE


def test_keys_without_quotes_are_found_as_if_they_had_some():
    found = brokerjson.decode(b'{ 5 :6, "7":{-8\n:9},"note":"{1:2}, 3:4"}')

    assert found == {"5": 6, "7": {"-8": 9}, "note": "{1:2}, 3:4"}


@given(st.recursive(st.none() | st.integers() | TEXTS, lambda inner: KEYS | st.lists(inner)))
def test_what_is_written_is_read_back(document):
    assert brokerjson.decode(brokerjson.encode(document).encode()) == document


@given(st.recursive(st.integers() | TEXTS, lambda inner: st.dictionaries(TEXTS, inner)))
def test_without_bare_keys_it_is_the_json_that_everyone_writes(document):
    text = json.dumps(document, indent="\t", ensure_ascii=False, separators=(",", ":"))

    assert brokerjson.encode(document) == text


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[" * 200_000, b"{1:}", b"{1.5:2}"])
def test_what_is_no_document_is_a_value_error(data):
    with pytest.raises(ValueError, match=r"."):
        brokerjson.decode(data)


@pytest.mark.parametrize(
    ("main", "backup", "found", "told"),
    [
        (None, None, None, 0),
        (b'{"a":1}', b'{"a":2}', {"a": 1}, 0),
        (None, b'{"a":2}', {"a": 2}, 0),
        (b"{", b'{"a":2}', {"a": 2}, 1),
        (b"[]", b"", None, 2),
    ],
)
def test_the_backup_is_read_where_the_file_says_nothing(tmp_path, main, backup, found, told):
    path, problems = tmp_path / "f.json", []
    if main is not None:
        path.write_bytes(main)
    if backup is not None:
        (tmp_path / "f.json.bak").write_bytes(backup)

    assert brokerjson.read(Disk(), str(path), problems.append) == found
    assert len(problems) == told


def test_what_a_file_held_before_is_in_the_backup(tmp_path):
    path = tmp_path / "f.json"

    for number in (1, 2, 2):  # the same once more is no change
        brokerjson.replace(Disk(), str(path), {"a": number})

    assert json.loads(path.read_bytes()) == {"a": 2}
    assert json.loads((tmp_path / "f.json.bak").read_bytes()) == {"a": 1}


@pytest.mark.parametrize("damaged", [b"{", b"[]", b"\xff"])
def test_a_damaged_file_does_not_become_the_backup(tmp_path, damaged):
    path, backup = tmp_path / "f.json", tmp_path / "f.json.bak"
    path.write_bytes(damaged)
    backup.write_bytes(b'{"a":1}')

    brokerjson.replace(Disk(), str(path), {"a": 2})

    assert brokerjson.read(Disk(), str(path)) == {"a": 2}
    assert backup.read_bytes() == b'{"a":1}'


def test_changes_on_two_threads_come_one_after_the_other(tmp_path):
    path = str(tmp_path / "f.json")

    def change():
        for _ in range(20):
            with brokerjson.changing():
                found = brokerjson.read(Disk(), path) or {"a": 0}
                brokerjson.replace(Disk(), path, {"a": found["a"] + 1})

    threads = [threading.Thread(target=change) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert brokerjson.read(Disk(), path) == {"a": 60}


@pytest.mark.parametrize("key", ["\0", "\0x", "\0\0", "\0-", "\0--5", "\0\u0663"])
def test_a_key_that_begins_with_a_zero_character_stays_a_text(key):
    text = brokerjson.encode({"a": {key: 1}})

    found = brokerjson.decode(text.encode())

    assert found == {"a": {key: 1}}
    assert brokerjson.encode(found) == text
