"""Compares the derived files of two stores whose logs are the same byte by byte.

Derived files hold physical offsets, so those of logs with records at other places differ without
being wrong; whether they fit their own log is what ``reput verify`` tells.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from reput.errors import ConfigError, CorruptFileError, PluginError
from reput.files import OWN_DIRECTORY, Disk
from reput_tools.doctor.comparison.storediff import FileDifference
from reput_tools.offline import compare, offline_hooks

if TYPE_CHECKING:
    from reput.files import Entry
    from reput_tools.offline import Traces

_NOT_DERIVED: Final = frozenset(
    {
        "abort",
        "abort.bak",
        "brokerIdentity",
        "checkpoint",
        "commitlog",
        "config",
        "epochFileCheckpoint",
        "lock",
        OWN_DIRECTORY,
    }
)
_BY_CLOCK: Final = frozenset({"index"})  # RocketMQ's, also where its plugin is not installed


def derived_names(a: Traces, b: Traces) -> list[str]:
    """Return files and directories of both stores that were derived from the log."""
    names = {entry.name for traces in (a, b) for entry in traces.disk.list(traces.root)}
    return sorted(names - _NOT_DERIVED)


def compare_derived(
    a: Traces, b: Traces, names: list[str], *, follow_links: bool
) -> Iterator[FileDifference]:
    """Yield the first difference of each derived file.

    Args:
        a: one store.
        b: the other one.
        names: see `derived_names`.
        follow_links: as for `reput.open`.
    """
    disk = _BothDisks(a, b) if not follow_links else Disk()
    for each in compare(a.root, b.root, names, disk, _named_by_clock(a, b)):
        yield FileDifference(each.path, each.position, _REASONS.get(each.kind, _BYTES))


_BYTES: Final = "the bytes differ"
_REASONS: Final = {"missing": "only in b", "extra": "only in a"}


def _named_by_clock(*stores: Traces) -> frozenset[str]:
    from reput.plugin import installed

    used: set[str] = set()
    for traces in stores:
        with contextlib.suppress(CorruptFileError, OSError):  # what it says was said before
            used.update(() if traces.manifest is None else traces.manifest.plugins)
    names = set(_BY_CLOCK)
    for each in installed() if used else ():
        if each.name in used:
            # A plugin that is broken does not say; its files are compared by name.
            with contextlib.suppress(PluginError, ConfigError):
                plugin = each.load().from_section(each.name, {})
                names.update(offline_hooks(each.name, plugin).reput_tools_named_by_clock() or ())
    return frozenset(names)


class _BothDisks(Disk):
    """Reads files of two stores, each bound to its root: no link leads out of either."""

    def __init__(self, a: Traces, b: Traces) -> None:
        self.a, self.b = a, b

    def _of(self, path: str) -> Disk:
        is_a = os.path.commonpath([path, self.a.root]) == self.a.root
        if is_a and self.b.root.startswith(os.path.join(self.a.root, "")):
            is_a = os.path.commonpath([path, self.b.root]) != self.b.root
        return (self.a if is_a else self.b).disk

    def open(
        self, path: str, *, write: bool = False, create: bool = False, fresh: bool = False
    ) -> int:
        """See `Disk.open`; nothing is opened for writing."""
        if write or create:
            raise ValueError(f"{path}: compared files are only read")
        return self._of(path).open(path)

    def exists(self, path: str) -> bool:
        """See `Disk.exists`."""
        return self._of(path).exists(path)

    def list(self, path: str) -> list[Entry]:
        """See `Disk.list`."""
        return self._of(path).list(path)

    def read_file(self, path: str, limit: int = 64 << 20) -> bytes:
        """See `Disk.read_file`."""
        return self._of(path).read_file(path, limit)
