"""Files that others left, lost or made up: mended, told of, or read past; never followed."""

from __future__ import annotations

import json
import shutil
import struct

import pytest

import reput
from reput.errors import CorruptFileError
from reput_compaction import CompactionPlugin
from reput_compaction.filepairs.offsetnotelayout import NOTE_SIZE
from reput_testing import Driver, ManualClock, QuickDisk, SmallLog

pytestmark = [
    pytest.mark.sizes(compaction={"log_file_size": 1200, "queue_file_size": 200}),
    pytest.mark.shows("compaction"),
]
CONFIG = {"topics": ["t"]}
LOG = {"commitlog": {"file_size": 4096}}


def open_store(root, mode="w", clock=None, **options):
    plugin = CompactionPlugin.from_section("compaction", {**CONFIG, **options})
    return reput.open(
        root,
        mode,
        plugins=[plugin],
        config={**LOG, "compaction": {**CONFIG, **options}},
        disk=QuickDisk(),
        threads=False,
        clock=clock or ManualClock(),
    )


def made(root, count=16, keys=4):
    with open_store(root) as store:
        put(store, range(count), keys)
    return root


def put(store, numbers, keys=4):
    for number in numbers:
        store.put(reput.Message("t", b"body %d" % number, keys=f"k{number % keys}"))
    store.wait_dispatched()
    store.flush()


def bodies(store):
    at, found, holes = 0, [], []
    while True:
        result = store.read("t", 0, at, 100)
        holes += result.holes
        found += [view.body for view in result]
        if result.next_queue_offset <= at or not (result or result.holes):
            return found, holes
        at = result.next_queue_offset


def everything(count=16):
    return [b"body %d" % number for number in range(count)]


def log_of(root):
    return root / "compaction" / "compactionLog" / "t" / "0"


def queue_of(root):
    return root / "compaction" / "compactionCq" / "t" / "0"


def notes_of(root):
    return root / "reput" / "compaction" / "t" / "0"


def trimmed(root):
    """The commit log loses all but its last file."""
    files = sorted((root / "commitlog").iterdir())
    assert len(files) > 1
    for path in files[:-1]:
        path.unlink()
    for name in ("consumequeue", "checkpoint"):
        shutil.rmtree(root / name, ignore_errors=True)


# --------------------------------------------------------------------------- missing files


@pytest.mark.parametrize("directory", [log_of, queue_of, notes_of])
@pytest.mark.parametrize("number", [0, 2, -1])
def test_what_is_missing_is_taken_out_of_the_log_again(tmp_path, directory, number):
    root = made(tmp_path / "store")
    sorted(directory(root).glob("0*"))[number].unlink()

    with open_store(root) as store:
        store.wait_dispatched()

        assert bodies(store) == (everything(), [])


@pytest.mark.parametrize(("at", "size"), [(4, 12), (8, 8)])
def test_a_damaged_note_is_found_and_costs_no_message(tmp_path, at, size):
    root = made(tmp_path / "store")
    path = sorted(notes_of(root).glob("0*"))[-1]
    data = bytearray(path.read_bytes())
    begin = (len(data.rstrip(b"\0")) - 1) // NOTE_SIZE * NOTE_SIZE + at
    data[begin : begin + size] = b"\x7f" * size
    path.write_bytes(data)

    with open_store(root, "r") as store:
        (found,) = store.plugin("compaction").reput_tools_wrong_entries()
        assert found.path == str(path)
        assert bodies(store) == (everything()[: 15 if at == 8 else 16], [])
    with open_store(root) as store:
        store.wait_dispatched()
        assert bodies(store) == (everything(), [])
    with open_store(root, "r") as store:
        assert not list(store.plugin("compaction").reput_tools_wrong_entries())
        assert bodies(store) == (everything(), [])


@pytest.mark.parametrize(("later", "numbers"), [(0, [0]), (0, [-1]), (4, [0, -1])])
def test_notes_with_a_wrong_end_cost_no_message(tmp_path, later, numbers):
    clock = ManualClock()
    with open_store(tmp_path, clock=clock) as store:
        put(store, range(11))
        clock.now += 1_000
        store.put_many([reput.Message("u", b"x" * 900, keys="k") for _ in range(8)])
        put(store, range(11, 11 + later))
        store.wait_dispatched()
    trimmed(tmp_path)
    path = max(notes_of(tmp_path).glob("0*"))
    rows = -(-len(path.read_bytes().rstrip(b"\0")) // NOTE_SIZE)
    with open(path, "r+b") as file:
        for number in numbers:
            file.seek(number % rows * NOTE_SIZE + 8)
            file.write(b"\x7f" * 8)

    with open_store(tmp_path) as store:
        store.wait_dispatched()
        assert bodies(store) == (everything(11 + later), [])


@pytest.mark.parametrize("is_compacted", [True, False])
@pytest.mark.parametrize("is_trimmed", [True, False])
def test_the_copy_of_a_record_that_the_log_lost_at_its_end_stays(
    tmp_path, is_trimmed, is_compacted
):
    root = made(tmp_path / "store", 60)
    with open_store(root) as store:
        if is_compacted:
            store.plugin("compaction").compact()
        kept = bodies(store)[0]
    if is_trimmed:
        trimmed(root)
    path = max((root / "commitlog").glob("0*"))
    data = path.read_bytes().rstrip(b"\0")
    last = data.rindex(b"body 59") - 84 - 4  # a record of 4 + 84 bytes before its body
    assert data[last + 4 : last + 8] == bytes.fromhex("daa320a7")
    with open(path, "r+b") as file:
        file.seek(last)
        file.write(bytes(len(data) - last))

    with open_store(root) as store:
        store.wait_dispatched()
        assert bodies(store) == (kept, [])
        put(store, [60])
    for _ in range(2):
        with open_store(root) as store:
            assert bodies(store) == ([*kept, b"body 60"], [])
            assert [each.body for each in store.read("t", 0, 60, 1)] == [b"body 60"]


@pytest.mark.parametrize("directory", [log_of, queue_of])
def test_what_is_missing_and_older_than_the_log_is_told(tmp_path, directory):
    root = made(tmp_path / "store", 60)
    trimmed(root)
    sorted(directory(root).glob("0*"))[1].unlink()

    with open_store(root) as store:
        (state,) = store.plugins()

        assert "missing" in str(state.last_error)
        assert "put the file back" in str(state.last_error)


def test_messages_that_the_log_has_lost_stay(tmp_path):
    root = made(tmp_path / "store", 60)
    trimmed(root)

    with open_store(root) as store:
        store.wait_dispatched()
        assert bodies(store) == (everything(60), [])
        store.plugin("compaction").compact()
        assert bodies(store) == (everything(60)[-4:], [])


def test_damage_that_the_log_cannot_mend_is_a_hole_and_nothing_is_compacted(tmp_path):
    root = made(tmp_path / "store", 60)
    trimmed(root)
    path = sorted(log_of(root).glob("0*"))[1]
    data = bytearray(path.read_bytes())
    data[100:110] = bytes(10)
    path.write_bytes(data)

    with open_store(root) as store:
        found, holes = bodies(store)
        assert len(found) == 59
        assert [hole.queue_offset for hole in holes] == [found_gap(found)]
        assert path.name in holes[0].reason
        with pytest.raises(CorruptFileError, match="this queue is not compacted"):
            store.plugin("compaction").compact()
        assert "t/0" in store.report()["plugins"]["compaction"]["failures"]
        assert bodies(store) == (found, holes)


def found_gap(found):
    return next(number for number in range(60) if b"body %d" % number not in found)


# --------------------------------------------------------------------------- another's files


def test_a_directory_that_rocketmq_wrote_is_taken_over(tmp_path):
    root = made(tmp_path / "store")
    shutil.rmtree(root / "reput")
    before = {path.name: path.read_bytes() for path in log_of(root).iterdir()}

    with open_store(root) as store:
        store.wait_dispatched()
        assert bodies(store) == (everything(), [])

    assert {path.name: path.read_bytes() for path in log_of(root).iterdir()} == before
    assert len(list(notes_of(root).glob("0*"))) == len(before)


def left_by_rocketmq(root, count=60):
    """A store whose queue was compacted, and went on; closed, and without a file of ours."""
    made(root, count)
    with open_store(root) as store:
        store.plugin("compaction").compact()
        put(store, range(count, count + 6))
    shutil.rmtree(root / "reput")
    (root / "abort").unlink(missing_ok=True)  # we leave one where there are no queues
    return root


def files_of(*directories):
    return {path: path.read_bytes() for each in directories for path in sorted(each.iterdir())}


def test_files_that_rocketmq_has_compacted_stay_as_they_are(tmp_path, caplog):
    root = left_by_rocketmq(tmp_path / "store")
    before = files_of(log_of(root), queue_of(root))
    with open_store(root, "r") as store:
        kept = bodies(store)

    for _ in range(2):
        with open_store(root) as store:
            store.wait_dispatched()
            assert bodies(store) == kept
            queue = store.plugin_objects["compaction"].queues["t", 0]
            assert not any(pair.lacks_notes for pair in queue.pairs)

    assert len(kept[0]) == 4 + 6  # of 66 messages
    assert files_of(log_of(root), queue_of(root)) == before
    assert [
        each for each in caplog.records if each.name.startswith("reput_compaction.run._rec")
    ] == []


def test_taken_over_files_follow_a_log_that_goes_on_and_are_compacted_with_it(tmp_path):
    root = left_by_rocketmq(tmp_path / "store")

    with open_store(root) as store:
        put(store, range(66, 76))
        store.plugin("compaction").compact()

        assert bodies(store) == ([b"body %d" % number for number in range(72, 76)], [])


def test_without_notes_a_store_that_was_not_closed_keeps_what_its_log_has_and_gets_notes(tmp_path):
    root = left_by_rocketmq(tmp_path / "store")
    (root / "abort").write_bytes(b"")
    with open_store(root, mode="r") as store:
        kept = bodies(store)

    with open_store(root) as store:
        queue = store.plugin_objects["compaction"].queues["t", 0]
        assert not any(pair.lacks_notes for pair in queue.pairs)
        assert min(pair.end_offset for pair in queue.pairs) > 0
        store.wait_dispatched()

        assert bodies(store) == kept
        store.plugin("compaction").compact()
        assert bodies(store)[0] == everything(66)[-4:]


def test_what_rocketmq_kept_and_the_log_has_in_another_shape_is_refused_until_it_is_moved(tmp_path):
    root = left_by_rocketmq(tmp_path / "store")
    for path in (root / "commitlog").iterdir():
        path.unlink()
    with reput.open(root, plugins=[], config=LOG, disk=QuickDisk(), threads=False) as store:
        for number in range(66):
            store.put(reput.Message("t", b"other %d" % number, keys=f"k{number % 4}"))
    shutil.rmtree(root / "reput")
    (root / "abort").unlink(missing_ok=True)

    with open_store(root) as store:
        (state,) = store.plugins()
    for directory in (log_of(root), queue_of(root)):
        assert str(directory) in str(state.last_error)
        directory.rename(tmp_path / directory.parts[-3])
    with open_store(root) as store:
        store.wait_dispatched()

        found, holes = bodies(store)
        assert found[-4:] == [b"other %d" % number for number in range(62, 66)]
        assert (all(body.startswith(b"other") for body in found), holes) == (True, [])


def test_what_rocketmq_kept_and_the_log_has_lost_stays_and_is_looked_for_once(tmp_path):
    root = made(tmp_path / "store", 60)
    trimmed(root)
    shutil.rmtree(root / "reput")

    for attempt in range(2):
        with open_store(root) as store:
            store.wait_dispatched()
            assert bodies(store) == (everything(60), [])
            queue = store.plugin_objects["compaction"].queues["t", 0]
            assert not any(pair.lacks_notes for pair in queue.pairs), attempt

    notes = b"".join(path.read_bytes() for path in sorted(notes_of(root).glob("0*")))
    ends = [end for _, end in struct.iter_unpack(">qq", notes) if end]
    assert ends[0] == -1 < ends[-1]


@pytest.mark.parametrize("stage", ["renamed", "moved one", "moved", "queues renamed"])
def test_an_exchange_that_rocketmq_did_not_finish_is_brought_to_one_side(tmp_path, stage):
    root = made(tmp_path / "store")
    fresh = tmp_path / "fresh"
    shutil.copytree(root, fresh)
    with open_store(fresh) as store:
        store.plugin("compaction").compact()
    log, queue = log_of(root), queue_of(root)
    for directory, source in ((log, log_of(fresh)), (queue, queue_of(fresh))):
        shutil.copytree(source, directory / "compacting")
    for path in sorted(log.glob("0*")):
        path.rename(f"{path}.delete")
    if stage == "moved one":
        move_up(log, 1)
    elif stage != "renamed":
        move_up(log, 9)
    if stage == "queues renamed":
        for path in log.glob("*.delete"):
            path.unlink()
        for path in sorted(queue.glob("0*")):
            path.rename(f"{path}.delete")
    shutil.rmtree(root / "reput")

    with open_store(root) as store:
        store.wait_dispatched()
        found, holes = bodies(store)

    assert holes == []
    assert set(everything()[-4:]) <= set(found)
    names = [path.name for path in (root / "compaction").rglob("*")]
    assert not any(name.endswith(".delete") or name == "compacting" for name in names)
    assert sorted(p.name for p in log.iterdir()) == sorted(p.name for p in queue.iterdir())


def move_up(directory, count):
    for path in sorted((directory / "compacting").iterdir())[:count]:
        path.rename(directory / path.name)


def test_topics_are_found_in_the_table_that_rocketmq_writes(tmp_path):
    (tmp_path / "config").mkdir()
    table = """{
	"dataVersion":{"counter":2,"stateVersion":0,"timestamp":1},
	"odd":{0:1,-3:2},
	"topicConfigTable":{
		"t":{"attributes":{"cleanup.policy":"COMPACTION"},"perm":6},
		"kept":{"attributes":{"cleanup.policy":"DELETE"}},
		"old":{"perm":6},
		"../escaped":{"attributes":{"cleanup.policy":"COMPACTION"}},
		"text":"{0:1}",
		"none":{"attributes":null}
	}
}"""
    (tmp_path / "config" / "topics.json").write_text(table)

    with Driver(CompactionPlugin(), "compaction", tmp_path, SmallLog()) as driver:
        assert driver.plugin.topics == {"t"}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"topicConfigTable":[]}', "\xff", "[" * 99_999])
def test_a_table_that_cannot_be_read_names_no_topics(tmp_path, text):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "topics.json").write_bytes(text.encode("latin-1"))

    with Driver(CompactionPlugin(), "compaction", tmp_path, SmallLog()) as driver:
        assert driver.plugin.topics == frozenset()


def test_the_backup_of_the_table_stands_in_for_it(tmp_path):
    (tmp_path / "config").mkdir()
    entry = {"topicConfigTable": {"t": {"attributes": {"cleanup.policy": "COMPACTION"}}}}
    (tmp_path / "config" / "topics.json").write_text('{"topicConf')
    (tmp_path / "config" / "topics.json.bak").write_text(json.dumps(entry))

    with Driver(CompactionPlugin(), "compaction", tmp_path, SmallLog()) as driver:
        assert driver.plugin.topics == {"t"}


# --------------------------------------------------------------------------- made-up files


@pytest.mark.parametrize(
    "unit",
    [
        (0, 120, 0, 0, 0, 1, -1, 0),  # again and again the first record
        (1 << 62, 120, 0, 0, 5, 1, -1, 0),
        (-5, 120, 0, 0, 5, 1, -1, 0),
        (100, 1 << 30, 0, 0, 5, 1, -1, 0),
        (100, 5, 0, 0, 5, 1, -1, 0),
        ((1 << 63) - 1, (1 << 31) - 1, 0, 0, (1 << 63) - 1, 1, -1, 0),
    ],
)
@pytest.mark.parametrize("slot", [0, 1, 2])
def test_units_that_lead_nowhere_are_replaced_from_the_log(tmp_path, unit, slot):
    root = made(tmp_path / "store")
    (root / "reput" / "state").unlink()
    (root / "abort").touch()
    path = sorted(queue_of(root).glob("0*"))[-2]
    data = bytearray(path.read_bytes())
    struct.pack_into(">qiqqqhii", data, slot * 46, *unit)
    path.write_bytes(data)

    with open_store(root, "r") as store:
        try:
            found, _ = bodies(store)
        except CorruptFileError as error:
            found = [] if error.path == str(path) else [str(error)]
        assert set(found) <= set(everything())
    with open_store(root) as store:
        store.wait_dispatched()
        assert bodies(store) == (everything(), [])


@pytest.mark.parametrize(
    "names",
    [
        ["0000000000000000000x", "0", "a" * 20],
        ["00000000000000000000.new", "99999999999999999999"],
    ],
)
def test_files_with_other_names_are_left_alone(tmp_path, names):
    root = made(tmp_path / "store")
    for name in names:
        (log_of(root) / name).write_bytes(b"not mine")

    with open_store(root) as store:
        store.plugin("compaction").compact()

    assert all((log_of(root) / name).read_bytes() == b"not mine" for name in names)


def test_files_whose_positions_overlap_are_told(tmp_path):
    root = made(tmp_path / "store")
    for directory in (log_of(root), queue_of(root)):
        shutil.copy(directory / f"{0:020d}", directory / f"{7:020d}")

    with open_store(root) as store:
        (state,) = store.plugins()

        assert "remove what does not belong there" in str(state.last_error)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        '{"old":["../x"],"new":[],"checkpoint":0,"tombstone":null}',
        '{"old":[-1],"new":[],"checkpoint":0,"tombstone":null}',
        '{"old":[],"new":[true],"checkpoint":0,"tombstone":null}',
        '{"old":[],"new":[],"checkpoint":99999999999999999999}',
        '{"old":5,"new":[],"checkpoint":0,"tombstone":null}',
        '{"old":[],"new":[],"checkpoint":0,"tombstone":"x"}',
    ],
)
def test_an_exchange_that_nobody_wrote_down_like_that_is_told(tmp_path, text):
    root = made(tmp_path / "store")
    (notes_of(root) / "replacing").write_text(text)

    with open_store(root) as store:
        (state,) = store.plugins()

        assert "replacing" in str(state.last_error)
    assert len(list(log_of(root).iterdir())) == len(list(queue_of(root).iterdir())) > 3


@pytest.mark.parametrize("text", ["", "{", '{"queueOffsetMap":{"t_0":"x","t_1":null}}', "[]"])
def test_a_checkpoint_that_cannot_be_read_costs_a_run(tmp_path, text):
    root = made(tmp_path / "store")
    with open_store(root) as store:
        store.plugin("compaction").compact()
    path = root / "compaction" / "position-checkpoint"
    path.write_text(text)
    path.with_name("position-checkpoint.bak").unlink(missing_ok=True)

    with open_store(root) as store:
        assert bodies(store)[0] == everything()[-4:]
        store.plugin("compaction").compact()
        assert bodies(store)[0] == everything()[-4:]


def test_a_checkpoint_from_the_future_does_not_stop_compactions(tmp_path):
    root = made(tmp_path / "store")
    path = root / "compaction" / "position-checkpoint"
    path.write_text('{"empty":false,"queueOffsetMap":{"t_0":9000}}')

    with open_store(root) as store:
        store.plugin("compaction").compact()

        assert bodies(store)[0] == everything()[-4:]


def test_a_directory_of_a_topic_that_is_not_compacted_stays_as_it_is(tmp_path):
    root = made(tmp_path / "store")
    before = {path: path.stat().st_mtime_ns for path in (root / "compaction").rglob("0*")}

    with open_store(root, topics=["other"]) as store:
        store.put(reput.Message("t", b"no key"))
        store.wait_dispatched()
        store.plugin("compaction").compact()

    assert {p: p.stat().st_mtime_ns for p in (root / "compaction").rglob("0*")} == before
