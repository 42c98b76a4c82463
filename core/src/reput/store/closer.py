"""`Closer`: closes a store once, in an order that loses nothing."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from reput.errors import PutError, ServiceNotAvailableError, StoreClosedError
from reput.signalsafe import SafeEvent, locks_released, new_lock

if TYPE_CHECKING:
    from reput.dispatch.runtime.hookcalls import HookCalls
    from reput.log.recovery.checkpoint import AbortFile
    from reput.store.pluginstore import StoreComponents, WriterComponents

logger = logging.getLogger(__name__)


class Once:
    """Runs a closing function once. Thread-safe, also for signal handlers (`reput.signalsafe`)."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._closer: int | None = None
        """The thread that closes now."""
        self._ended = SafeEvent()
        self._is_done = False

    def run(self, close: Callable[[], None], timeout: float) -> bool:
        """Call ``close``, or wait for the thread that does; do nothing if it was done.

        If ``close`` is left by an exception that is no `Exception`, such as Ctrl-C, it does not
        count as done, and the next call runs it again.

        Returns:
            False if another thread has not ended in time. True in a signal handler that interrupted
            ``close`` on its own thread, as it cannot wait for that thread.
        """
        me, mine, fresh = threading.get_ident(), False, SafeEvent()
        try:
            with self._lock:
                if self._is_done or self._closer == me:
                    return True
                ended = self._ended
                if self._closer is None:
                    self._closer, mine = me, True
            if not mine:
                return ended.wait(timeout)
            try:
                close()
            except Exception:
                self._is_done = True
                raise
            self._is_done = True
            return True
        finally:
            if mine:
                # Wake the threads that wait now; after an exception, later calls use a new flag.
                ended, self._ended, self._closer = self._ended, fresh, None
                ended.set()


@attrs.define(eq=False, repr=False)
class Closer:
    """Closes one store, and knows whether it is closed. Thread-safe."""

    parts: StoreComponents
    calls: HookCalls
    abort: AbortFile
    release: Callable[[], None]
    """Releases files, descriptors and the lock; may be called again."""
    timeout_ms: int
    """How long to wait for plugins that are behind, or that do not return."""
    is_closed: bool = False
    _once: Once = attrs.field(init=False, factory=Once)

    def check_open(self) -> None:
        """Raise if the store is closed.

        Raises:
            StoreClosedError: the store is closed.
        """
        if self.is_closed:
            raise StoreClosedError(self.parts.root)

    def close(self, timeout: float | None) -> None:
        """See `reput.Store.close`."""
        refusal = StoreClosedError(self.parts.root)
        seconds = self.timeout_ms / 1_000 if timeout is None else timeout
        # If this is a signal handler that interrupted a call, the threads waited for below may need
        # locks that the call holds.
        if self.parts.writer is not None:
            self.parts.writer.log.end_interrupted_append(refusal)
        with locks_released():
            if not self._once.run(functools.partial(self._close, refusal, seconds), seconds):
                raise ServiceNotAvailableError(
                    "store", None, None, f"another thread has not closed it after {seconds:g} s"
                )

    def _close(self, refusal: PutError, seconds: float) -> None:
        writer = self.parts.writer
        if self.is_closed:  # an exception ended an earlier call before the files were released
            if writer is not None:
                writer.members.loop.stop()
                writer.members.plugin_flusher.stop()
            # A flush that was under way ends by itself; until then the lock is kept.
            for call in self.calls.running():
                call.wait(idle=self.timeout_ms / 1_000)
            self.release()
            return
        if writer is not None:
            writer.members.workers.stop()  # first, so that what they put is dispatched and flushed
            writer.trimming.stop()
        self.is_closed = True
        try:
            if writer is not None:
                writer.log.refuse(refusal)
                self._finish(writer, seconds)
        finally:
            try:
                if writer is not None:
                    writer.members.plugin_flusher.end()
                # No hook is called from here on: a thread that returns late from one plugin must
                # not go on to another plugin, which is closed.
                self.calls.refuse()
                self._close_plugins()
            finally:
                self.release()

    def _finish(self, writer: WriterComponents, seconds: float) -> None:
        log, members = writer.log, writer.members
        loop, plugin_flusher = members.loop, members.plugin_flusher
        try:
            # The log first: with `flush="sync"` only what is on disk is dispatched. If the flush
            # fails, there is nothing to wait for.
            log.flusher.flush()
            loop.finish(seconds)  # a plugin that is far behind catches up next time
        finally:
            try:
                loop.stop()
            finally:
                plugin_flusher.stop()
        try:
            for name, reason in plugin_flusher.flush(is_last=True).items():
                # The next opening cuts its files to its last progress and derives the rest again.
                logger.error("plugin not flushed plugin=%s reason=%s", name, reason)
            # One write: what log, progress and records say at the end agrees.
            plugin_flusher.close(members.last_records())
            # `abort` may be removed only if a plugin wrote all queues, as RocketMQ then looks for
            # no missing units. For reput the log's note says that the store was closed.
            if members.queues_reach(log.max_physical_offset):
                if log.gap:
                    log.note_dispatched()
                self.abort.remove()
            else:
                self.abort.leave()
        except OSError as error:
            raise ServiceNotAvailableError(
                "store",
                None,
                None,
                f"closing it failed: {error}; when it is next opened, it recovers as after a crash",
            ) from error

    def _close_plugins(self) -> None:
        for name, hooks in self.parts.active.set.hooks.items():
            self.calls.close_plugin(name, hooks.close, self.timeout_ms / 1_000)
