"""Old files go in a store with queues and an index: both forget, and answer as Java does."""

from __future__ import annotations

import subprocess
import sys

import pytest
from openstores import messages_in
from trimminglives import Life, check_left, crash_and_check

import reput
from reput.files import Disk
from reput.log import LogHead, StateFile
from reput.status import ReadStatus
from reput_retention import RetentionConfig, expire_log
from reput_testing import ManualClock, PowerCuts, QuickDisk

pytestmark = pytest.mark.shows("trimming")

PLUGINS = ("consumequeue", "index")
QUEUE_SECTION = {"units_per_file": 5}
INDEX_SECTION = {"slots_per_file": 5, "items_per_file": 8}
SECTIONS = {"consumequeue": QUEUE_SECTION, "index": INDEX_SECTION}


def files_below(root, folder):
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted((root / folder).rglob("*"))
        if path.is_file()
    }


# --------------------------------------------------------------------------- as Java


@pytest.fixture
def cleaned(golden_store, golden_rows):
    """Java's store ``slow``, the head of which our code has removed."""
    (config,) = golden_rows("slow", "config")
    root = golden_store("slow")
    with reput.open(root, plugins=PLUGINS, threads=False, disk=QuickDisk()) as store:
        kept = store.log.file_count - 2
        report = expire_log(
            store, config=RetentionConfig(max_bytes=kept * config["commitlog_file_size"])
        )
        assert len(report.removed) == 2
        assert report.not_notified == ()
    return root


@pytest.mark.parametrize("mode", ["r", "w"])
@pytest.mark.costly
def test_a_store_that_we_cleaned_is_read_as_java_reads_one_without_those_files(
    cleaned, golden_rows, mode
):
    (log,) = golden_rows("trimmed", "log")
    with reput.open(cleaned, mode, plugins=PLUGINS) as store:
        assert store.log.min_physical_offset == log["min_physical_offset"]
        assert store.log.max_physical_offset == log["max_physical_offset"]
        queues = {(info.topic, info.queue_id): info for info in store.queues()}
        for row in golden_rows("trimmed", "queue"):
            info = queues.get((row["topic"], row["queue_id"]))
            extent = (0, 0) if info is None else (info.min_queue_offset, info.max_queue_offset)
            assert extent == (row["min_offset"], row["max_offset"]), row["topic"]
        differ = []
        for row in golden_rows("trimmed", "get"):
            answer = store.read(row["topic"], row["queue_id"], row["offset"], row["max_count"])
            found = {
                "status": answer.status.name,
                "next_begin_offset": answer.next_queue_offset,
                "min_offset": answer.min_queue_offset,
                "max_offset": answer.max_queue_offset,
                "physical_offsets": [message.physical_offset for message in answer],
            }
            if found != {name: row[name] for name in found}:
                differ.append((row["status"], row["min_offset"]))
        # What 5.x answers in another way, see plugins/consumequeue/tests/test_golden.py.
        assert set(differ) <= {("OFFSET_OVERFLOW_BADLY", 0)}
        for row in golden_rows("trimmed", "query"):
            last = (1 << 63) - 1
            begin, end = (last if row[name] == "max" else row[name] for name in ("begin", "end"))
            answer = store.plugin("index").query_as_rocketmq(
                row["topic"], row["key"], begin, end, row["max_count"]
            )
            assert [message.physical_offset for message in answer] == row["physical_offsets"]


def test_what_is_left_are_the_bytes_of_java(cleaned, golden_store):
    theirs = golden_store("trimmed")

    assert files_below(cleaned, "commitlog") == files_below(theirs, "commitlog")
    for folder in ("consumequeue", "index"):
        ours, all_of_them = files_below(cleaned, folder), files_below(theirs, folder)
        assert ours
        assert ours.items() <= all_of_them.items()
    assert len(files_below(cleaned, "index")) < len(files_below(theirs, "index"))


# --------------------------------------------------------------------------- both plugins


def open_small(root, **retention):
    config = {"commitlog": {"file_size": 4096}, **SECTIONS}
    return reput.open(
        root,
        plugins=PLUGINS,
        config={**config, "retention": retention},
        threads=False,
        clock=ManualClock(),
        disk=QuickDisk(),
    )


def test_queues_and_index_lose_what_the_log_lost_and_nothing_else(tmp_path):
    with open_small(tmp_path) as store:
        places = [
            store.put(reput.Message("T", b"x" * 500, n % 3, keys=f"k{n}")).physical_offset
            for n in range(90)
        ]
        store.wait_dispatched()
        sizes = [len(files_below(tmp_path, folder)) for folder in ("consumequeue", "index")]
        low = expire_log(store, config=RetentionConfig(max_bytes=4 * 4096)).min_physical_offset

        for number, place in enumerate(places):
            query = store.query("T", f"k{number}")
            read = store.read("T", number % 3, number // 3, 1)
            if place < low:
                assert list(query) == []
                assert read.status is ReadStatus.OFFSET_TOO_SMALL
                assert places[read.next_queue_offset * 3 + number % 3] >= low
            else:
                assert [message.physical_offset for message in query] == [place]
                assert [message.physical_offset for message in read] == [place]
        left = [len(files_below(tmp_path, folder)) for folder in ("consumequeue", "index")]

    assert all(0 < now < before for now, before in zip(left, sizes, strict=True))


@pytest.mark.costly
def test_a_reader_in_another_process_sees_messages_or_a_clear_answer(tmp_path):
    """It has the store open, and reads on while the head goes under it."""
    code = """
import sys, reput
from reput.errors import OffsetOutOfRangeError
with reput.open(sys.argv[1], "r") as store:
    batches = store.scan()
    seen = next(batches).physical_offset.tolist()
    first = store.get(0).body
    print("open", flush=True)
    sys.stdin.readline()
    for batch in batches:
        assert batch.finding is None, batch.finding
        seen += batch.physical_offset.tolist()
    assert seen == sorted(set(seen))
    answers = 0
    for number in range(60):
        result = store.read("T", 0, number, 1)
        for message in result:
            assert message.body == b"%d" % number + b"x" * 500, number
            answers += 1
        for message in store.query("T", f"k{number}"):
            assert message.body == b"%d" % number + b"x" * 500, number
    try:
        assert store.get(0).body == first
    except OffsetOutOfRangeError:
        pass
    print(answers, store.log.min_physical_offset, store.queues()[0].min_queue_offset)
"""
    with open_small(tmp_path) as store:
        for number in range(60):
            store.put(reput.Message("T", b"%d" % number + b"x" * 500, keys=f"k{number}"))
        store.flush()
        store.wait_dispatched()
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout.readline() == "open\n"
        low = expire_log(store, config=RetentionConfig(max_bytes=3 * 4096)).min_physical_offset
        begin = store.queues()[0].min_queue_offset
        out, err = process.communicate("go\n", timeout=60)

    assert process.returncode == 0, err
    answers, log_begin, queue_begin = map(int, out.split())
    assert (log_begin, queue_begin, answers) == (low, begin, 60 - begin)


# --------------------------------------------------------------------------- power cuts


def check(life, note, root):
    """The log is what it should be, and both plugins agree with it and hold no more than it."""
    store, found = check_left(life, note, root)
    with store:
        places = dict(life.sent)
        by_queue = {}
        for offset in found:
            by_queue.setdefault(places[offset], []).append(offset)
        for queue, offsets in by_queue.items():
            info = next(i for i in store.queues() if (i.topic, i.queue_id) == queue)
            views = messages_in(store, *queue, info.min_queue_offset, 100)
            read = [message.physical_offset for message in views]
            assert read[:-1] == offsets  # and one "again"
        numbers = {offset: number for number, (offset, _) in enumerate(life.sent)}
        for offset in found:
            query = store.query(places[offset][0], f"k{numbers[offset]}")
            assert [message.physical_offset for message in query] == [offset]
        store.work()  # tells plugins what a crash has kept from them
        assert not LogHead(StateFile.of(str(root), Disk())).must_notify
        assert_nothing_stays_behind(store)


def assert_nothing_stays_behind(store):
    low = store.log.min_physical_offset
    for queue in store.plugin_objects["consumequeue"].queues.values():
        for base in queue.files.bases[:-1]:
            place = queue.files.read_place(base + queue.files.per_file - 1)
            assert place[0] >= low
    for file in store.plugin_objects["index"].index.files[:-1]:
        assert file.header.end_physical_offset >= low


@pytest.mark.proof
def test_a_power_cut_while_files_go_leaves_plugins_that_agree_with_the_log(
    tmp_path, record_property
):
    cuts = PowerCuts(tmp_path, most=8, random_count=2, tries=50)

    crash_and_check(cuts, Life(plugins=PLUGINS, sections=SECTIONS), check)

    record_property("crash states", cuts.tried_count)
    cuts.check_tried(at_least=41)
