"""`Driver`: calls the hooks of one plugin as a store does, step by step, on one thread.

A store dispatches on threads of its own and cuts the log anywhere. Here the test decides how far
the log is dispatched, where batches end, when files are flushed, and whether the process "dies"
before it closes the files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Any, Self

import attrs

from reput.files import Disk
from reput.plugin import Plugin, PluginHooks, StoreContext
from reput.record import DispatchBatch
from reput_testing.disks.failingdisk import QuickDisk, ReadOnlyDisk
from reput_testing.logs.clock import ManualClock
from reput_testing.logs.smalllog import SmallLog


def _as_text(path: str | os.PathLike[str]) -> str:
    return os.fspath(path)


@attrs.define(eq=False)
class Driver:
    """One plugin over one log, in one directory; open it with `open` or ``with``."""

    plugin: Plugin
    name: str
    """The plugin's name, for its context."""
    root: str = attrs.field(converter=_as_text)
    """The store's directory; made if missing and the driver may write."""
    log: SmallLog
    progress: int = 0
    """Physical offset below which the plugin's files are known to be flushed, as a store would
    record it."""
    writable: bool = True
    clean: bool = True
    """Whether the plugin is told that the store's last writer closed it."""
    light_queues: bool = False
    """As `StoreContext.light_queues`."""
    disk: Disk = attrs.field(factory=QuickDisk)
    clock: Callable[[], int] = attrs.field(factory=ManualClock)
    dispatched_to: int = attrs.field(default=0, init=False)
    _hooks: PluginHooks | None = attrs.field(default=None, init=False)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None and self.writable:
            self.flush()
        self.close()

    def open(self) -> int:
        """Call `reput_open` and `reput_recover`; return the offset that the plugin asks for.

        Raises:
            TypeError: `reput_recover` returned something other than an offset.
        """
        if self.writable:
            os.makedirs(self.root, exist_ok=True)
        elif type(self.disk) is QuickDisk:
            self.disk = ReadOnlyDisk()
        context = StoreContext(
            plugin=self.name,
            root=self.root,
            writable=self.writable,
            clean=self.clean,
            log=self.log,
            disk=self.disk,
            clock=self.clock,
            light_queues=self.light_queues,
        )
        self.call("reput_open", context=context)
        end = self.log.max_physical_offset
        self.progress = max(min(self.progress, end), self.log.min_physical_offset)
        start = self.call("reput_recover", max_physical_offset=end, progress=self.progress)
        if start is None:
            start = self.progress  # a plugin without the hook
        if not isinstance(start, int):
            raise TypeError(f"reput_recover returned {start!r}, not an offset")
        start = max(min(start, self.progress), self.log.min_physical_offset)
        self.dispatched_to = self.progress = start
        return start

    def call(self, hook: str, /, **arguments: Any) -> Any:
        """Call one hook of the plugin; return its result, None if the plugin lacks the hook."""
        if self._hooks is None:
            self._hooks = PluginHooks.of(self.name, self.plugin)
        function = getattr(self._hooks, hook.removeprefix("reput_"))
        return None if function is None else function(**arguments)

    def dispatch(self, batch: DispatchBatch) -> None:
        """Pass one batch to the hooks that enrich, dispatch and announce it."""
        columns = self.call("reput_enrich", batch=batch)
        if columns:
            batch = batch.with_columns(columns)
        self.call("reput_dispatch", batch=batch)
        self.call("reput_arrive", batch=batch)
        self.dispatched_to = max(self.dispatched_to, batch.end_offset)

    def catch_up(
        self,
        cuts: Collection[int] = (),
        *,
        start: int | None = None,
        flush_before: Collection[int] = (),
    ) -> Self:
        """Dispatch the log to its end; a read-only driver does nothing.

        Args:
            cuts: numbers of records before which a batch ends.
            start: physical offset of the first record to dispatch; by default the first record not
                yet dispatched. Records from a lower offset are dispatched again.
            flush_before: those of ``cuts`` at which the plugin is flushed, too.
        """
        batches = self.log.batches(self.dispatched_to if start is None else start, cuts)
        flush_at = {self.log.starts[number] for number in flush_before}
        for batch in batches:
            if batch.start_offset in flush_at:
                self.flush()
            self.dispatch(batch)
        return self

    def dispatch_range(self, first: int, stop: int) -> None:
        """Dispatch records number ``first`` to ``stop``, in one batch if one file holds them."""
        if first < stop:
            end = self.log.ends[stop - 1]
            for batch in self.log.batches(self.log.starts[first], {stop}):
                if batch.start_offset >= end:
                    break
                self.dispatch(batch)

    def flush(self) -> None:
        """Call `reput_flush`, then record the plugin's progress."""
        reached = self.dispatched_to
        self.call("reput_flush")
        self.progress = reached

    def close(self) -> None:
        """Call `reput_close`; may be called again, and after an `open` that failed."""
        self.call("reput_close")
