"""Small stores of which any byte may be damaged, and what may be seen of them then."""

from __future__ import annotations

import os
import shutil

from decodertargets import is_filler

import reput
from reput.errors import ReputError
from reput_testing import ManualClock, QuickDisk, place, snapshot
from reput_testing.casebudget import part

FILE_SIZE = 512
SOAK = bool(os.environ.get("REPUT_SOAK"))
"""Whether to try all of it; else one bit of a byte."""


class Offsets(reput.Plugin):
    """Sees the messages that a store dispatches, so that the store keeps progress for it."""

    name = "offsets"

    def __init__(self, config=None):
        super().__init__(config)
        self.seen = []

    @reput.hookimpl
    def reput_dispatch(self, batch):
        self.seen += batch.physical_offset.tolist()


def open_small(root, mode="w", *, plugins=None, **options):
    sections = {"commitlog": {"file_size": FILE_SIZE, **options}}
    if "consumequeue" in (plugins or ()):
        sections["consumequeue"] = {"units_per_file": 4}
    return reput.open(
        root,
        mode,
        plugins=[Offsets()] if plugins is None else plugins,
        config=sections if mode == "w" else None,
        threads=False,
        disk=QuickDisk(),
        clock=ManualClock(),
    )


def messages(store):
    """All that a scan shows but for records that stand for lost ones: offset and record's bytes."""
    found = {}
    for batch in store.scan():
        for row in range(len(batch)):
            if not is_filler(batch, row):
                found[int(batch.physical_offset[row])] = batch.record(row)
    return found


class SmallStore:
    """A store of a few messages, closed or killed, of which copies are damaged one after another.

    Attributes:
        files: bytes of its files by name.
        records: bytes of its records by physical offset.
        flushed_to: physical offset up to which it was flushed before the end.
    """

    def __init__(self, root, *, killed=False, plugins=None, count=9, **options):
        self.root = os.fspath(root)
        self.plugins = plugins
        with open_small(self.root, plugins=self._plugins(), **options) as store:
            for number in range(count):
                body = b"body %d" % number * (number % 3 + 1)
                tags = None if number % 3 else "TagA"
                store.put(reput.Message("TU"[number % 2], body, number % 2, tags=tags, keys=["k"]))
                if number == count // 2:
                    self.flushed_to = store.log.max_physical_offset
                    store.wait_dispatched()
                    store.flush()
            store.wait_dispatched()
            self.records = messages(store)
            during = snapshot(self.root)
        self.files = during if killed else snapshot(self.root)

    def _plugins(self):
        return [Offsets()] if self.plugins is None else list(self.plugins)

    def damaged(self, name, data):
        """Bring the store back as it was, but for the file ``name``."""
        place({**self.files, name: data}, self.root)

    def flips(self, name, is_wanted=lambda data, at: True):
        """``(bit number, bytes of the file)``: a bit of a part of all bytes that are wanted."""
        whole = self.files[name]
        for at in part([at for at in range(len(whole)) if is_wanted(whole, at)]):
            for bit in range(8) if SOAK else (at * 5 % 8,):
                data = bytearray(whole)
                data[at] ^= 1 << bit
                yield at * 8 + bit, bytes(data)

    def open(self, mode, **options):
        return open_small(self.root, mode, plugins=self._plugins(), **options)

    def look(self, mode):
        """Messages that are shown, or the typed error with which the store does not open.

        A writer puts one message more, which a later opening must show.
        """
        try:
            store = self.open(mode)
        except ReputError as error:
            return error
        with store:
            found = messages(store)
            if mode == "w":
                receipt = store.put(reput.Message("T", b"more"))
                store.wait_dispatched()
                assert store.get(receipt.physical_offset).body == b"more"
        if mode == "w":
            with self.open("r") as again:
                after = messages(again)
            assert receipt.physical_offset in after, "a message that was put is not found again"
            assert {offset: after.get(offset) for offset in found} == found
        return found

    def remove(self):
        shutil.rmtree(self.root, ignore_errors=True)


def wrong(found, records):
    """Offsets of messages that were not put, or not like this."""
    return [offset for offset, record in found.items() if records.get(offset) != record]


def missing(found, records):
    """Offsets of messages that are not shown."""
    return [offset for offset in records if offset not in found]
