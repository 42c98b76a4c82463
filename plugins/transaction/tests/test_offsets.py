"""The broker's file of consumer offsets: two of them are ours, all else stays as it is."""

from __future__ import annotations

import shutil

import pytest

import reput
from reput.files import Disk
from reput_testing import SimulatedDisk
from reput_tools.brokerfiles import object_of
from reput_transaction.offsets.checkbackoffsets import CheckBackOffsets
from reput_transaction.offsets.offsetfile import HALF_KEY, OP_KEY, check, offset_in
from reput_transaction.offsets.optail import OpTail

# As fastjson writes it: number keys without quotes, all entries on one line, then a line end.
NEW = """{
\t"dataVersion":{
\t\t"counter":7,
\t\t"stateVersion":0,
\t\t"timestamp":1700000000000
\t},
\t"groupTopicMap":{
\t\t"GroupA":["TopicTest"]
\t},
\t"offsetTable":{
\t\t"TopicTest@GroupA":{0:12,1:10,2:0,3:7
\t\t},
\t\t"%RETRY%a@b@c":{0:-1
\t\t},
\t\t"odd \\"{1:2}\\" name":{5:1
\t\t},
\t\t"RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS":{0:41
\t\t}
\t}
}"""
OLD = '{\n\t"offsetTable":{\n\t\t"TopicTest@GroupA":{0:12,1:10\n\t\t}\n\t}\n}'


def test_only_the_two_offsets_and_the_version_change(tmp_path):
    (tmp_path / "consumerOffset.json").write_text(NEW)
    offsets = CheckBackOffsets(str(tmp_path), Disk(), lambda: 99)
    offsets.load()
    assert (offsets.half_offset, offsets.op_offset) == (41, None)

    assert [offsets.save(50, 3), offsets.save(50, 3)] == [True, False]

    expected = NEW.replace('"counter":7', '"counter":8').replace("1700000000000", "99")
    expected = expected.replace(
        "{0:41\n\t\t}",
        '{0:50\n\t\t},\n\t\t"RMQ_SYS_TRANS_OP_HALF_TOPIC@CID_RMQ_SYS_TRANS":{0:3\n\t\t}',
    )
    assert (tmp_path / "consumerOffset.json").read_text() == expected
    assert (tmp_path / "consumerOffset.json.bak").read_text() == NEW


@pytest.mark.parametrize(
    "data", [b"{", b"[]", b"nothing", b'{"offsetTable":[]}', b"\xff", b"[" * 100_000, b'"a"']
)
def test_what_is_no_such_file_is_a_value_error(data):
    with pytest.raises(ValueError, match=r"."):
        check(object_of(data))


@pytest.mark.parametrize(
    ("offset", "found"), [("-1", None), ('"5"', 5), ("true", 1), ("1.5", 1), ("+7", 7)]
)
def test_an_offset_is_read_as_brokers_do_and_a_negative_one_is_not_believed(offset, found):
    document = object_of(f'{{"offsetTable":{{"{HALF_KEY}":{{0:{offset}}}}}}}'.encode())

    assert offset_in(document, HALF_KEY) == found


@pytest.mark.parametrize("offset", ["null", "9223372036854775808", "{}", "x"])
def test_an_offset_that_brokers_cannot_read_makes_the_file_unreadable(offset):
    data = f'{{"offsetTable":{{"{HALF_KEY}":{{0:{offset}}}}}}}'.encode()

    with pytest.raises(ValueError, match=r"."):
        check(object_of(data))


def test_an_op_message_is_done_when_all_its_half_messages_are():
    tail = OpTail()
    for op_offset, largest in [(10, 3), (11, 5), (12, 9), (13, 4)]:
        tail.add(op_offset, largest)

    found = [tail.offset(half) for half in (0, 4, 6, 9, 10)]

    assert found == [10, 11, 12, 12, 14]
    tail.drop_below(6)
    assert tail.entries == [(12, 9), (13, 4)]


def test_many_op_messages_take_little_room_and_none_is_left_out():
    tail, whole = OpTail(), []
    for op_offset in range(20_000):
        largest = op_offset * 7 % 5_000
        tail.add(op_offset, largest)
        whole.append((op_offset, largest))

    assert len(tail.entries) <= 4_096
    for half in (0, 1, 2_500, 4_999):
        exact = next(op_offset for op_offset, largest in whole if largest >= half)
        assert tail.offset(half) <= exact


# --------------------------------------------------------------------------- in a store


def path_of(at):
    return at.root / "config" / "consumerOffset.json"


def test_nothing_is_written_before_the_plugin_has_ended_anything(steps):
    at = steps()
    at.store.plugin("transaction").prepare(reput.Message("orders", b"a"))
    at.store.flush()

    assert not path_of(at).exists()


@pytest.mark.sizes(transaction={"op_batch_interval_ms": 0})
def test_the_offsets_follow_what_is_finished_and_on_disk(steps):
    at = steps()
    first, second, _ = (
        at.store.plugin("transaction").prepare(reput.Message("orders", b"%d" % n)) for n in range(3)
    )
    path_of(at).parent.mkdir()
    path_of(at).write_text(OLD)

    at.store.plugin("transaction").commit(second)
    at.work_for(10)
    at.store.flush()
    while_the_first_is_open = path_of(at).read_text()
    at.store.plugin("transaction").rollback(first)
    at.work_for(10)
    at.store.flush()

    document = object_of(while_the_first_is_open.encode())
    assert (offset_in(document, HALF_KEY), offset_in(document, OP_KEY)) == (0, 0)
    document = object_of(path_of(at).read_bytes())
    assert (offset_in(document, HALF_KEY), offset_in(document, OP_KEY)) == (2, 2)
    assert document["offsetTable"]["TopicTest@GroupA"] == {"0": 12, "1": 10}


def test_a_file_that_cannot_be_read_is_left_alone(steps, caplog):
    at = steps()
    at.store.close()
    path_of(at).parent.mkdir()
    path_of(at).write_text('{"offsetTable":{"Topi')
    at.open()

    at.store.plugin("transaction").rollback(
        at.store.plugin("transaction").prepare(reput.Message("orders", b"a"))
    )
    at.store.wait_dispatched()
    at.store.flush()

    assert path_of(at).read_text() == '{"offsetTable":{"Topi'
    assert "offsets of transactions not written" in caplog.text
    assert at.store.plugins()[1].last_error is None


def test_the_backup_is_read_where_the_file_is_missing_or_empty(steps):
    at = steps()
    for number in range(3):
        at.store.plugin("transaction").prepare(reput.Message("orders", b"%d" % number))
    at.store.close()
    path_of(at).parent.mkdir()
    path_of(at).write_text(" ")
    path_of(at).with_name("consumerOffset.json.bak").write_text(
        f'{{"offsetTable":{{"{HALF_KEY}":{{0:2}}}}}}'
    )

    at.open()

    assert [half.body for half in at.store.plugin("transaction").dangling()] == [b"2"]


def opened_with_half_offset(steps, offset):
    """A store of one half message, for which the file states the offset of another log."""
    at = steps()
    prepare(at, b"a")
    at.store.close()
    path_of(at).parent.mkdir()
    path_of(at).write_text(f'{{"offsetTable":{{"{HALF_KEY}":{{0:{offset}}}}}}}')
    at.open()
    return at


def prepare(at, *bodies):
    for body in bodies:
        at.store.plugin("transaction").prepare(reput.Message("orders", body))
    at.store.wait_dispatched()


def dangling(store):
    return [half.body for half in store.plugin("transaction").dangling()]


@pytest.mark.shows("offsets-beyond")
@pytest.mark.parametrize(("offset", "later"), [(1_000, []), (3, [b"b", b"c", b"d"])])
def test_offsets_beyond_the_log_are_not_believed_either_when_the_log_has_grown(
    steps, offset, later
):
    """As a power cut leaves them whose broker saves offsets before it flushes its log."""
    at = opened_with_half_offset(steps, offset)

    prepare(at, *later)

    assert dangling(at.store) == [b"a", *later]


@pytest.mark.shows("offsets-beyond")
def test_offsets_beyond_the_log_are_forgotten_for_good_before_the_first_put(steps, tmp_path):
    at = opened_with_half_offset(steps, 3)
    prepare(at, b"b", b"c", b"d")

    # A copy of an open store is what a kill leaves.
    killed = shutil.copytree(at.root, tmp_path / "killed")

    with reput.open(killed, clock=at.clock, threads=False) as store:
        assert dangling(store) == [b"a", b"b", b"c", b"d"]


def test_the_directory_of_the_file_survives_a_power_cut(tmp_path):
    """Other plugins make files in it durable, and rely on its name."""
    root = tmp_path / "disk"
    root.mkdir()
    disk = SimulatedDisk(root)

    CheckBackOffsets(str(root / "config"), disk, lambda: 0).save(1, 2)

    left = [state.image() for state in disk.crash_states()]
    assert all("config/consumerOffset.json" in image for image in left)
