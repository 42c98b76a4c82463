"""What one read has found: messages as objects, or the bytes of their records for columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from reput.plugin import ReadColumns, ReadResult
from reput.record import Decoder, DispatchBatch, SpanRow
from reput_consumequeue.reader.fastpath import sound_columns, sound_messages

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import MessageView

    CountIntact = Callable[[list[MessageView]], int]

SHARED_SIZE: Final = 1 << 16
"""Most bytes of records that share memory: one message that is kept keeps so many bytes."""


class MessageBuffer:
    """Messages as objects, which share the memory of what was read together."""

    together = SHARED_SIZE
    """Most bytes of records that are read as one."""

    def __init__(self) -> None:
        self._messages: list[MessageView] = []
        self._places: list[int] = []

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def last_offset(self) -> int:
        """Physical offset of the last message."""
        return self._messages[-1].physical_offset

    def add(self, place: int, message: MessageView) -> None:
        """Add the message at the queue offset ``place``."""
        self._messages.append(message)
        self._places.append(place)

    def add_sound(
        self, asked: tuple[Any, ...], place: int, wanted: int, intact: CountIntact | None
    ) -> int:
        """Add messages of consecutive units, up to the first one in doubt; return their number.

        Args:
            asked: arguments of `sound_messages`.
            place: queue offset of the first unit.
            wanted: how many records were asked for.
            intact: counts the first messages of a list that are not in doubt for another reason;
                None if there is no other reason.
        """
        sound = sound_messages(*asked)
        if intact is not None:
            del sound[intact(sound) :]
        self._messages += sound
        self._places += range(place, place + len(sound))
        return len(sound)

    def answer(self, status: Any, at: int, low: int, high: int, holes: Any) -> ReadResult:
        """Return the answer of the read."""
        return ReadResult(status, at, low, high, tuple(self._messages), tuple(self._places), holes)


class ColumnBuffer:
    """Records in one run, decoded together; has the members of `MessageBuffer`."""

    together = 1 << 62

    def __init__(self) -> None:
        self._count = 0
        self._records: list[bytes] = []
        self._offsets: list[npt.NDArray[np.int64]] = []
        self._places: list[npt.NDArray[np.int64]] = []
        # Places, headers and topic of the records, if one call has cut all of them.
        self._cut: tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8], bytes] | None = None

    def __len__(self) -> int:
        return self._count

    @property
    def last_offset(self) -> int:
        """Physical offset of the last record."""
        return int(self._offsets[-1][-1])

    def add(self, place: int, message: MessageView) -> None:
        """Add one message."""
        self._count += 1
        self._cut = None
        self._records.append(message.record)
        self._offsets.append(np.array([message.physical_offset], np.int64))
        self._places.append(np.array([place], np.int64))

    def add_sound(
        self, asked: tuple[Any, ...], place: int, wanted: int, intact: CountIntact | None
    ) -> int:
        """Add those of many records that need no decision; return how many."""
        chunks, *listed = asked
        records = _joined(chunks)
        cut, headers, offsets = sound_columns(records, *listed)
        count = len(offsets)
        if intact is not None:
            count = intact(sound_messages(*asked))
            cut, headers, offsets = cut[:, :count], headers[:count], offsets[:count]
        if not count:
            return 0
        if count < wanted:  # the records after these are in doubt, or were not read
            records = records[: int(cut[SpanRow.START, -1] + cut[SpanRow.SIZE, -1])]
            cut, headers = cut.copy(), headers.copy()  # they were made for all that was read
        topic, is_light = listed[2], listed[5]
        # A light queue lists messages of several topics, which the decoder tells apart.
        self._cut = None if self._count or is_light else (cut, headers, topic)
        self._records.append(records)
        self._offsets.append(offsets)
        self._places.append(np.arange(place, place + count))
        self._count += count
        return count

    def answer(
        self, status: Any, at: int, low: int, high: int, holes: Any
    ) -> ReadResult | ReadColumns:
        """Return the answer of the read."""
        if not self._count:
            return ReadResult(status, at, low, high, holes=holes)
        window = np.frombuffer(_joined(self._records), np.uint8)
        if self._cut is not None:
            places, headers, topic = self._cut
            offsets = self._offsets[0]
            batch = DispatchBatch(
                window=window,
                base_offset=0,
                places=places,
                header=headers,
                topic_code=np.zeros(self._count, np.int32),
                topics=(topic.decode(),),
                end_offset=int(offsets[-1] + places[SpanRow.SIZE, -1]),
                columns={"physical_offset": offsets},
            )
        else:
            # Lengths were checked, and where the records stand: they were moved together.
            batch = Decoder(check_offset=False).decode(window, 0).batch
            batch.stand_at(_together(self._offsets))
        return ReadColumns(status, at, low, high, batch, _together(self._places), holes)


def _joined(parts: list[bytes]) -> bytes:
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _together(parts: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
