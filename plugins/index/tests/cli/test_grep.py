"""Commands that find messages by key do so through the index, and miss nothing behind it."""

from __future__ import annotations

import json

import pytest
from statefiles import change_manifest

import reput

CONFIG = {
    "commitlog": {"file_size": 1 << 16},
    "index": {"slots_per_file": 50, "items_per_file": 60},
}


@pytest.fixture
def path(tmp_path):
    """A store of 100 messages, of which the index has the first 80."""
    root = tmp_path / "store"
    with reput.open(root, plugins=["index"], config=CONFIG) as store:
        for number in range(80):
            store.put(reput.Message("T", b"%d" % number, keys=f"all n{number}"))
    with reput.open(root, plugins=[], forget=["index"]) as store:
        for number in range(80, 100):
            store.put(reput.Message("T", b"%d" % number, keys=f"all n{number}"))
    # As after a crash: the plugin is named, and has not caught up.
    change_manifest(
        root, lambda text: json.dumps({**json.loads(text), "plugins": ["index"]}).encode()
    )
    return root


def bodies(result):
    return [json.loads(line)["body"] for line in result.out.splitlines()]


def test_every_message_is_found_once_in_its_order(run, path):
    result = run("grep", path, "-t", "T", "--key", "all", "--json")

    assert (result.code, bodies(result)) == (0, [str(number) for number in range(100)])


@pytest.mark.parametrize("number", [0, 79, 80, 99])
def test_single_messages_are_found_on_both_sides_of_the_border(run, path, number):
    by_grep = run("grep", path, "-t", "T", "--key", f"n{number}", "--json")
    by_get = run("get", path, f"n{number}", "--topic", "T", "--json")

    assert bodies(by_grep) == [str(number)]
    assert json.loads(by_get.out)["body"] == str(number)


def test_a_damaged_index_costs_time_and_no_message(run, path):
    for file in (path / "index").iterdir():
        data = bytearray(file.read_bytes())
        data[36:40] = b"\x7f\xff\xff\xff"
        file.write_bytes(data)

    result = run("grep", path, "-t", "T", "--key", "all", "--json")

    assert bodies(result) == [str(number) for number in range(100)]
    assert "reading the whole log instead" in result.err


def test_with_an_index_the_log_is_not_read_through(run, tmp_path, monkeypatch):
    root = tmp_path / "store"
    with reput.open(root, plugins=["index"], config=CONFIG) as store:
        for number in range(80):
            store.put(reput.Message("T", b"x" * 1_000, keys=f"n{number}"))
    starts = []
    scan = reput.Store.scan

    def counting(store, start=None, *others, **options):
        starts.append(start)
        return scan(store, start, *others, **options)

    monkeypatch.setattr(reput.Store, "scan", counting)
    result = run("grep", root, "-t", "T", "--key", "n3", "--format", "%o")

    assert result.out == "3\n"
    assert len(starts) == 1
    assert starts[0] > 80_000


def test_an_index_that_breaks_off_between_two_pages_hides_nothing(run, tmp_path):
    root = tmp_path / "store"
    config = {"index": {"slots_per_file": 50, "items_per_file": 701}}
    with reput.open(root, plugins=["index"], config=config) as store:
        for number in range(1_200):
            store.put(reput.Message("T", b"%d" % number, keys=f"all n{number}"))
    *_, last = sorted((root / "index").iterdir())  # the first 1,000 are in the files before
    data = bytearray(last.read_bytes())
    data[36:40] = b"\x7f\xff\xff\xff"
    last.write_bytes(data)

    result = run("grep", root, "-t", "T", "--key", "all", "--json")

    assert bodies(result) == [str(number) for number in range(1_200)]
    assert "reading the log from physical offset" in result.err


def test_the_last_message_is_found_by_keys_that_the_index_does_not_have_yet(run, tmp_path):
    """What a reader sees of a message whose keys come to stand in two files."""
    root = tmp_path / "store"
    config = {"index": {"slots_per_file": 50, "items_per_file": 2}}
    with reput.open(root, plugins=["index"], config=config) as store:
        store.put(reput.Message("T", b"0", keys="before"))
        store.put(reput.Message("T", b"1", keys="first second"))
    *_, second = sorted((root / "index").iterdir())
    second.unlink()

    found = [
        bodies(run("grep", root, "-t", "T", "--key", key, "--json")) for key in ("first", "second")
    ]

    assert found == [["1"], ["1"]]
