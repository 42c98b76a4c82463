"""Stores whose log was damaged, and what is left of them, for tests."""

from __future__ import annotations

import json
import os

from statefiles import forget_progress, value_of

import reput
from reput.record.layout import FILLER_TOPIC
from reput_testing import ManualClock, QuickDisk

FILE_SIZE = 4096


def config(**options):
    return {"commitlog": {"file_size": FILE_SIZE, **options}}


def open_store(
    root,
    mode="w",
    *,
    disk=None,
    plugins=(),
    clock=None,
    follow_links=False,
    threads=False,
    **options,
):
    return reput.open(
        root,
        mode,
        plugins=list(plugins),
        config=config(**options) if mode == "w" else None,
        disk=disk or QuickDisk(),
        clock=clock or ManualClock(),
        threads=threads,
        follow_links=follow_links,
    )


def killed(root):
    """Make a store that was closed one whose writer was killed before it flushed anything."""
    forget_progress(root)
    if os.path.exists(os.path.join(root, "checkpoint")):
        os.remove(os.path.join(root, "checkpoint"))
    with open(os.path.join(root, "abort"), "w", encoding="ascii") as file:
        file.write("1")


def log_bytes(root):
    directory = os.path.join(root, "commitlog")
    parts = []
    for name in sorted(os.listdir(directory)):
        with open(os.path.join(directory, name), "rb") as file:
            parts.append(file.read())
    return b"".join(parts)


def damage(root, start, data):
    """Put ``data`` in the place of what the log holds from ``start`` on."""
    while data:
        base = start - start % FILE_SIZE
        part, data = data[: base + FILE_SIZE - start], data[base + FILE_SIZE - start :]
        with open(os.path.join(root, "commitlog", f"{base:020d}"), "r+b") as file:
            file.seek(start - base)
            file.write(part)
        start += len(part)


def flip(root, offset, mask=0x10):
    byte = log_bytes(root)[offset]
    damage(root, offset, bytes([byte ^ mask]))


def views(store):
    """Messages of a scan, without the records that fill holes."""
    found = [batch.message(row) for batch in store.scan() for row in range(len(batch))]
    return [view for view in found if not (view.topic and FILLER_TOPIC.startswith(view.topic))]


def offsets(store):
    return [view.physical_offset for view in views(store)]


def ledger(root):
    return [json.loads(line) for line in value_of(root, ".losses").splitlines()]
