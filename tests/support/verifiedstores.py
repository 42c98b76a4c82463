"""Stores for tests of `reput verify`, what changes single bytes of them, and what tests compare."""

from __future__ import annotations

import os
from pathlib import Path

import reput
from reput import Message
from reput_testing import QuickDisk
from reput_tools.doctor.findings import Severity
from reput_tools.doctor.verification.verifyrun import verify

FILE_SIZE = 16_384
SMALL = {
    "commitlog": {"file_size": FILE_SIZE},
    "consumequeue": {"units_per_file": 20},
    "index": {"slots_per_file": 11, "items_per_file": 60},
}
GROWING = {
    **SMALL,
    "commitlog": {"file_size": FILE_SIZE, "grows": True},
    "consumequeue": {"units_per_file": 30},
}
START = 1_700_000_000_000


def own_store(root, count=120, plugins=("consumequeue", "index"), sizes=SMALL):
    """Make a store of ours: three topics, two queues each, bodies of 300 bytes, several files."""
    clock = iter(range(START, START + 10**9, 700))
    with reput.open(
        root,
        plugins=list(plugins),
        config={name: each for name, each in sizes.items() if name in (*plugins, "commitlog")},
        threads=False,
        clock=lambda: next(clock),
        disk=QuickDisk(),
    ) as store:
        for number in range(count):
            store.put(
                Message(
                    f"t{number % 3}",
                    b"x" * 300,
                    queue_id=number % 2,
                    keys=f"k{number}",
                    tags="a",
                    born_timestamp=START,
                )
            )
    return Path(root)


def places(root):
    """Physical offset of each message, with topic, queue id and queue offset."""
    with reput.open(root, mode="r", plugins=()) as store:
        return [
            (int(place), batch.topics[int(code)], int(queue), int(offset))
            for batch in store.scan()
            for place, code, queue, offset in zip(
                batch.physical_offset,
                batch.topic_code,
                batch.queue_id,
                batch.queue_offset,
                strict=True,
            )
        ]


def log_file(root, offset, file_size=FILE_SIZE):
    """File of the log that holds a physical offset."""
    return root / "commitlog" / f"{offset - offset % file_size:020d}"


def flip(path, position, bits=0x40):
    """Change one byte of a file."""
    data = bytearray(path.read_bytes())
    data[position] ^= bits
    path.write_bytes(data)


def flip_log(root, offset, bits=0x40):
    """Change one byte of a log with files of `FILE_SIZE`."""
    flip(log_file(root, offset), offset % FILE_SIZE, bits)


def tree(root):
    """Every name at and below a directory, with time of change and content."""
    return {
        str(path.relative_to(root)): (
            path.lstat().st_mtime_ns,
            path.read_bytes() if path.is_file() else None,
        )
        for path in (root, *sorted(root.rglob("*")))
    }


def checked(root, **options):
    """Verify a store, and make sure that this has changed nothing in it."""
    before = tree(root)
    report = verify(root, **options)
    assert tree(root) == before
    return report


def bad(report):
    """Findings that are worse than a notice."""
    return [each for each in report.findings if each.severity > Severity.NOTICE]


def only(report, kind):
    """The one finding of a kind."""
    (found,) = [each for each in report.findings if each.kind == kind]
    return found


def kinds(report):
    """Kinds of the findings that are worse than a notice, each once, sorted."""
    return sorted({each.kind for each in bad(report)})


def fifo(path):
    """Make a pipe."""
    os.mkfifo(path)
