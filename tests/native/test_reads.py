"""Reads of queues give the same with both engines: messages, holes, statuses, columns.

So do writes of pieces.
"""

from __future__ import annotations

import gc
import os
import pickle
import random
import shutil
import struct
import threading
import zlib
from itertools import pairwise

import numpy as np
import pytest
from bothengines import python_engine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import reput
from reput.files.readmap import map_size
from reput.files.system.disk import Disk, write_pieces
from reput.files.system.vectoredread import read_pieces
from reput.record import Encoder, Message
from reput_consumequeue import plugin
from reput_consumequeue.reader import queueread
from reput_consumequeue.reader.fastpath import sound_columns, sound_messages
from reput_consumequeue.reader.mappedread import read_whole
from reput_testing.logs import fuzzing, strategies

MANY = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
ENCODERS = (Encoder(), Encoder(store_host=bytes(range(20))))

COLUMNS = ("physical_offset", "queue_offset", "queue_id", "sys_flag", "store_timestamp", "size")

# --------------------------------------------------------------------------- pieces of a file

BASE = 10_000
places = st.lists(
    st.tuples(
        st.integers(BASE - 20, BASE + 1_100) | st.sampled_from([-(1 << 63), (1 << 63) - 1]),
        st.integers(-1, 90) | st.sampled_from([-(1 << 31), (1 << 31) - 1]),
    ),
    max_size=12,
)


@pytest.fixture(scope="module")
def descriptor(tmp_path_factory):
    path = tmp_path_factory.mktemp("pieces") / "file"
    path.write_bytes(bytes(range(256)) * 4)
    found = os.open(path, os.O_RDONLY)
    yield found
    os.close(found)


def packed(places, stride=20):
    return b"".join(struct.pack(">qi", *place).ljust(stride, b"\x07") for place in places)


@MANY
@given(places, st.sampled_from([12, 20]), st.integers(0, 1_100), st.integers(-1, 13), st.data())
def test_pieces_anywhere(descriptor, places, stride, limit, count, data):
    cut = data.draw(st.integers(0, 5))
    wanted = packed(places, stride) + b"\0" * cut
    most = data.draw(st.sampled_from([0, 50, 90, 1 << 40]))
    together = data.draw(st.sampled_from([-1, 0, 1, 90, 1 << 62]))
    asked = (descriptor, BASE, BASE + limit, wanted, stride, 80, count, most, together)

    found = read_pieces(*asked)

    assert found == read_pieces.__wrapped__(*asked)
    file = bytes(range(256)) * 4
    mapped = (np.frombuffer(file, np.uint8), *asked[1:])
    assert read_pieces(*mapped) == read_pieces.__wrapped__(*mapped) == found
    chunks, number = found
    expected = [file[where - BASE : where - BASE + size] for where, size in places[:number]]
    assert [len(piece) for piece in expected] == [size for _, size in places[:number]]
    assert b"".join(chunks) == b"".join(expected)
    assert together > 0 or chunks == expected


def test_a_file_that_ends_inside_of_a_piece(descriptor):
    ends = [(BASE + 1_000, 20), (BASE + 1_010, 30), (BASE + 1_020, 4), (BASE + 1_500, 9)]
    asked = (descriptor, BASE, BASE + 9_999, packed(ends), 20, 80, 9, 1 << 20)

    mapped = (np.frombuffer(bytes(range(256)) * 4, np.uint8), *asked[1:])

    assert read_pieces(*asked) == ([bytes(range(232, 252))], 1)
    assert read_pieces(*asked) == read_pieces.__wrapped__(*asked)
    assert read_pieces(*mapped) == read_pieces.__wrapped__(*mapped) == read_pieces(*asked)


def test_an_error_of_the_disk_is_that_of_python(tmp_path):
    directory = os.open(tmp_path, os.O_RDONLY)
    asked = (directory, 0, 99, packed([(0, 9)]), 20, 80, 9, 1 << 20)

    with pytest.raises(IsADirectoryError) as expected:
        read_pieces.__wrapped__(*asked)
    with pytest.raises(IsADirectoryError) as found:
        read_pieces(*asked)

    assert found.value.args == expected.value.args
    os.close(directory)


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (None, None),
        ((-1, np.zeros(1, np.uint8), 0), OSError),
        ((0, np.zeros(1, np.uint8), -1), OSError),
        ((0, "text", 0), TypeError),
    ],
)
def test_pieces_are_written_in_their_order_up_to_an_error_as_in_python(tmp_path, bad, kind):
    def outcome(write):
        files = [os.open(tmp_path / name, os.O_RDWR | os.O_CREAT | os.O_TRUNC) for name in "ab"]
        data = [np.frombuffer(b"%d" % number * 3, np.uint8) for number in range(6)]
        pieces = [(files[number % 2], data[number], number) for number in range(6)]
        pieces += [(files[0], data[0], 20)] if bad is None else [bad, (files[0], data[0], 20)]
        error = None
        try:
            write(pieces)
        except (OSError, TypeError) as raised:
            error = raised
        found = [os.pread(each, 99, 0) for each in files]
        for each in files:
            os.close(each)
        return found, type(error), str(error)

    found = outcome(write_pieces)

    assert found == outcome(write_pieces.__wrapped__)
    (first, second), error, _ = found
    assert (second, first[:7]) == (b"\x001133555", b"0022444")
    assert first[7:] == (b"" if bad else bytes(13) + b"000")
    assert issubclass(error, kind) if kind else error is type(None)


# --------------------------------------------------------------------------- messages of records


def shown(messages):
    return [(each.record, each.physical_offset, each.places(), each.body) for each in messages]


@MANY
@given(st.lists(strategies.messages(), min_size=1, max_size=6), st.booleans(), st.data())
@pytest.mark.costly
def test_records_that_are_beyond_doubt(sent, is_light, data):
    records, offset, listed = [], 1_000, []
    for number, message in enumerate(sent):
        try:
            record = ENCODERS[number % 2].encode(message, 5 + len(records), offset, 1)
        except ValueError:  # a text that looks like a checksum
            continue
        listed.append((offset, len(record)))
        offset += len(record) + number
        for mutation in data.draw(
            st.lists(fuzzing.mutations(len(record), [record]), max_size=1), label="damage"
        ):
            record = mutation.apply(record)
        records.append(record)
    topic = data.draw(st.sampled_from([sent[0].topic, "other", "t" * 200])).encode()
    if listed and data.draw(st.booleans(), label="repeated"):
        listed.insert(1, listed[0])
        records.insert(1, records[0])
    queue = topic, sent[0].queue_id, data.draw(st.sampled_from([5, 6])), is_light
    following = data.draw(st.sampled_from([[], [(offset, 200)], listed[-1:]]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(records)), max_size=3), label="cuts"))
    borders = pairwise([0, *cuts, len(records)])
    chunks = [b"".join(records[first:stop]) for first, stop in borders]
    asked = chunks, packed(listed + following), 20, *queue, data.draw(st.sampled_from([-1, 1000]))

    found = sound_messages(*asked)

    assert shown(found) == shown(sound_messages.__wrapped__(*asked))
    as_columns = b"".join(chunks), *asked[1:]
    columns, expected = sound_columns(*as_columns), sound_columns.__wrapped__(*as_columns)
    for made, other in zip(columns, expected, strict=True):
        assert (made.dtype, made.shape, made.tolist()) == (other.dtype, other.shape, other.tolist())
    together = sound_messages(as_columns[:1], *asked[1:])
    assert columns[2].tolist() == [each.physical_offset for each in together]


@MANY
@given(st.lists(strategies.messages(), min_size=1, max_size=6), st.booleans(), st.data())
@pytest.mark.costly
def test_reads_that_end_at_a_limit_and_others(tmp_path_factory, sent, is_light, data):
    path = tmp_path_factory.getbasetemp() / "places"
    base = 1_000
    log, listed = bytearray(data.draw(st.integers(0, 9), label="before")), []
    for number, message in enumerate(sent):
        try:
            record = ENCODERS[number % 2].encode(message, 5 + len(listed), base + len(log), 1)
        except ValueError:  # a text that looks like a checksum
            continue
        listed.append((base + len(log), len(record)))
        log += record + bytes(number)
    for mutation in data.draw(st.lists(fuzzing.mutations(len(log), []), max_size=1)):
        log = mutation.apply(bytes(log))
    window = np.frombuffer(bytes(log), np.uint8)
    if data.draw(st.booleans(), label="repeated"):
        listed += listed[-1:]
    strange = st.tuples(st.integers(-9, 3_000), st.integers(-9, 3_000))
    listed += data.draw(st.lists(strange, max_size=2), label="strange")
    total = sum(max(size, 0) for _, size in listed)
    stop = st.just(len(log)) | st.integers(0, len(log))
    known = window[: data.draw(stop, label="known")]
    file_size = data.draw(st.sampled_from([9, 9, 8]), label="bytes of the file now")
    size_now = data.draw(
        st.sampled_from([lambda: file_size, sized(path.with_name("mapped"), file_size)])
    )
    other = window[:0], base, 9, lambda: 9
    end = base + data.draw(st.just(len(log)) | stop, label="end of the log")
    mapped = end, (other, (known, base, 9, size_now))
    limits = (
        data.draw(st.integers(0, len(listed) + 1), label="wanted"),
        data.draw(st.sampled_from([0, total, total - 1, 1 << 40]) | st.integers(0, total + 1)),
        data.draw(st.sampled_from([1 << 20, 1 << 20, 250]), label="most of one"),
        data.draw(st.sampled_from([0, 400, 1 << 16]), label="together"),
    )
    topic = data.draw(st.sampled_from([sent[0].topic, "other"])).encode()
    place = topic, sent[0].queue_id, data.draw(st.sampled_from([5, 6])), is_light
    places = packed(listed)
    size = data.draw(st.just(len(places)) | st.integers(0, len(places) + 1), label="size")
    asked = size, 20, mapped, limits, place
    path.write_bytes(b"abc" + places)
    with path.open("rb") as file:
        of_file = file.fileno(), 3, *asked

        found, expected = read_whole(*of_file, False), read_whole.__wrapped__(*of_file, False)
        columns = read_whole(*of_file, True)
    others = read_whole.__wrapped__(places, 0, *asked, True)

    assert (found is None) == (expected is None) == (columns is None) == (others is None)
    assert (read_whole(places, 0, *asked, False) is None) == (found is None)
    if found is None:
        return
    assert type(found) is tuple
    assert shown(found) == shown(expected)
    assert columns[2] == others[2] == found[-1].physical_offset + found[-1].size
    for made, other in zip(columns[:2], others[:2], strict=True):
        assert (made.dtype, made.shape, made.tolist()) == (other.dtype, other.shape, other.tolist())
        assert not made.flags.writeable
        assert not other.flags.writeable
    assert columns[1][8].tolist() == [each.physical_offset for each in found]
    assert columns[0].tobytes() == b"".join(each.record for each in found)


def sized(path, size):
    """What returns the size of a file that has so many bytes."""
    path.write_bytes(bytes(size))
    with path.open("rb") as file:
        return map_size(None, file.fileno())


def test_the_size_of_a_mapped_file_is_the_one_that_it_has_now(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(5_000))
    with path.open("rb") as file:
        made = Disk().map_to_read(file.fileno(), 5_000)
        asked = made, file.fileno()
        found, expected = map_size(*asked), map_size.__wrapped__(*asked)

    for size in (5_000, 4_999, 0, 7):
        os.truncate(path, size)
        assert found() == expected() == size
    for descriptor in (-1, 1 << 40, "1", asked[1]):  # the last one is closed
        assert map_size(made, descriptor) == made.size


# --------------------------------------------------------------------------- whole reads

PLUGINS = ["consumequeue", "filter", "compaction"]
CONFIG = {
    "commitlog": {"file_size": 1 << 15, "max_light_queues": 20_000},
    "consumequeue": {"units_per_file": 70},
    "compaction": {"topics": ["prices"]},
}


def sent():
    chance = random.Random(11)
    for number in range(900):
        light = {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b"} if number % 9 == 0 else {}
        body = chance.randbytes(chance.choice([0, 1, 60, 60, 700]))
        is_compressed = number % 7 == 0
        yield Message(
            chance.choice(["orders", "orders", "prices"]),
            zlib.compress(body) if is_compressed else body,
            number % 2,
            tags=chance.choice([None, "TagA", "TagB"]),
            keys=f"k{number % 40}",
            properties={"n": str(number), **light},
            sys_flag=1 if is_compressed else 0,
        )


def open_store(root, mode="w"):
    return reput.open(root, mode, plugins=PLUGINS, config=CONFIG)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("reads") / "store"
    with open_store(root, "w") as store:
        for message in sent():
            store.put(message)
        assert store.wait_dispatched()
        store.plugin("compaction").compact()
        assert len(store.log.files.bases) > 4
    return root


def damage(root, seed):
    """Turn bits of the log, and of a queue's units, over."""
    chance = random.Random(seed)
    for path in sorted((root / "commitlog").iterdir()):
        data = bytearray(path.read_bytes())
        for _ in range(6):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
    path = root / "consumequeue" / "orders" / "0" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    for _ in range(5):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


STEPS = ((1, 4096, None), (32, 3000, None), (300, 1 << 20, None), (50, 1 << 20, "TAGS = 'TagA'"))


def answers(store):
    """Everything that reads of all queues give, in several steps."""
    found = []
    for queue in store.queues():
        for step, size, chosen in STEPS:
            at = queue.min_queue_offset
            for _ in range(1_000):
                asked = queue.topic, queue.queue_id, at, step, size, chosen
                answer, columns = store.read(*asked), store.read(*asked, as_columns=True)
                found.append(facts(answer))
                assert_same_columns(answer, columns)
                if answer.next_queue_offset <= at:
                    break
                at = answer.next_queue_offset
    return found


def facts(answer):
    messages = [
        (*one, message.topic, message.properties)
        for one, message in zip(shown(answer), answer, strict=True)
    ]
    return (
        answer.status,
        (answer.next_queue_offset, answer.min_queue_offset, answer.max_queue_offset),
        (answer.queue_offsets, answer.holes),
        messages,
    )


def assert_same_columns(answer, columns):
    batch = columns.batch
    assert (len(columns), bool(columns)) == (len(answer), bool(answer))
    assert (columns.status, columns.next_queue_offset) == (
        answer.status,
        answer.next_queue_offset,
    )
    assert (columns.holes, columns.queue_offsets.tolist()) == (
        answer.holes,
        list(answer.queue_offsets),
    )
    for name in COLUMNS:
        assert batch.column(name).tolist() == [getattr(each, name) for each in answer]
    assert [batch.message(row) for row in range(len(batch))] == list(answer)
    assert [batch.topics[code] for code in batch.topic_code] == [each.topic for each in answer]
    assert batch.body.as_bytes() == [each.body for each in answer]


@pytest.mark.proof
@pytest.mark.alike
@pytest.mark.parametrize("mode", ["w", "r"])
@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_reads_of_all_queues_sound_and_damaged(tmp_path, made, mode, seed, monkeypatch):
    root = tmp_path / "store"
    shutil.copytree(made, root)
    if seed is not None:
        damage(root, seed)
    with open_store(root) as store:  # repairs what can be
        assert store.wait_dispatched()

    with open_store(root, mode) as store:
        found = answers(store)
        with python_engine():
            expected = answers(store)
        with monkeypatch.context() as patch:
            for module, name in ((plugin, "read_loaded"), (queueread, "read_mapped")):
                patch.setattr(module, name, lambda *_: None)
            one_by_one = answers(store)

    assert found == expected == one_by_one
    with open_store(root, "r") as store:
        names = {queue.topic for queue in store.queues()}
    assert names == {"%LMQ%a", "%LMQ%b", "orders", "prices"}
    assert sum(len(messages) for *_, messages in found) > 1_000


def test_a_message_that_is_kept_keeps_little_memory(tmp_path):
    sizes = [*[2_000] * 80, 70_000, *[2_000] * 5]
    with reput.open(tmp_path / "s", "w", plugins=["consumequeue"]) as store:
        for size in sizes:
            store.put(Message("T", bytes(size)))
        assert store.wait_dispatched()
        found = store.read("T", 0, 0, 100)

    assert [len(message.body) for message in found] == sizes
    for message in found:
        shared = [each for each in gc.get_referents(message) if type(each) is bytes]
        assert sum(map(len, shared)) <= max(1 << 16, message.size)
        assert len(pickle.dumps(message)) < message.size + 200
        assert message.record == reput.MessageView(message.record).record


@pytest.mark.costly
def test_the_collector_visits_a_message_only_once_its_properties_may_lead_to_it(tmp_path):
    class Finalized:
        def __del__(self):
            finalized.append(True)

    finalized = []
    with reput.open(tmp_path / "s", "w", plugins=["consumequeue"]) as store:
        store.put_many([Message("T", b"%d" % number, tags="a") for number in range(10)])
        assert store.wait_dispatched()
        for count in (1, 10):  # message by message, and at once
            message = store.read("T", 0, 0, count).messages[0]
            assert not gc.is_tracked(message)
            assert message.properties["TAGS"] == "a"
            assert gc.is_tracked(message)
            message.properties["itself"] = message
            message.properties["it"] = Finalized()
            del message
            gc.collect()

    assert finalized == [True, True]


def test_columns_of_a_short_answer_keep_no_memory_of_what_was_read(tmp_path):
    root = tmp_path / "s"
    with reput.open(root, "w", plugins=["consumequeue"]) as store:
        for number in range(400):
            store.put(Message("T", bytes([number % 251]) * 900))
        assert store.wait_dispatched()
        second = store.read("T", 0, 1, 1).messages[0]
    (path,) = (root / "commitlog").iterdir()
    data = bytearray(path.read_bytes())
    data[second.physical_offset + 200] ^= 1  # in its body
    path.write_bytes(data)

    with reput.open(root, "r") as store:
        batch = store.read("T", 0, 0, 400, 1 << 20, as_columns=True).batch

    assert len(batch) == 1
    for kept in (batch._places, batch._header, batch.window):
        whole = kept if kept.base is None else kept.base
        assert memoryview(whole).nbytes < 1_200


@pytest.mark.costly
def test_bodies_that_rot_under_an_open_store(tmp_path, made):
    root = tmp_path / "store"
    shutil.copytree(made, root)
    with open_store(root) as store:
        damage(root, 9)
        found = answers(store)
        with python_engine():
            expected = answers(store)

    assert found == expected
    assert any(holes for _, _, (_, holes), _ in found)


def test_readers_beside_a_writer_and_beside_trimming(tmp_path):
    config = {
        "commitlog": {"file_size": 1 << 14},
        "consumequeue": {"units_per_file": 70},
    }
    failures, done = [], threading.Event()

    def follow(store):
        at, last = 0, -1
        try:
            while not (done.is_set() and at >= store.queues()[0].max_queue_offset):
                answer = store.read("T", 0, at, 40)
                for message, place in zip(answer, answer.queue_offsets, strict=True):
                    assert message.queue_offset == place > last
                    assert message.body == b"%d" % place * 9
                    last = place
                at = answer.next_queue_offset
        except BaseException as error:
            failures.append(error)

    with reput.open(tmp_path / "s", "w", plugins=["consumequeue"], config=config) as store:
        store.put(Message("T", b"0" * 9))
        assert store.wait_dispatched()
        threads = [threading.Thread(target=follow, args=(store,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for number in range(1, 700):
            store.put(Message("T", b"%d" % number * 9))
            if number % 100 == 0:
                assert store.wait_dispatched()  # a file that a plugin has not seen is kept
                store.trim_log(store.log.file_offsets[-4:][0])
        assert store.wait_dispatched()
        assert store.queues()[0].min_queue_offset > 0
        done.set()
        for thread in threads:
            thread.join()

    assert failures == []


def test_columns_may_be_kept(tmp_path, made):
    with open_store(made, "r") as store:
        first = store.read("orders", 0, 0, 20, as_columns=True)
        before = first.batch.window.tobytes(), first.batch.physical_offset.tolist()
        for at in range(0, 100, 20):
            store.read("orders", 0, at, 20, as_columns=True)

    assert (first.batch.window.tobytes(), first.batch.physical_offset.tolist()) == before
    part = first.batch[3:7]
    assert part.physical_offset.tolist() == before[1][3:7]
    assert (part.start_offset, part.end_offset) == (before[1][3], before[1][7])
    assert first.batch.after(before[1][5]).physical_offset.tolist() == before[1][5:]
    assert first.queue_offsets.dtype == np.int64
