"""`DelayState`: what was delivered, as far as it is known to be on disk.

It cannot be derived from the log alone at a price that every opening could pay, so it is saved:
the offsets of the levels, with the physical offset up to which they count what the log holds. Only
what the log has flushed is vouched for. A file that says too little costs a look at the log behind
it; one that said too much would lose messages.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import attrs

from reput.errors import CorruptFileError
from reput_schedule.levels.offsetsfile import (
    BACKUP_NAME,
    DIRECTORY,
    FILE_NAME,
    DelayOffsets,
    decode_offsets,
    encode_offsets,
)

if TYPE_CHECKING:
    from reput.plugin import StoreContext

logger = logging.getLogger(__name__)

__all__ = ["DelayState"]

_SAVE_AFTER: Final = 64 << 20  # bytes of log to look at after a crash, with nothing delivered


@attrs.frozen
class _Snapshot:
    """What was delivered when the log ended at an offset."""

    offsets: Mapping[int, int]
    log_end: int


@attrs.define(eq=False)
class DelayState:
    """``config/delayOffset.json`` of one store. Thread-safe."""

    context: StoreContext
    saved: DelayOffsets | None = None
    """What the file says; None where there is none, or none that can be read."""
    _now: _Snapshot | None = None
    _before: _Snapshot | None = None
    """What was delivered when the last flush began, and the log was flushed already."""
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    # ------------------------------------------------------------------ reading

    def load(self) -> DelayOffsets | None:
        """Read the file, or where it cannot be read the one that RocketMQ keeps beside it."""
        self.saved = None
        for name in (FILE_NAME, BACKUP_NAME):
            try:
                self.saved = self._read(name)
            except CorruptFileError as error:
                logger.warning("offsets of delayed messages cannot be read: %s", error)
                self.context.note_problem(f"{error}; it is passed over")
                continue
            if self.saved is not None:
                break
        return self.saved

    def _read(self, name: str) -> DelayOffsets | None:
        path = self.context.directory(DIRECTORY, name)
        try:
            data = self.context.disk.read_file(path)
        except FileNotFoundError:
            return None
        if data:
            return decode_offsets(data, path)
        # RocketMQ makes it empty before it writes it, and takes an empty one for none.
        self.context.note_problem(f"{path}: empty, and passed over")
        return None

    @property
    def is_ours(self) -> bool:
        """Whether nobody else has delivered since the file was written."""
        return self.saved is not None and self.saved.delivered_to is not None

    # ------------------------------------------------------------------ writing

    def note(self, offsets: Mapping[int, int], log_end: int) -> None:
        """Remember what was delivered; every delivered message below ``log_end`` is counted."""
        with self._lock:
            self._now = _Snapshot(dict(offsets), log_end)

    def flush(self) -> None:
        """Save what is noted, as far as the log has flushed it."""
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

    def save(self, offsets: Mapping[int, int], log_end: int) -> None:
        """Write the file now."""
        counter = 1 if self.saved is None else self.saved.counter + 1
        state = DelayOffsets(dict(offsets), log_end, counter)
        disk = self.context.disk
        disk.make_directory(self.context.directory(DIRECTORY), durable=True)
        data = encode_offsets(state, self.context.clock())
        disk.replace(self.context.directory(DIRECTORY, FILE_NAME), data)
        self.saved = state
