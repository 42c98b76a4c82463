"""The healthy stores of the zoo: small ones of RocketMQ 4.8 and 5.3, and of reput.

Each is a mapping from names to bytes, from which copies are made that are damaged.
"""

from __future__ import annotations

import functools
import io
import os
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs
from statefiles import forget_progress

import reput
from reput.record import Decoder, End, MessageView
from reput.record.layout import FILLER_TOPIC, TRANSACTION_COMMIT, TRANSACTION_MASK
from reput_testing import ManualClock, QuickDisk, place, snapshot
from reput_tools.brokerfiles import BareKey, encode

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
SMALL_FILE = 4096
ROWS = 70


@attrs.frozen(eq=False)
class Healthy:
    """A healthy store."""

    name: str
    files: Mapping[str, bytes]
    """Bytes by name below the store."""
    records: Mapping[int, MessageView]
    """Every message of the log, by physical offset."""
    file_size: int

    @property
    def log_names(self) -> list[str]:
        """Names of the log's files, ascending."""
        return sorted(name for name in self.files if name.startswith("commitlog/"))

    @property
    def bases(self) -> list[int]:
        """Physical offsets at which the log's files begin."""
        return [int(name.partition("/")[2]) for name in self.log_names]

    def of_file(self, base: int) -> list[MessageView]:
        """Return the messages of one file of the log, in order."""
        end = base + self.file_size
        return [each for at, each in sorted(self.records.items()) if base <= at < end]

    def queues(self) -> dict[tuple[str, int], dict[int, MessageView]]:
        """Return what each queue lists: messages by queue offset."""
        found: dict[tuple[str, int], dict[int, MessageView]] = {}
        for message in self.records.values():
            if is_listed(message):
                queue = found.setdefault((message.topic, message.queue_id), {})
                queue[message.queue_offset] = message
        return found


def is_listed(message: MessageView) -> bool:
    """Whether a queue lists the message."""
    return message.sys_flag & TRANSACTION_MASK in (0, TRANSACTION_COMMIT)


def records_of(files: Mapping[str, bytes]) -> dict[int, MessageView]:
    """Return all messages of a sound log, by physical offset."""
    import numpy as np

    found: dict[int, MessageView] = {}
    for name in sorted(name for name in files if name.startswith("commitlog/")):
        data, base = np.frombuffer(files[name], np.uint8), int(name.partition("/")[2])
        result = Decoder(check_crc=True).decode(data, base, base + len(data))
        assert result.end in (End.BLANK, End.EMPTY, End.WINDOW), result.batch.finding
        batch = result.batch
        for row in range(len(batch)):
            message = batch.message(row)
            if not (message.topic and FILLER_TOPIC.startswith(message.topic)):
                found[message.physical_offset] = message
    return found


def _broker_config(queues: Mapping[tuple[str, int], int]) -> dict[str, bytes]:
    """Return files as a broker keeps them: offsets of two groups, topics; each with a backup."""
    bare = BareKey
    table: dict[str, dict[str, int]] = {}
    topics: dict[str, object] = {}
    for (topic, queue_id), end in sorted(queues.items()):
        for group, part in (("shop", end), ("audit", end // 2)):
            table.setdefault(f"{topic}@{group}", {})[bare(queue_id)] = part
        topics[topic] = {"perm": 6, "readQueueNums": 4, "topicName": topic, "writeQueueNums": 4}
    documents = {
        "consumerOffset.json": {"dataVersion": {"counter": 7}, "offsetTable": table},
        "topics.json": {"dataVersion": {"counter": 3}, "topicConfigTable": topics},
    }
    files = {}
    for name, document in documents.items():
        data = encode(document)
        files[f"config/{name}"] = files[f"config/{name}.bak"] = data
    return files


def _healthy(name: str, files: Mapping[str, bytes]) -> Healthy:
    records = records_of(files)
    ends: dict[tuple[str, int], int] = {}
    for message in records.values():
        if is_listed(message):
            queue = message.topic, message.queue_id
            ends[queue] = max(ends.get(queue, 0), message.queue_offset + 1)
    size = len(next(data for name, data in files.items() if name.startswith("commitlog/")))
    return Healthy(name, {**_broker_config(ends), **files}, records, size)


# --------------------------------------------------------------------------- of RocketMQ


def _golden(release: str, case: str) -> Healthy:
    files = {}
    archive = (GOLDEN / release / case / "store.tar.gz").read_bytes()
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        for member in members:
            if member.isfile():
                data = members.extractfile(member)
                assert data is not None
                files[member.name.partition("/")[2]] = data.read()
    return _healthy(f"{release}-{case}", files)


# --------------------------------------------------------------------------- of reput


def _written(name: str, *, then: Callable[[str], None] = lambda root: None, **options) -> Healthy:
    config = {
        "commitlog": {"file_size": SMALL_FILE, **options},
        "consumequeue": {"units_per_file": 8},
        "index": {"slots_per_file": 20, "items_per_file": 40},
    }
    with tempfile.TemporaryDirectory(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")) as folder:
        root = os.path.join(folder, "store")
        clock = ManualClock()
        plugins = ["consumequeue", "index"]
        with reput.open(
            root, plugins=plugins, config=config, clock=clock, disk=QuickDisk(), threads=False
        ) as store:
            for number in range(ROWS):
                clock.now += 40
                store.put(_message(number))
                if number == ROWS // 2:
                    store.wait_dispatched()
                    store.flush()
            store.wait_dispatched()
        then(root)
        return _healthy(name, snapshot(root))


def _message(number: int) -> reput.Message:
    topic, queue_id = [("orders", number % 3), ("payments", 0)][number % 4 == 3]
    return reput.Message(
        topic,
        (b"body %d " % number) * (number % 13 * 3 + 1),
        queue_id,
        tags="paid" if number % 2 else None,
        keys=[f"k-{number}", f"group-{number % 5}"],
        properties={"UNIQ_KEY": f"7F00000100002A9F{number:016X}", "region": "eu" * (number % 4)},
    )


def _kill(root: str) -> None:
    """Leave the store as a killed writer does that has flushed nothing."""
    forget_progress(root)
    path = os.path.join(root, "checkpoint")
    if os.path.exists(path):
        os.unlink(path)
    with open(os.path.join(root, "abort"), "w", encoding="ascii") as file:
        file.write("1")


def _with_history(root: str) -> None:
    """Damage a record and have an opening fill it, so that the store has a ledger with an entry."""
    files = snapshot(root)
    records = list(records_of(files).values())
    hit = records[len(records) // 3]
    base = hit.physical_offset - hit.physical_offset % SMALL_FILE
    path = os.path.join(root, f"commitlog/{base:020d}")
    with open(path, "r+b") as file:
        file.seek(hit.physical_offset - base + 90)
        file.write(b"\xff\xee")
    _kill(root)
    with reput.open(root, threads=False, disk=QuickDisk(), clock=ManualClock()) as store:
        store.wait_dispatched()
        assert [loss.action for loss in store.losses()] == ["filled"]


MAKERS: dict[str, Callable[[], Healthy]] = {
    "rocketmq-4.8.0-slow": lambda: _golden("rocketmq-4.8.0", "slow"),
    "rocketmq-4.8.0-trimmed": lambda: _golden("rocketmq-4.8.0", "trimmed"),
    "rocketmq-4.8.0-transaction": lambda: _golden("rocketmq-4.8.0", "transaction"),
    "rocketmq-4.8.0-v6": lambda: _golden("rocketmq-4.8.0", "v6"),
    "rocketmq-5.3.3-retry": lambda: _golden("rocketmq-5.3.3", "retry"),
    "reput": lambda: _written("reput"),
    "reput-crc": lambda: _written("reput-crc", record_crc=True),
    "reput-killed": lambda: _written("reput-killed", then=_kill),
    "reput-history": lambda: _written("reput-history", then=_with_history),
}


@functools.cache
def healthy(name: str) -> Healthy:
    """Return a healthy store by its name; made once."""
    return MAKERS[name]()


def put_down(files: Mapping[str, bytes], root: str | os.PathLike[str]) -> None:
    """Make a directory of ``files``."""
    place(files, root)
