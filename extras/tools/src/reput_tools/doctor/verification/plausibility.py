"""Looks at what no checksum covers: is each record something that a store could have written?

The body's checksum is the only one that most records have. Flags, times, topics and properties are
looked at for what they can be at all; compressed bodies are unpacked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput.errors import CodecNotFoundError, UnpackError
from reput.record import compression_name, unpack_body
from reput.record.layout import COMPRESSED, NAME_END, VALUE_END
from reput_tools.offline import TouchedMessage

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch

_ODDITIES_MAX: Final = 1_000
_FLAGS: Final = 0x7FF  # bits of the system flag that have a meaning
_AHEAD_MS: Final = 86_400_000  # how far a producer's clock may be ahead of the store's
_TIME_MAX: Final = 253_402_300_800_000  # the year 10,000


@attrs.frozen
class Oddity:
    """A record that no store would have written so; plain values."""

    kind: str
    """``flags``, ``times``, ``topic``, ``properties`` or ``compressed-body``."""
    found: str
    expected: str
    message: TouchedMessage


@attrs.define
class PlausibilityCheck:
    """What one stretch of a log shows; for one process."""

    found: list[Oddity] = attrs.field(factory=list)
    count: int = 0
    """Oddities in all, with those that are not kept."""
    missing_codecs: set[str] = attrs.field(factory=set)
    """Compressions for which a library is missing."""

    def add(self, batch: DispatchBatch) -> None:
        """Look at the next batch."""
        if not len(batch):
            return
        flags = batch.sys_flag
        for row in np.flatnonzero(flags & ~np.int32(_FLAGS)).tolist():
            unknown = int(flags[row]) & ~_FLAGS & 0xFFFFFFFF
            self._note(batch, row, "flags", f"unknown bits {unknown:#x}", "bits 0 to 10")
        self._add_times(batch)
        self._add_topics(batch)
        for row in np.flatnonzero(_malformed(batch)).tolist():
            expected = "pairs of name and value, each ended by its separator"
            self._note(batch, row, "properties", "a name or value without its separator", expected)
        for row in np.flatnonzero(flags & COMPRESSED).tolist():
            self._unpack(batch, row)

    def _add_times(self, batch: DispatchBatch) -> None:
        born, stored = batch.born_timestamp, batch.store_timestamp
        wrong = (born < 0) | (stored <= 0) | (stored > _TIME_MAX) | (born > stored + _AHEAD_MS)
        for row in np.flatnonzero(wrong).tolist():
            found = f"born {int(born[row])}, stored {int(stored[row])}"
            self._note(batch, row, "times", found, "times since 1970, born at most a day ahead")

    def _add_topics(self, batch: DispatchBatch) -> None:
        odd = np.array([not topic or not topic.isprintable() for topic in batch.topics], np.bool_)
        if not odd.any():
            return
        for row in np.flatnonzero(odd[batch.topic_code]).tolist():
            self._note(batch, row, "topic", "no text that a topic can be", "a printable name")

    def _unpack(self, batch: DispatchBatch, row: int) -> None:
        message = batch.message(row)
        try:
            unpack_body(message.body, message.sys_flag)
        except CodecNotFoundError as error:
            self.missing_codecs.add(error.compression)
        except UnpackError as error:
            name = compression_name(message.sys_flag)
            self._note(batch, row, "compressed-body", error.reason, f"a body packed with {name}")

    def _note(self, batch: DispatchBatch, row: int, kind: str, found: str, expected: str) -> None:
        self.count += 1
        if len(self.found) < _ODDITIES_MAX:
            message = batch.message(row)
            touched = TouchedMessage(
                message.topic,
                message.queue_id,
                message.queue_offset,
                next(iter(message.keys), None),
                int(batch.physical_offset[row]),
            )
            self.found.append(Oddity(kind, found, expected, touched))


def _malformed(batch: DispatchBatch) -> npt.NDArray[np.bool_]:
    """Return which property texts do not have as many values as names.

    The last value may be without its separator, as some releases leave it out.
    """
    text = batch.properties_text
    balance = np.cumsum((batch.window == NAME_END).view(np.int8), dtype=np.int32)
    balance -= np.cumsum((batch.window == VALUE_END).view(np.int8), dtype=np.int32)
    starts, sizes = text.starts, text.sizes
    ends = np.maximum(starts + sizes - 1, 0)
    before = np.where(starts > 0, balance[np.maximum(starts - 1, 0)], 0)
    left = balance[ends] - before
    is_ended = batch.window[ends] == VALUE_END
    wrong: npt.NDArray[np.bool_] = (sizes > 0) & (left != np.where(is_ended, 0, 1))
    return wrong
