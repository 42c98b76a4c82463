"""Where groups that pop begin: on disk at once, whatever other groups there are."""

from __future__ import annotations

import json
import shutil
import zlib

import pytest
from groupstores import Steps, bodies

from reput.files import Disk
from reput_consumer import GroupSettings, PopRequest, TopicSettings
from reput_consumer.group.membersettings import Start
from reput_consumer.metadata.startjournal import StartJournal
from reput_testing import FaultyDisk


def line(*start):
    text = json.dumps(start, ensure_ascii=False, separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


@pytest.fixture
def journal(tmp_path):
    return StartJournal(str(tmp_path / "reput" / "consumer" / "starts"), Disk())


def test_a_line_says_where_a_group_begins_in_a_queue(journal):
    journal.add("GroupA", {("TopicTest", 0): 12, ("TopicTest", 3): 0})
    journal.add("größe", {("b", 1): (1 << 63) - 1})

    expected = line("GroupA", "TopicTest", 0, 12) + line("GroupA", "TopicTest", 3, 0)
    expected += line("größe", "b", 1, (1 << 63) - 1)
    assert Disk().read_file(journal.path) == expected
    assert expected.startswith(b'd0cddf03 ["GroupA","TopicTest",0,12]\n')
    assert journal.size == len(expected)
    again = StartJournal(journal.path, Disk())
    assert again.load() == [
        ("GroupA", "TopicTest", 0, 12),
        ("GroupA", "TopicTest", 3, 0),
        ("größe", "b", 1, (1 << 63) - 1),
    ]


def test_what_a_crash_has_cut_short_is_overwritten(journal):
    journal.add("a", {("t", 0): 1})
    whole = Disk().read_file(journal.path)
    journal.add("b", {("t", 0): 2})
    both = Disk().read_file(journal.path)
    for end in range(len(whole), len(both)):
        Disk().replace(journal.path, both[:end] + b"\0" * (end % 3))

        again = StartJournal(journal.path, Disk())
        assert again.load() == [("a", "t", 0, 1)]
        again.add("c", {("t", 0): 3})

        assert StartJournal(journal.path, Disk()).load() == [("a", "t", 0, 1), ("c", "t", 0, 3)]


@pytest.mark.parametrize(
    "text",
    [b"[]", b'["a","t",0]', b'["a","t","0",1]', b'["a","t",-1,1]', b'["a","t",0,true]', b"{", None],
)
def test_a_damaged_line_takes_none_of_the_others_with_it(journal, text):
    Disk().make_directory(journal.path.rpartition("/")[0])
    damaged = line("x", "t", 0, 1)[1:] if text is None else b"%08x %s\n" % (zlib.crc32(text), text)
    Disk().replace(journal.path, line("a", "t", 0, 1) + damaged + line("b", "t", 0, 1))

    assert journal.load() == [("a", "t", 0, 1), ("b", "t", 0, 1)]
    journal.add("c", {("t", 0): 3})
    again = StartJournal(journal.path, Disk()).load()
    assert again == [("a", "t", 0, 1), ("b", "t", 0, 1), ("c", "t", 0, 3)]


def test_lines_that_the_file_of_offsets_has_are_dropped_and_no_others(journal):
    journal.add("a", {("t", 0): 1})
    size = journal.size
    journal.add("b", {("t", 0): 2})

    journal.forget(size)
    journal.add("c", {("t", 0): 3})

    assert StartJournal(journal.path, Disk()).load() == [("b", "t", 0, 2), ("c", "t", 0, 3)]
    journal.forget(journal.size)
    assert Disk().read_file(journal.path) == b""


def test_who_only_reads_does_without_a_file_that_cannot_be_read(journal):
    Disk().make_directory(journal.path)  # a directory in its place

    assert StartJournal(journal.path, Disk(), writable=False).load() == []
    with pytest.raises(IsADirectoryError):
        journal.load()


# ------------------------------------------------------------------ in a store


def request(group, kind="latest"):
    return PopRequest(group=group, topic="orders", start=Start(kind))


def killed(at, tmp_path):
    """A store as a kill leaves it."""
    shutil.copytree(at.root, tmp_path / "killed")
    (tmp_path / "killed" / "lock").unlink()
    left = Steps(tmp_path / "killed", at.plugins)
    left.open()
    return left


def test_a_group_begins_at_the_same_place_after_a_kill(at, tmp_path):
    at.put("old")
    assert at.plugin.popper.pop(request("g")) == []
    at.put("new")
    assert len(at.plugin.popper.pop(request("g"))) == 1

    left = killed(at, tmp_path)
    try:
        (found,) = left.plugin.popper.pop(request("g"))
        assert bodies([found.view]) == ["new"]
        assert left.plugin.subscription_groups.get("g") is not None
    finally:
        left.store.close()


def test_a_reader_sees_where_a_group_begins(at):
    at.put("old")
    at.plugin.popper.pop(request("g"))

    reader = Steps(at.root, at.plugins)
    reader.open("r")
    try:
        assert reader.plugin.offsets()["g"]["orders", 0] == 1
    finally:
        reader.store.close()


def test_a_save_takes_over_what_the_journal_has(at):
    at.plugin.popper.pop(request("g", "earliest"))
    journal = at.plugin.port.offsets.starts
    at.put("1")
    at.plugin.popper.pop(request("g", "earliest"))
    assert journal.size > 0

    at.work_for(6_000)

    assert journal.size == 0
    assert '"orders@g":{0:0' in (at.root / "config" / "consumerOffset.json").read_text()


def test_what_begins_while_offsets_are_saved_stays_in_the_journal(at):
    offsets = at.plugin.port.offsets
    offsets.commit("g", {("orders", 0): 1})

    offsets.save(lambda: offsets.begin("h", {("orders", 0): 7}))

    assert StartJournal(offsets.starts.path, Disk()).load() == [("h", "orders", 0, 7)]
    assert not offsets.is_saved
    offsets.save()
    assert StartJournal(offsets.starts.path, Disk()).load() == []


def test_an_offset_of_the_file_counts_and_not_an_older_start(at, tmp_path):
    offsets = at.plugin.port.offsets
    offsets.begin("g", {("orders", 0): 1})
    before = Disk().read_file(offsets.starts.path)
    offsets.commit("g", {("orders", 0): 5})
    offsets.save()
    Disk().replace(offsets.starts.path, before)  # the kill came before the journal was emptied

    offsets.load()

    assert offsets.get("g", "orders", 0) == 5
    assert offsets.is_saved


def test_a_pop_of_a_new_group_writes_as_much_as_one_of_the_first(tmp_path):
    disk = FaultyDisk()
    at = Steps(tmp_path / "store", ("consumequeue", "consumer"))
    at.open(disk=disk)
    try:
        at.put("1")
        written = []
        for number in range(60):
            before = len(disk.calls)
            at.plugin.popper.pop(request(f"g{number}"))
            made = disk.calls[before:]  # perhaps also the log's next file, on another thread
            written.append([operation for operation, path in made if "/consumer" in path])
            assert not [path for _, path in made if "/config/" in path]
        assert written[1]
        assert written[1:] == [written[1]] * 59
    finally:
        at.store.close()
    table = json.loads((at.root / "config" / "subscriptionGroup.json").read_bytes())
    assert len(table["subscriptionGroupTable"]) == 60


# ------------------------------------------------------------------ settings


def test_settings_that_are_added_soon_come_with_the_next_change(at):
    topics = at.plugin.topics
    path = at.root / "config" / "topics.json"

    topics.put_soon(TopicSettings(topic="a"))
    assert topics.get("a") == TopicSettings(topic="a")
    assert not topics.is_saved
    assert not path.exists()
    topics.put(TopicSettings(topic="b"))

    assert topics.is_saved
    assert {"a", "b"} <= json.loads(path.read_bytes())["topicConfigTable"].keys()


def test_settings_that_are_added_soon_can_be_removed(at):
    groups = at.plugin.subscription_groups
    groups.put_soon(GroupSettings(group="g"))

    assert groups.remove("g")
    assert groups.get("g") is None
    groups.save()
    assert groups.names() == []


def test_settings_that_cannot_be_written_are_written_later(at, monkeypatch):
    groups = at.plugin.subscription_groups
    groups.put_soon(GroupSettings(group="g"))

    def fail(*_):
        raise OSError(28, "no space")

    with monkeypatch.context() as patched:
        patched.setattr(type(groups.document), "change", fail)
        with pytest.raises(OSError, match="no space"):
            groups.save()
    assert groups.get("g") == GroupSettings(group="g")
    groups.save()

    assert groups.is_saved
    assert "g" in (at.root / "config" / "subscriptionGroup.json").read_text()


def test_a_retry_topic_is_in_the_file_before_its_first_copy(at):
    at.put("1")
    at.plugin.popper.pop(
        PopRequest(group="g", topic="orders", invisible_ms=1_000, start=Start("earliest"))
    )
    path = at.root / "config" / "topics.json"
    assert not path.exists()

    at.work_for(1_000)

    assert "%RETRY%g_orders" in json.loads(path.read_bytes())["topicConfigTable"]
    assert bodies(at.read("%RETRY%g_orders")) == ["1"]
