"""Recorded directories of brokers that reput does not write, and marks of further ones."""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import reput
from reput_testing import QuickDisk

GOLDEN = Path(__file__).parents[1] / "golden"
RECORDED = {
    "rocksdb-queues": "rocketmq-5.5.0/rocksdb-queues",
}
"""Recorded stores by the kind of their files that are not written."""
RELEASES = ("4.8.0", "4.9.7", "5.1.4", "5.3.3", "5.4.0", "5.5.0")
"""Releases whose brokers run in tests; Maven has no broker of 4.9.8."""
WRITTEN = {
    "plain": ("plain queues", RELEASES),
    "dledger": ("DLedger", RELEASES),
    "dledger-killed": ("DLedger, killed", RELEASES),
    "dledger-mixed": ("DLedger after a plain log", RELEASES),
    "batch": ("batch queues", RELEASES[2:]),
    "rocksdb": ("queues and settings in RocksDB", RELEASES[3:]),
    "rocksdb-and-plain": ("queues in RocksDB and plain ones", RELEASES[3:]),
    "settings": ("settings in RocksDB, version 2", RELEASES[3:]),
    "settings-single": ("queues in RocksDB, settings in one database", RELEASES[4:]),
    "timers": ("timers in RocksDB", RELEASES[4:]),
}
"""Kinds of directories: the name in docs/compatibility.md, and the releases that write them."""


def unpacked(case: str, target: Path) -> Path:
    """Unpack a recorded store, and return its directory."""
    with tarfile.open(GOLDEN / case / "store.tar.gz") as archive:
        archive.extractall(target, filter="data")
    return target / "store"


def opened(root: Path) -> reput.Store:
    """Open a small store for writing."""
    options = {"commitlog": {"file_size": 1 << 16}}
    return reput.open(
        root, plugins=["consumequeue"], config=options, threads=False, disk=QuickDisk()
    )


def filled(root: Path) -> Path:
    """A small store, closed."""
    with opened(root) as store:
        for number in range(5):
            store.put(reput.Message("orders", b"%d" % number))
    return root


def snapshot(root: Path) -> dict[str, object]:
    """All names below a directory, with size, time of change and bytes of each file."""
    found: dict[str, object] = {}
    for folder, folders, files in os.walk(root):
        found[os.path.relpath(folder, root)] = os.stat(folder).st_mtime_ns
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            about = os.lstat(path)
            if os.path.islink(path):
                bytes_of: object = os.readlink(path)
            elif name in files:
                bytes_of = _digest(path)
            else:
                continue
            found[os.path.relpath(path, root)] = (about.st_size, about.st_mtime_ns, bytes_of)
    return found


def _digest(path: str) -> str:
    """Hash of the bytes of a file that are not in holes."""
    made = hashlib.sha256()
    size, position = os.path.getsize(path), 0
    with open(path, "rb") as file:
        while position < size:
            try:
                start = os.lseek(file.fileno(), position, os.SEEK_DATA)
            except OSError:
                break
            position = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            made.update(b"%d" % start + os.pread(file.fileno(), position - start, start))
    return made.hexdigest()


def _file(name: str, data: bytes = b"x") -> Callable[[Path], None]:
    def put(root: Path) -> None:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    return put


_TOPICS = b"""{
\t"topicConfigTable":{
\t\t"orders":{"attributes":{"queue.type":"%s"},"topicName":"orders"}
\t}
}"""

MARKED: dict[str, tuple[str, Callable[[Path], None]]] = {
    "batch queues": ("batch-queues", _file("batchconsumequeue/orders/0/" + "0" * 20)),
    "plain queues of a topic with batch queues": (
        "batch-queues",
        _file("config/topics.json", _TOPICS % b"BatchCQ"),
    ),
    "an unreadable topics.json": (
        "batch-queues",
        _file("config/topics.json", b'{"queue.type": "BatchCQ"'),
    ),
    "an index of DLedger": ("dledger", _file("dledger-n1/index/" + "0" * 20)),
    "a term of DLedger": ("dledger", _file("dledger-broker-0/currterm")),
    "queues in RocksDB": ("rocksdb-queues", _file("consumequeue/CURRENT")),
    "queues in RocksDB elsewhere": ("rocksdb-queues", _file("consumequeue_rocksdb/CURRENT")),
    "timers in RocksDB's log": ("rocksdb-data", _file("rocksdbstore/000004.log")),
    "timers in RocksDB's tables": ("rocksdb-data", _file("rocksdbstore/000012.sst")),
}
"""What makes a directory one that is not written: the kind, and a function that adds it."""

HARMLESS: dict[str, Callable[[Path], None]] = {
    "a snapshot of the wheel": _file("timerwheel.1048576"),
    "an empty log of RocksDB": _file("rocksdbstore/000004.log", b""),
    "a topic that is called CURRENT": _file("consumequeue/CURRENT/0/x"),
    "a topic with batch queues and no message": _file(
        "config/topics.json", _TOPICS.replace(b"orders", b"bills") % b"BatchCQ"
    ),
    "a topic with plain queues": _file("config/topics.json", _TOPICS % b"SimpleCQ"),
    "BatchCQ as a topic's name": _file(
        "config/topics.json", b'{"topicConfigTable":{"BatchCQ":{"topicName":"BatchCQ"}}}'
    ),
    "a file like DLedger's directory": _file("dledger-n0"),
    "another directory like DLedger's": _file("dledger-notes/a.txt"),
    "a directory like the table of topics": _file("config/topics.json/0", b"BatchCQ"),
    "a file like that of batch queues": _file("batchconsumequeue"),
    "settings in RocksDB": _file("config/rdb/CURRENT"),
    "identity of a controller": _file("epochFileCheckpoint"),
    "what a broker's pops have out": _file("config/consumerOrderInfo.json", b'{"table":{}}'),
}
"""What looks similar, and prevents no write."""
