"""A good plugin, its contract, and what fails of a contract: for tests of the testing kit."""

from __future__ import annotations

import inspect
import json
import os
import threading
import zlib
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import Phase, settings

import reput
from reput.errors import CorruptFileError, StoreNotFoundError
from reput.plugin import NoConfig
from reput_testing import PluginContract, SmallLog, sample_log


@attrs.define(eq=False)
class LedgerPlugin(reput.Plugin):
    """A good plugin: lists offset and topic of all messages, in one file with a checksum."""

    config: Any = attrs.field(factory=NoConfig)
    context: Any = attrs.field(default=None, init=False)
    entries: list[list[Any]] = attrs.field(factory=list, init=False)
    dispatched_to: int = attrs.field(default=0, init=False)
    lock: Any = attrs.field(factory=threading.Lock, init=False)

    @property
    def path(self) -> str:
        return os.path.join(self.context.root, "ledger", "entries")

    @reput.hookimpl
    def reput_open(self, context: reput.StoreContext) -> None:
        self.context = context
        self.entries, self.dispatched_to = [], 0
        if context.writable and context.disk.exists(self.path):
            try:
                self.load(context.disk.read_file(self.path))
            except CorruptFileError:
                pass

    def listed(self) -> list[list[Any]]:
        """What is listed now; of a store that somebody else writes, what the file says now."""
        if not self.context.writable:
            if not self.context.disk.exists(self.path):
                raise StoreNotFoundError(self.path, "no entries")
            self.load(self.context.disk.read_file(self.path))
        return self.entries

    def load(self, data: bytes) -> None:
        if len(data) < 4 or zlib.crc32(data[4:]) != int.from_bytes(data[:4], "big"):
            raise CorruptFileError(self.path, 0, "checksum")
        self.dispatched_to, self.entries = json.loads(data[4:])

    @reput.hookimpl
    def reput_recover(self, max_physical_offset: int, progress: int) -> int:
        self.dispatched_to = min(self.dispatched_to, progress)
        self.entries = [entry for entry in self.entries if entry[0] < self.dispatched_to]
        self.forget(self.context.log.min_physical_offset)
        return self.dispatched_to if self.context.writable else progress

    @reput.hookimpl
    def reput_dispatch(self, batch: reput.DispatchBatch) -> None:
        with self.lock:
            self.note(batch.after(self.dispatched_to))
            self.dispatched_to = max(self.dispatched_to, batch.end_offset)

    def note(self, batch: reput.DispatchBatch) -> None:
        offsets = batch.physical_offset.tolist()
        for offset, code in zip(offsets, batch.topic_code.tolist(), strict=True):
            self.entries.append([offset, batch.topics[code]])

    @reput.hookimpl
    def reput_trim(self, min_physical_offset: int) -> None:
        with self.lock:
            self.forget(min_physical_offset)

    def forget(self, physical_offset: int) -> None:
        self.entries = [entry for entry in self.entries if entry[0] >= physical_offset]

    @reput.hookimpl
    def reput_flush(self) -> None:
        if self.context.writable:
            self.save()

    def save(self) -> None:
        with self.lock:
            data = self.encode()
        self.context.disk.make_directory(os.path.dirname(self.path))
        self.context.disk.replace(self.path, data)

    def encode(self) -> bytes:
        data = json.dumps([self.dispatched_to, self.entries]).encode()
        return zlib.crc32(data).to_bytes(4, "big") + data

    @reput.hookimpl
    def reput_report(self) -> dict[str, object]:
        return {"entries": len(self.entries)}


class LedgerContract(PluginContract):
    max_examples = 3
    max_cuts = 5
    max_damages = 6

    def state(self, plugin: LedgerPlugin) -> object:
        return plugin.listed()

    def files_of(self, root: str) -> list[str]:
        return [os.path.join(root, "ledger")]

    def log(self) -> SmallLog:
        return sample_log(1024, self.messages())


class HurriedContract(LedgerContract):
    """Failing is enough: nobody reads the smallest example."""

    max_examples = 2
    max_cuts = 3
    max_damages = 4

    def hypothesis_settings(self) -> settings:
        phases = [Phase.explicit, Phase.generate]
        return settings(
            super().hypothesis_settings(), phases=phases, database=None, derandomize=True
        )


def failures_of(
    plugin_type: type[Any], directory: Path, base: type[PluginContract] = HurriedContract
) -> dict[str, BaseException]:
    """Run all tests of the contract on a plugin; errors by name of the test."""
    contract_type = type("Contract", (base,), {"plugin_type": plugin_type})
    failures: dict[str, BaseException] = {}
    for name, test in inspect.getmembers(contract_type, inspect.isfunction):
        if name.startswith("test_"):
            home = directory / name
            home.mkdir()
            wanted = [home] if "tmp_path" in inspect.signature(test).parameters else []
            try:
                test(contract_type(), *wanted)
            except pytest.skip.Exception:
                continue
            except (Exception, pytest.fail.Exception) as error:
                failures[name] = error
    return failures
