"""A new store is small: files grow with the messages, and read, recover and hand over as others."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys

import pytest
from brokerdirectories import unpacked
from click.testing import CliRunner

import reput
from reput.errors import CorruptFileError, CreateMappedFileError
from reput.files import Disk
from reput_consumer.metadata.topicsettings import TopicSettings
from reput_testing import snapshot
from reput_tools.cli.root import reput as program
from reput_tools.offline import lock_store
from reput_tools.offline.closedstore.fullsizes import fill as fill_files

MIB = 1 << 20
CHILD = """
import os, sys, reput
store = reput.open(sys.argv[1])
for n in range(10):
    store.put(reput.Message("orders", b"x" * 100, keys=f"k{n}"))
store.wait_dispatched()
store.flush()
os._exit(0)
"""
SMALL = {
    "commitlog": {"file_size": 256 << 10, "grows": True},
    "consumequeue": {"units_per_file": 16},
    "index": {"slots_per_file": 8, "items_per_file": 33},
}


def sizes(root):
    """Return the apparent sizes of all files, by path."""
    found = {}
    for directory, _, names in os.walk(root):
        for name in names:
            path = os.path.join(directory, name)
            found[os.path.relpath(path, root)] = os.path.getsize(path)
    return found


def fill(root, count, first=0, **options):
    with reput.open(root, plugins=["consumequeue", "index"], **options) as store:
        for number in range(first, first + count):
            body = b"%06d" % number + b"x" * 9_000
            store.put(reput.Message("orders", body, queue_id=number % 2, keys=f"k{number}"))
        store.wait_dispatched()


def read(store, queue_id):
    """Return the numbers of all messages of a queue; a call reads in one file of the log."""
    found, start = [], 0
    while (result := store.read("orders", queue_id, start, max_count=100)).messages:
        found += [int(message.body[:6]) for message in result.messages]
        start = result.next_queue_offset
    return found


def numbers(root, mode="r"):
    with reput.open(root, mode) as store:
        found = sorted(read(store, 0) + read(store, 1))
        hits = [store.query("orders", f"k{number}").messages for number in found]
    assert [int(each.body[:6]) for (each,) in hits] == found
    return found


def verify(root):
    done = CliRunner().invoke(program, ["verify", str(root)])
    assert done.exit_code == 0, done.output


@pytest.mark.costly
def test_ten_messages_take_less_than_a_mebibyte_open_killed_and_closed(tmp_path):
    root = tmp_path / "store"
    subprocess.run([sys.executable, "-c", CHILD, root], check=True)
    assert sum(sizes(root).values()) < MIB, "killed"
    with reput.open(root) as store:
        assert sum(sizes(root).values()) < MIB, "open"
        assert store.config.file_size == 64 * MIB
    assert sum(sizes(root).values()) < MIB, "closed"


def test_a_store_with_growing_files_goes_on_over_many_files(tmp_path):
    for first in range(0, 120, 40):
        fill(tmp_path / "s", 40, first, config=SMALL)
        assert numbers(tmp_path / "s") == list(range(first + 40))
    verify(tmp_path / "s")

    found = sizes(tmp_path / "s")
    log = [size for name, size in sorted(found.items()) if name.startswith("commitlog")]
    queue = [s for name, s in sorted(found.items()) if name.startswith("consumequeue/orders/0")]
    assert log[:-1] == [256 << 10] * 4
    assert queue == [320, 320, 320, 12 * 20]


@pytest.mark.costly
def test_derived_files_that_grow_are_those_of_a_rebuild(tmp_path):
    fill(tmp_path / "s", 50, config=SMALL)
    before = sizes(tmp_path / "s")

    done = CliRunner().invoke(program, ["rebuild", str(tmp_path / "s")])

    assert done.exit_code == 0, done.output
    after = sizes(tmp_path / "s")
    assert {n: s for n, s in before.items() if n in after and n.startswith("consumequeue")} == {
        n: s for n, s in after.items() if n.startswith("consumequeue")
    }
    assert numbers(tmp_path / "s") == list(range(50))


def test_a_reader_sees_what_is_put_after_the_file_has_grown(tmp_path):
    fill(tmp_path / "s", 1, config=SMALL)
    with (
        reput.open(tmp_path / "s", "r") as reader,
        reput.open(tmp_path / "s") as writer,
    ):
        for number in range(1, 60):
            writer.put(reput.Message("orders", b"%06d" % number + b"x" * 9_000, queue_id=0))
        writer.wait_dispatched()
        found = read(reader, 0)
    assert found == list(range(60))


@pytest.mark.parametrize("place", ["last", "before"])
def test_a_power_cut_may_take_the_last_change_of_a_size(tmp_path, place):
    root = tmp_path / "s"
    plugins = ["consumequeue", "index"]
    with reput.open(root, plugins=plugins, config=SMALL, threads=False) as store:
        for number in range(40):
            body = b"%06d" % number + b"x" * 9_000
            store.put(reput.Message("orders", body, queue_id=number % 2, keys=f"k{number}"))
        store.wait_dispatched()
        shutil.copytree(root, tmp_path / "cut")
    log = sorted((tmp_path / "cut/commitlog").iterdir())
    queue = sorted((tmp_path / "cut/consumequeue/orders/0").iterdir())
    for files in (log, queue):
        cut = files[-1] if place == "last" else files[-2]
        keep = (64 << 10) if files is log else 100
        os.truncate(cut, keep)

    with reput.open(tmp_path / "cut") as store:
        end = store.log.max_physical_offset
        store.put(reput.Message("orders", b"000999", queue_id=0, keys="k999"))
    assert 0 < end < (512 << 10)
    assert numbers(tmp_path / "cut")[-1] == 999


def test_fill_makes_every_file_as_large_as_a_broker_expects(tmp_path):
    fill(tmp_path / "s", 30, config=SMALL)

    done = CliRunner().invoke(program, ["fill", str(tmp_path / "s")])

    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[1:] == [
        "added to config/topics.json: orders",
        f"mappedFileSizeCommitLog={256 << 10}",
        "mappedFileSizeConsumeQueue=320",
        "maxHashSlotNum=8",
        "maxIndexNum=33",
    ]
    again = CliRunner().invoke(program, ["fill", str(tmp_path / "s")])
    assert again.output.splitlines()[1:] == done.output.splitlines()[2:]
    for kind, size in (("consumequeue", 320), ("index", 40 + 32 + 660)):
        found = sizes(tmp_path / "s").items()
        assert {each for name, each in found if name.startswith(kind)} == {size}
    fill(tmp_path / "s", 30, first=30)
    verify(tmp_path / "s")
    kinds = {
        kind: {size for name, size in sizes(tmp_path / "s").items() if name.startswith(kind)}
        for kind in ("commitlog", "consumequeue", "index")
    }
    assert kinds == {"commitlog": {256 << 10}, "consumequeue": {320}, "index": {40 + 32 + 660}}
    assert numbers(tmp_path / "s") == list(range(60))


def test_fill_adds_the_topics_that_a_broker_does_not_know(tmp_path):
    root = tmp_path / "s"
    plugins = ["consumequeue", "consumer"]
    with reput.open(root, plugins=plugins) as store:
        consumer = store.plugin("consumer")
        for topic, queue_id in [("fresh", 5), ("known", 1), ("more", 6), ("gone", 0), ("more", 3)]:
            store.put(reput.Message(topic, b"x", queue_id=queue_id))
        store.put(reput.Message("SCHEDULE_TOPIC_XXXX", b"x", queue_id=2))
        store.wait_dispatched()
        consumer.delete_topic("gone")
        for topic in ("known", "more", "early"):
            consumer.topics.put(TopicSettings(topic=topic, write_queue_nums=2, perm=4))

    first, again = (
        CliRunner().invoke(program, ["fill", str(root), "--json"]).stdout for _ in range(2)
    )

    assert json.loads(first)["topics"] == ["fresh", "more"]
    assert json.loads(again)["topics"] == []
    with reput.open(root, "r", plugins=plugins) as store:
        topics = store.plugin("consumer").topics
        found = [topics.get(name) for name in topics.names()]
    assert {
        each.topic: (each.read_queue_nums, each.write_queue_nums, each.perm) for each in found
    } == {"early": (4, 2, 4), "fresh": (6, 6, 6), "known": (4, 2, 4), "more": (7, 2, 4)}


@pytest.mark.parametrize("options", [{}, {"sizes": "rocketmq"}])
def test_a_later_fill_adds_topics_that_came_meanwhile(options, tmp_path):
    added = []
    for topic in ("orders", "news"):
        with reput.open(tmp_path / "s", plugins=["consumequeue"], **options) as store:
            store.put(reput.Message(topic, b"x"))
        done = CliRunner().invoke(program, ["fill", str(tmp_path / "s"), "--json"])
        added += json.loads(done.stdout)["topics"]

    assert added == ["orders", "news"]


def test_fill_leaves_a_store_alone_that_a_broker_has_closed(tmp_path):
    root = unpacked("rocketmq-5.5.0/default", tmp_path)
    assert not (root / "abort").exists()
    before = snapshot(root)

    done = CliRunner().invoke(program, ["fill", str(root), "--json"])

    assert (done.exit_code, json.loads(done.stdout)["topics"]) == (0, [])
    after = snapshot(root)
    assert {name: after[name] for name in before} == before


class FailingAt(Disk):
    """Fails at one change of a size, or at one flush after it."""

    def __init__(self, number):
        super().__init__()
        self.left = number

    def _count(self):
        self.left -= 1
        if self.left < 0:
            raise OSError(5, "Input/output error")

    def truncate(self, descriptor, size):
        self._count()
        super().truncate(descriptor, size)

    def flush(self, descriptor):
        self._count()
        super().flush(descriptor)


@pytest.mark.costly
def test_a_fill_that_failed_anywhere_is_ended_by_the_next_one(tmp_path):
    fill(tmp_path / "whole", 30, config=SMALL)
    number, is_done = 0, False
    while not is_done:
        root = tmp_path / "s"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(tmp_path / "whole", root)
        with lock_store(root, disk=FailingAt(number)) as closed:
            files = {"commitlog": 256 << 10, "consumequeue": 320, "index": 40 + 32 + 660}
            try:
                is_done = fill_files(closed, files)
            except OSError:
                assert number < 40
        assert numbers(root) == list(range(30))
        done = CliRunner().invoke(program, ["fill", str(root)])
        assert done.exit_code == 0, done.output
        assert "mappedFileSizeConsumeQueue=320" in done.output
        found = sizes(root)
        assert {size for name, size in found.items() if name.startswith("consumequeue")} == {320}
        number += 1
    assert number > 8


@pytest.mark.costly
def test_a_fill_wants_a_closed_store(tmp_path):
    killed = subprocess.run([sys.executable, "-c", CHILD, str(tmp_path / "k")], check=True)
    assert killed.returncode == 0
    (tmp_path / "k/lock").unlink()
    before = sizes(tmp_path / "k")

    refused = CliRunner().invoke(program, ["fill", str(tmp_path / "k")])

    assert refused.exit_code == 1
    assert "not closed" in refused.output
    assert sizes(tmp_path / "k") == before


def test_an_existing_store_keeps_whether_its_files_grow(tmp_path, caplog):
    fill(tmp_path / "s", 3, config=SMALL)

    with reput.open(tmp_path / "s", config={"commitlog": {"grows": False}}) as store:
        assert store.config.grows

    assert "reput fill" in caplog.text
    with reput.open(tmp_path / "s") as store:
        assert store.config.grows


@pytest.mark.parametrize("log", [SMALL["commitlog"], {"grows": True}])
def test_a_growing_store_whose_manifest_was_lost_opens_with_the_option(log, tmp_path):
    fill(tmp_path / "s", 60, config=SMALL)
    (tmp_path / "s/reput/state").unlink()

    fill(tmp_path / "s", 2, 60, config={**SMALL, "commitlog": log})

    assert numbers(tmp_path / "s") == list(range(62))
    assert len(set(sizes(tmp_path / "s/commitlog").values())) == 2


@pytest.mark.parametrize("traces", [["checkpoint", "abort"], ["config/topics.json"]])
def test_a_brokers_directory_without_messages_gets_a_brokers_sizes(traces, tmp_path):
    for name in ["commitlog/", *traces]:
        path = tmp_path / "s" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir() if name.endswith("/") else path.write_bytes(b"")

    with reput.open(tmp_path / "s") as store:
        assert (store.config.grows, store.log.file_size) == (False, 1 << 30)


@pytest.mark.parametrize(
    "options", [{"sizes": "rocketmq"}, {"config": {"commitlog": {"file_size": 1 << 30}}}]
)
def test_rocketmqs_sizes_are_full_from_the_start(tmp_path, options):
    fill(tmp_path / "s", 2, **options)

    found = sizes(tmp_path / "s")
    assert found["commitlog/00000000000000000000"] == 1 << 30
    assert found["consumequeue/orders/0/00000000000000000000"] == 6_000_000
    assert 420_000_040 in found.values()


class NearlyFull(Disk):
    """Has room for 128 KiB of each file."""

    def allocate(self, descriptor, size, start=0):
        if size > 128 << 10:
            raise OSError(28, "No space left on device")
        super().allocate(descriptor, size, start)


def test_a_full_disk_is_an_error_when_the_file_should_grow(tmp_path):
    stored, config = 0, {"commitlog": SMALL["commitlog"]}
    with reput.open(tmp_path / "s", plugins=[], disk=NearlyFull(), config=config) as store:
        with contextlib.suppress(CreateMappedFileError):
            while True:
                store.put(reput.Message("t", b"x" * 9_000))
                stored += 1
        assert 5 < stored < 15
    with reput.open(tmp_path / "s", "r") as store:
        assert sum(len(batch) for batch in store.scan()) == stored


@pytest.mark.parametrize("mode", ["r", "w"])
@pytest.mark.parametrize("number", [0, -1])
def test_a_log_file_that_was_cut_is_not_taken_for_one_that_grows(number, mode, tmp_path):
    root = tmp_path / "store"
    with reput.open(root, config={"commitlog": {"file_size": 1 << 18, "grows": True}}) as store:
        store.put_many([reput.Message("t", b"x" * 100) for _ in range(3_000)])
    files = sorted((root / "commitlog").iterdir())
    assert len(files) == 3
    os.truncate(files[number], 8192)

    if mode == "w":
        with pytest.raises(CorruptFileError, match="put back the whole file"):
            reput.open(root, mode="w")
    else:
        with reput.open(root, mode="r") as store:
            assert any(files[number].name in problem for problem in store.problems)

    assert files[number].stat().st_size == 8192
