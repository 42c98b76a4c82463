"""`DelayState`: which messages were delivered, as far as that is known to be on disk.

Deriving it from the log alone would cost more than every opening could pay, so it is saved: the
offsets of the levels, with the physical offset below which the offsets count every delivered
message. Only offsets that count flushed records are saved. A file that says too little costs a
search of the log after that physical offset; a file that said too much would lose messages.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import attrs

from reput_schedule.delaylevels.offsetsfile import (
    DIRECTORY,
    FILE_NAME,
    DelayOffsets,
    fill_in,
    offsets_in,
)
from reput_tools.brokerfiles import BrokerDocument

if TYPE_CHECKING:
    from reput.plugin import StoreContext

_SAVE_AFTER: Final = 64 << 20  # bytes of log to look at after a crash, with nothing delivered


@attrs.frozen
class _Snapshot:
    """The offsets of the levels at a moment when the log ended at ``log_end``."""

    offsets: Mapping[int, int]
    log_end: int


@attrs.define(eq=False, repr=False)
class DelayState:
    """``config/delayOffset.json`` of one store. Thread-safe."""

    context: StoreContext
    saved: DelayOffsets | None = None
    """What the file says; None if there is no file that can be read."""
    _now: _Snapshot | None = None
    _before: _Snapshot | None = None
    """The snapshot that the last flush found; the log was flushed since."""
    _lock: threading.Lock = attrs.field(factory=threading.Lock)
    document: BrokerDocument = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        context = self.context
        self.document = BrokerDocument(
            context.directory(DIRECTORY),
            FILE_NAME,
            context.disk,
            context.clock,
            context.note_problem,
            offsets_in,
            # The log shows which messages were delivered, though the search takes long.
            starts_again=True,
        )

    # ------------------------------------------------------------------ reading

    def load(self) -> DelayOffsets | None:
        """Read the file; if it cannot be read, read the backup that RocketMQ keeps beside it."""
        document = self.document.read()
        self.saved = offsets_in(document) if document else None
        return self.saved

    @property
    def is_ours(self) -> bool:
        """Whether no other program has delivered since the file was written."""
        return self.saved is not None and self.saved.delivered_to is not None

    # ------------------------------------------------------------------ writing

    def note(self, offsets: Mapping[int, int], log_end: int) -> None:
        """Remember ``offsets``, which count every delivered message below ``log_end``."""
        with self._lock:
            self._now = _Snapshot(dict(offsets), log_end)

    def flush(self) -> None:
        """Save the newest noted offsets whose messages the log has flushed."""
        with self._lock:
            now, before = self._now, self._before
            self._before = now
        if now is None or not self._is_worth_it(now):
            return
        flushed = self.context.store.flushed_offset
        for each in (now, before):
            if each is not None and each.log_end <= flushed:
                if self._is_worth_it(each):
                    self.save(each.offsets, each.log_end)
                return

    def _is_worth_it(self, snapshot: _Snapshot) -> bool:
        saved = self.saved
        if saved is None or saved.delivered_to is None or saved.offsets != snapshot.offsets:
            return True
        return snapshot.log_end - saved.delivered_to >= _SAVE_AFTER

    def save(self, offsets: Mapping[int, int], log_end: int | None) -> None:
        """Write the file now.

        Args:
            offsets: queue offset of the next message to deliver, by level.
            log_end: physical offset below which they count every delivered message; None if that
                is not known, as in a file of RocketMQ.
        """
        state = DelayOffsets(dict(offsets), log_end)
        self.document.change(lambda document: fill_in(document, state))
        self.saved = state
