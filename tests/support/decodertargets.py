"""What is fuzzed: functions that take any bytes, check what must hold of them, and tell how far
they came.

Used by Hypothesis (``tests/fuzz/test_decoders.py``) and by a coverage-guided fuzzer
(``tests/fuzz/coverage_guided.py``). None of them may raise; a typed error is no failure where a
docstring promises it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from collections import defaultdict

import numpy as np
import plaindecoder
import pytest

import reput
from reput.dispatch.manifest import MANIFEST, Manifest
from reput.errors import CorruptFileError, MessageIllegalError, ReputError
from reput.log import (
    LOSSES,
    Checkpoint,
    LogStateFile,
    LossLedger,
    Progress,
    ProgressEntry,
    StateFile,
)
from reput.record import (
    Decoder,
    Encoder,
    End,
    Message,
    MessageView,
    PropertyColumns,
    inner_message_count,
    light_queue_names,
    parse_message_id,
    parse_properties,
)
from reput.record import decode as decoding
from reput.record.encoding.lightqueues import LightQueueLimit, with_light_queue_offsets
from reput.record.layout import (
    BLANK_MAGIC,
    FILLER_TOPIC,
    INNER_BATCH,
    SIZE_AND_MAGIC,
    TRANSACTION_ROLLBACK,
)
from reput.record.messageids import offset_message_id
from reput_testing import ManualClock, QuickDisk, SmallLog

NUMBERS = (
    "body_crc",
    "queue_id",
    "flag",
    "queue_offset",
    "sys_flag",
    "born_timestamp",
    "store_timestamp",
    "reconsume_times",
    "prepared_transaction_offset",
)
NAMES = ("KEYS", "TAGS", "UNIQ_KEY", "a", "INNER_NUM")
SEEDS_LOG_FILE = 1024
_clock = ManualClock()


# --------------------------------------------------------------------------- records


def records(base=0):
    """Valid records, one behind the other, each a seed."""
    encoders = [
        Encoder(),
        Encoder(record_crc=True),
        Encoder(store_host=bytes(range(20))),
    ]
    messages = [
        Message("T", b"body", 0, tags="TagA", keys=["k1", "k2"], properties={"a": "1"}),
        Message("%RETRY%" + "g" * 150, b"\xda\xa3\x20\xa7" * 3, 3, sys_flag=4),
        Message("T", b"", 1, born_host=("2001:db8::7", 1), properties=b"x"),
        Message("orders", b"z" * 40, 2, tags="标签", flag=-1),
    ]
    offset = base
    for number, (encoder, message) in enumerate(itertools.product(encoders, messages)):
        record = encoder.encode(message, number, offset, 1_700_000_000_000 + number)
        yield record
        offset += len(record)


def decode(data):
    """The vectorised decoder accepts what the plain one accepts, row by row, whatever it checks."""
    depth = 0
    window = np.frombuffer(data, np.uint8)
    for check_crc, check_offset, check_record_crc in itertools.product((False, True), repeat=3):
        flags = {
            "check_crc": check_crc,
            "check_offset": check_offset,
            "check_record_crc": check_record_crc,
        }
        expected = plaindecoder.decode(data, 0, **flags)
        for file_end in (None, len(data)):
            result = Decoder(**flags).decode(window, 0, file_end)
            compare(result, expected, len(data))
        depth = max(depth, len(expected))
    for walks in (False, True):  # both ways to find borders
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(decoding, "_WALK_WITHIN", 0)
            compare(Decoder(walks=walks).decode(window, 0), plaindecoder.decode(data, 0), len(data))
    return depth


def compare(result, expected, size):
    batch = result.batch
    assert batch.start.tolist() == [one["start"] for one in expected]
    assert batch.size.tolist() == [one["size"] for one in expected]
    for name in NUMBERS:
        assert batch.column(name).tolist() == [one[name] for one in expected], name
    topics = [batch.topics[code] for code in batch.topic_code.tolist()]
    assert topics == [plaindecoder.text_of(one["topic"]) for one in expected]
    bodies, texts = batch.body, batch.properties_text
    for row, one in enumerate(expected):
        assert _bytes_at(bodies, row) == one["body"]
        assert _bytes_at(texts, row) == one["properties"]
        assert batch.record(row) == one["record"]
        _same_view(batch.message(row), one)
    _same_properties(batch.properties, [one["properties"] for one in expected])
    if expected:
        tags = [one["properties"] for one in expected]
        assert batch.tags_code.tolist() == [_tags_code(text) for text in tags]
    end = expected[-1]["start"] + expected[-1]["size"] if expected else 0
    if result.end != End.BLANK:
        assert batch.end_offset == end
    if result.end == End.WINDOW:
        assert result.needed_size > size or end == size
    assert (batch.finding is None) == (result.end != End.BAD)


def _bytes_at(column, row):
    start, size = int(column.starts[row]), int(column.sizes[row])
    return column.window[start : start + size].tobytes()


def _same_properties(columns, texts):
    for name in NAMES:
        found = columns.find(name)
        values = [plaindecoder.properties_of(text).get(name.encode()) for text in texts]
        got = [
            _bytes_at(found, row) if found.sizes[row] >= 0 else None for row in range(len(texts))
        ]
        assert got == values, name


def _tags_code(text):
    tags = plaindecoder.properties_of(text).get(b"TAGS", b"")
    return plaindecoder.java_hash(plaindecoder.text_of(tags))


def _same_view(view, one):
    for name in NUMBERS:
        assert getattr(view, name) == one[name], name
    assert view.body == one["body"]
    assert view.topic_bytes == one["topic"]
    assert view.properties_text == one["properties"]


def view(data):
    """A message view over any bytes answers every question, or says that they are no record."""
    expected = plaindecoder.decode_one(data, 0)
    if expected is not None and expected["size"] != len(data):
        expected = None
    try:
        found = MessageView(data)
    except CorruptFileError:
        assert expected is None
        return 0
    try:
        found.places()
    except CorruptFileError:
        assert expected is None
    else:
        assert expected is not None
    depth = 1 + (expected is not None)
    for name in dir(MessageView):
        if name.startswith("_") or name == "checked":  # which takes what was checked
            continue
        with contextlib.suppress(CorruptFileError):
            value = getattr(found, name)
            if callable(value):
                value()
            depth += 1
    with contextlib.suppress(CorruptFileError):
        repr(found)
    if expected is not None:
        _same_view(found, expected)
    return depth


def properties(data):
    """Property texts read as columns are what they are read one by one, in any neighbourhood."""
    texts = data.split(b"\0\0")
    window = np.frombuffer(b"TAGS\x01" + b"".join(texts), np.uint8)
    sizes = np.array([len(text) for text in texts], np.int64)
    starts = np.cumsum(sizes) - sizes + 5
    _same_properties(PropertyColumns(window, starts, sizes), texts)
    depth = 0
    for text in texts:
        parsed = parse_properties(text)
        plain = plaindecoder.properties_of(text)
        assert len(parsed) <= len(plain)
        for name in NAMES:
            value = plain.get(name.encode())
            assert parsed.get(name) == (None if value is None else plaindecoder.text_of(value))
        depth += len(parsed)
    return depth


PROPERTY_SEEDS = (
    b"KEYS\x01k1 k2\x02TAGS\x01TagA\x02a\x011\x02",
    b"TAGS\x01x\x02TAGS\x01y\x02" * 20 + b"\0\0" + b"TAGS\x01z",
    b"XTAGS\x01n\x02TAGS\x01\x02KEYS\x01\x01\x01\x02",
    b"UNIQ_KEY\x01" + b"7F" * 16 + b"\x02" + "KEYS\x01键\x02".encode(),
    b"\x01" * 40 + b"\x02" * 40,
    b"",
    b"a\x01" + b"v" * 700 + b"\x02INNER_NUM\x015\x02",
)


# --------------------------------------------------------------------------- what producers send


def multi_dispatch(data):
    """Texts of light queues and inner batches are understood, or refused as illegal."""
    encoder = Encoder()
    depth = 0
    for flag in (0, INNER_BATCH):
        message = Message("T", b"x", 0, sys_flag=flag, properties=data)
        try:
            prepared = encoder.prepare(message)
        except ReputError:
            continue
        with contextlib.suppress(MessageIllegalError):
            count = inner_message_count(prepared)
            assert 1 <= count < 1 << 31
            depth += count > 1
    names = light_queue_names("T", parse_properties(data))
    with contextlib.suppress(ReputError):
        known, limit = defaultdict(int, {("%LMQ%known", 0): 5}), LightQueueLimit(100)
        _, offsets = with_light_queue_offsets(Message("T"), data, known, limit, is_listed=True)
        assert {name for name, _ in offsets} <= set(names)
        depth += len(offsets)
    return depth


MULTI_DISPATCH_SEEDS = (
    b"INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b,other\x02",
    b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02INNER_MULTI_QUEUE_OFFSET\x0112\x02",
    b"INNER_NUM\x0112\x02",
    b"INNER_NUM\x01" + "²".encode() + b"\x02INNER_BASE\x015\x02",
    b"INNER_NUM\x01" + b"9" * 30 + b"\x02",
)


def message_id(data):
    """A text is an id and comes out again as it was, or it is a `ValueError`."""
    text = data.decode("latin-1")
    try:
        host, offset = parse_message_id(text)
    except ValueError:
        return 0
    assert offset_message_id(host, offset) == text.upper()
    return 1


ID_SEEDS = (
    b"7F00000100002A9F0000000000000123",
    b"20010DB8" + b"0" * 48,
    b"",
    b" " * 32,
    b"0x" * 16,
)


# --------------------------------------------------------------------------- small files


@contextlib.contextmanager
def _store_with(name, data):
    """A directory in which the file ``name`` holds ``data``."""
    with tempfile.TemporaryDirectory() as root:
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
        yield root, path


def checkpoint(data):
    """Any file is a checkpoint; what it says can be saved again."""
    with _store_with("checkpoint", data) as (_, path):
        found = Checkpoint.load(path, QuickDisk())
        assert found.replay_timestamp >= 0
        found.save(path, QuickDisk())
        assert Checkpoint.load(path, QuickDisk()) == found
        return int(found != Checkpoint())


def progress(data):
    """Only slots whose checksum is right count, and the next save is read back."""
    with _store_with("progress", data) as (_, path):
        file = ProgressEntry(StateFile(path, QuickDisk()), "p")
        found = file.load_all()
        assert len(found) <= 2
        log = SmallLog.of([Message("T", b"x")])
        file.believable(log)
        wanted = Progress(123, 45, 67)
        kept = {name: file.file.value(name) for name in file.file.names()}
        file.save(wanted)
        file.file.note({"p/added": b"x"}, adds=True)
        again = StateFile(path, QuickDisk())
        assert ProgressEntry(again, "p").load() == wanted
        kept["p/added"] = kept.get("p/added", b"") + b"x"
        assert {name: again.value(name) for name in again.names()} == kept
        assert again.damage == ""
        return len(found)


def progress_seed():
    with _store_with("progress", b"") as (_, path):
        file = ProgressEntry(StateFile(path, QuickDisk()), "p")
        file.save(Progress(100, 9, 1))
        file.save(Progress(200, 100, 2))
        file.file.note({"p/one": b"1", "p/two": b"22"})
        file.file.note({"p/two": b"2"}, adds=True)
        with open(path, "rb") as saved:
            return saved.read()


def manifest(data):
    """A manifest, or an error that names the file."""
    with _store_with("reput/state", b"") as (_, path):
        state = StateFile(path, QuickDisk())
        state.note_everywhere({MANIFEST: data or b"\0"}, {})
        found = refused = None
        try:
            found = Manifest.of(state)
        except CorruptFileError as error:
            refused = error
        if found is None:
            assert refused is not None
            assert refused.path == path
            return 0
        assert all(isinstance(name, str) for name in found.plugins)
        return 1


def closed_log(data):
    """The mark of a closed log, or none."""
    with _store_with("reput/state", data) as (root, _):
        found = LogStateFile.of(root, QuickDisk()).closed()
        return 0 if found is None else 1


def closed_log_seed():
    with _store_with("reput/state", b"") as (root, path):
        log = SmallLog.of([Message("T", b"x")])
        note = LogStateFile.of(root, QuickDisk())
        note.state.save(note.flushed(log, 0))
        note.close(log, 0)
        with open(path, "rb") as saved:
            return saved.read()


def losses(data):
    """The lines of a ledger that are sound are used, and written again as they were."""
    with _store_with("reput/state", b"") as (_, path):
        StateFile(path, QuickDisk()).note({LOSSES: data})
        ledger = LossLedger(StateFile(path, QuickDisk()), _clock)
        ledger.load(writable=False)
        found = ledger.entries
        for loss in found:
            assert 0 <= loss.start_offset <= loss.end_offset
            assert os.path.basename(loss.kept) == loss.kept
            assert loss.kept not in (".", "..")
        writer = LossLedger(StateFile(path, QuickDisk()), _clock)
        writer.load(writable=True)
        assert writer.entries == found
        writer.finish()
        after = LossLedger(StateFile(path, QuickDisk()), _clock)
        after.load(writable=False)
        assert after.entries == found
        assert not after.pending
        return len(found)


LOSS_SEED = (
    b'{"start_offset": 0, "end_offset": 105, "reason": "BODY_CRC", "detail": "d", "topic": "T",'
    b' "queue_id": 0, "queue_offset": 1, "action": "filled", "kept": "00000000000000000000",'
    b' "timestamp": 1, "pending": true}\n'
    b'{"start_offset": 210, "end_offset": 512, "reason": "cut", "detail": "", "topic": null,'
    b' "queue_id": null, "queue_offset": null, "action": "cut", "kept": "", "timestamp": 2}\n'
)


# --------------------------------------------------------------------------- whole stores


def log_files():
    """Bytes of logs of two files, with a blank between and unwritten space behind."""
    for closed in (True, False):
        log = SmallLog(SEEDS_LOG_FILE)
        for number in range(9):
            topic = "TU"[number % 2]
            log.append(Message(topic, b"body %d" % number * 5, number % 2, tags="t", keys=["k"]))
        if closed:
            log.roll()
        yield bytes(log._data).ljust(2 * SEEDS_LOG_FILE, b"\0")
    yield SIZE_AND_MAGIC.pack(SEEDS_LOG_FILE, BLANK_MAGIC).ljust(2 * SEEDS_LOG_FILE, b"\0")


def store(data):
    """Whatever the log's files hold, the store opens, and shows what the plain decoder believes."""
    data = data[: 4 * SEEDS_LOG_FILE]
    count = max(-(-len(data) // SEEDS_LOG_FILE), 1)
    data = data.ljust(count * SEEDS_LOG_FILE, b"\0")
    with tempfile.TemporaryDirectory() as root:
        os.mkdir(os.path.join(root, "commitlog"))
        for number in range(count):
            base = number * SEEDS_LOG_FILE
            with open(os.path.join(root, "commitlog", f"{base:020d}"), "wb") as file:
                file.write(data[base : base + SEEDS_LOG_FILE])
        with open(os.path.join(root, "abort"), "wb") as file:
            file.write(b"1")
        seen = []
        for mode in ("r", "w", "r"):
            try:
                opened = open_quickly(root, mode)
            except CorruptFileError as error:  # two records of a file agree on another name
                if "its records say that it is" not in str(error):
                    raise
                return 0
            with opened:
                seen.append(shown(opened))
                if mode == "w":
                    receipt = opened.put(Message("T", b"more"))
                    assert opened.get(receipt.physical_offset).body == b"more"
                    written = shown(opened)
            assert len(seen[-1]) <= len(data) // plaindecoder.MIN_SIZE + 1
        assert seen[0] == seen[1], "a reader and the writer after it show the same messages"
        assert seen[2] == written, "what was written stays"
        for offset, record in seen[0]:
            one = plaindecoder.decode_one(data[offset : offset + len(record)], offset)
            assert one is not None
            assert one["record"] == record
            assert one["physical_offset"] == offset
        return len(seen[0])


def open_quickly(root, mode, *, plugins=(), log=None, **options):
    """A store without threads, and on a disk that takes no time; ``log``: more options of its."""
    return reput.open(
        root,
        mode,
        plugins=list(plugins),
        config={"commitlog": {**(log or {})}} if mode == "w" else None,
        threads=False,
        disk=QuickDisk(),
        clock=_clock,
        **options,
    )


def shown(opened):
    """Offset and bytes of all records that a scan gives; those that stand for lost ones are not."""
    found = []
    for batch in opened.scan(check_crc=True):
        found += [
            (int(batch.physical_offset[row]), batch.record(row))
            for row in range(len(batch))
            if not is_filler(batch, row)
        ]
    return found


def is_filler(batch, row):
    """Whether a record stands where others were lost; a small one has a part of the topic only."""
    topic = batch.topics[int(batch.topic_code[row])]
    return FILLER_TOPIC.startswith(topic) and batch.transaction[row] == TRANSACTION_ROLLBACK


# --------------------------------------------------------------------------- all of them

TARGETS = {
    "decode": (decode, [b"".join(records()), *itertools.islice(records(), 3)]),
    "view": (view, list(records())),
    "properties": (properties, list(PROPERTY_SEEDS)),
    "multi_dispatch": (multi_dispatch, list(MULTI_DISPATCH_SEEDS)),
    "message_id": (message_id, list(ID_SEEDS)),
    "checkpoint": (checkpoint, [bytes(range(1, 41)).ljust(4096, b"\0"), b"short"]),
    "progress": (progress, [progress_seed()]),
    "manifest": (
        manifest,
        [
            b'{"config": {"commitlog": {"file_size": 512}}, "format": 1, "plugins": ["a"]}',
            b"[" * 50,
        ],
    ),
    "closed_log": (closed_log, [closed_log_seed()]),
    "losses": (losses, [LOSS_SEED]),
    "store": (store, list(log_files())),
}
"""Function and seeds by name."""
