"""`Closer`: closes a store, in the order that loses nothing, once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from reput.errors import PutError, ServiceNotAvailableError, StoreClosedError
from reput.flags import Flag
from reput.locks import locks_let_go, new_lock
from reput.log.recovery.closed import CloseRecord

if TYPE_CHECKING:
    from reput.dispatch.calls import PluginCalls
    from reput.dispatch.members import Members
    from reput.log.writing.commitlog import CommitLog
    from reput.retention.service import RetentionService
    from reput.store.abort import AbortFile
    from reput.store.active import ActivePlugins

logger = logging.getLogger(__name__)

__all__ = ["Closer", "Once"]


class Once:
    """Runs what closes something, once. Thread-safe, also for signal handlers (`reput.flags`)."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._closer: int | None = None
        """The thread that closes now."""
        self._ended = Flag()
        self._is_done = False

    def run(self, close: Callable[[], None], timeout: float) -> bool:
        """Call ``close``, or wait for the thread that does; nothing happens when it is done.

        Left by an exception that is no `Exception`, Ctrl-C for one, it is not done, and the next
        that asks calls it again.

        Args:
            close: what is to be run once.
            timeout: seconds to wait for another thread.

        Returns:
            False where another thread has not ended in time. True for a signal handler of the
            thread that closes, which cannot wait for itself: it ends when the handler has.
        """
        me, mine, fresh = threading.get_ident(), False, Flag()
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
                # Those who wait now are told; who asks again, after an exception, waits for that.
                ended, self._ended, self._closer = self._ended, fresh, None
                ended.set()


@attrs.define(eq=False)
class Closer:
    """Closes one store, and knows whether it is closed. Thread-safe."""

    root: str
    log: CommitLog
    active: ActivePlugins
    calls: PluginCalls
    abort: AbortFile
    release: Callable[[], None]
    """Gives up files, descriptors and the lock; also when it was called before."""
    members: Members | None
    """Of a store that is written; None where it is only read."""
    retention: RetentionService | None
    """Likewise."""
    timeout_ms: int
    """How long to wait for plugins that are behind, or that do not return."""
    is_closed: bool = False
    _once: Once = attrs.field(init=False, factory=Once)

    def check_open(self) -> None:
        """Refuse a call on a store that is closed.

        Raises:
            StoreClosedError: it is.
        """
        if self.is_closed:
            raise StoreClosedError(self.root)

    def close(self, timeout: float | None) -> None:
        """See `reput.Store.close`."""
        refusal = StoreClosedError(self.root)
        seconds = self.timeout_ms / 1_000 if timeout is None else timeout
        # In a signal handler that came in the middle of a call, the threads that are waited for
        # below may want locks that the call holds; the log's is more than a lock, see there.
        with self.log.lock_let_go(refusal), locks_let_go():
            if not self._once.run(lambda: self._close(refusal, seconds), seconds):
                raise ServiceNotAvailableError(
                    "store", None, None, f"another thread has not closed it after {seconds:g} s"
                )

    def abandon(self) -> None:
        """Give everything up as a process that is killed does: nothing is dispatched or flushed."""
        self.is_closed = True
        self.log.refuse(StoreClosedError(self.root))
        if self.members is not None:
            self.members.workers.stop()
            self.members.loop.stop()
            self.members.plugin_flusher.stop()
            self.members.plugin_flusher.end()
        self.release()

    # ------------------------------------------------------------------ in good order

    def _close(self, refusal: PutError, seconds: float) -> None:
        if self.is_closed:  # by a call that an exception ended before the files were given up
            # A flush that was under way then ends by itself; until then the lock is kept.
            for call in self.calls.running():
                call.wait_while_advancing(self.timeout_ms / 1_000)
            self.release()
            return
        if self.members is not None:
            self.members.workers.stop()  # in good order: what they put is dispatched and flushed
        if self.retention is not None:
            self.retention.stop()
        self.is_closed = True
        try:
            self.log.refuse(refusal)
            if self.members is not None:
                self._finish(self.members, seconds)
        finally:
            try:
                if self.members is not None:
                    self.members.plugin_flusher.end()
                # No hook is called from here on: a thread that comes back late out of one plugin
                # must not go on to another one that is closed.
                self.calls.refuse()
                self._close_plugins()
            finally:
                self.release()

    def _finish(self, members: Members, seconds: float) -> None:
        loop, plugin_flusher = members.loop, members.plugin_flusher
        try:
            # The log first: with synchronous flushing nothing beyond it is dispatched. When that
            # fails there is nothing to wait for.
            self.log.flusher.flush()
            loop.finish(seconds)  # a plugin that is far behind catches up next time
        finally:
            loop.stop()
            plugin_flusher.stop()
        try:
            for name, reason in plugin_flusher.flush().items():
                # The next opening cuts its files to its last progress and derives the rest again.
                logger.error("plugin not flushed plugin=%s reason=%s", name, reason)
            members.close_records()
            CloseRecord.save(self.root, self.log, self.log.last_record_offset, self.abort.disk)
            # `abort` may go only when a plugin wrote the queues, and all of them: RocketMQ does
            # not look again. The close record says for us that the store was closed.
            if plugin_flusher.keeps_queues and members.queues_reach(self.log.max_physical_offset):
                self.abort.remove()
            else:
                self.abort.leave()
        except OSError as error:
            raise ServiceNotAvailableError(
                "store",
                None,
                None,
                f"closing it failed: {error}; the next opening recovers as after a crash",
            ) from error

    def _close_plugins(self) -> None:
        for name, hooks in self.active.set.hooks.items():
            self.calls.close_plugin(name, hooks.close, self.timeout_ms / 1_000, is_last=True)
