"""Read the records of a part by their places, and check that each is the one that was meant."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput.errors import ReputError
from reput.record import RECORD_SIZE_MAX, Decoder, fixed_rows
from reput.record.layout import HEADER_DTYPE, RECORD_MIN_SIZE
from reput_arrow.reader.pruning.derivedfiles import DoubtError, derived_files
from reput_arrow.reader.pruning.prunedread import KeyPlaces, QueueRange, QueueRanges
from reput_arrow.reader.pruning.queueunits import QueueUnits, check_units

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch
    from reput_arrow.logs.logplace import LogPlace
    from reput_arrow.logs.openlog import OpenLog

logger = logging.getLogger(__name__)

_READ_COUNT: Final = 8_192
_READ_SIZE: Final = 4 << 20
_PLACE_DTYPE: Final = np.dtype([("physical_offset", ">i8"), ("size", ">i4")])
_OFFSET_POSITION: Final = HEADER_DTYPE.fields["physical_offset"][1]  # type: ignore[index]


@attrs.frozen(eq=False)
class Left:
    """Rows of a part that are still to be found in the log."""

    low: int
    high: int
    """They stand in ``[low, high)``."""
    queues: tuple[QueueRange, ...] | None = None
    """They are of these, if it is not None."""

    def rows(self, batch: DispatchBatch) -> npt.NDArray[np.bool_]:
        """Return whether each row is one of them, ``(n,)``."""
        found: npt.NDArray[np.bool_] = (batch.physical_offset >= self.low) & (
            batch.physical_offset < self.high
        )
        if self.queues is None:
            return found
        is_queued = np.zeros(len(batch), np.bool_)
        for each in self.queues:
            names = np.array([topic == each.topic for topic in batch.topics] or [False])
            is_queued |= (
                names[batch.topic_code]
                & (batch.queue_id == each.queue_id)
                & (batch.queue_offset >= each.first)
                & (batch.queue_offset < each.stop)
            )
        return found & is_queued


@attrs.define(eq=False)
class PartReader:
    """Reads one part of a pruned read."""

    log: OpenLog
    place: LogPlace
    part: QueueRanges | KeyPlaces
    check_crc: bool
    left: Left | None = None
    """Once `batches` has ended: what the log has to be read for; None for nothing."""

    def batches(self) -> Iterator[DispatchBatch]:
        """Yield the records in the log's order; each batch is valid as long as it is kept."""
        part = self.part
        reading = self._of_queues(part) if isinstance(part, QueueRanges) else self._of_places(part)
        try:
            yield from reading
        except (DoubtError, ReputError, OSError) as error:
            logger.warning(
                "derived files do not lead to the records, reading the log store=%s reason=%s",
                self.place.store,
                error,
            )
        else:
            self.left = None

    # ------------------------------------------------------------------ queues

    def _of_queues(self, part: QueueRanges) -> Iterator[DispatchBatch]:
        self.left = Left(part.low, part.high, part.queues)
        found = derived_files(self.place)
        if found is None:
            raise DoubtError("the store has moved")
        try:
            units = [
                QueueUnits(found, each.topic, each.queue_id).read(each.first, each.stop)
                for each in part.queues
            ]
        finally:
            found.pool.close()
        for each in units:
            check_units(each)
        counts = [len(each) for each in units]
        number = np.repeat(np.arange(len(units)), counts)
        queue_offset = np.concatenate([np.arange(each.first, each.stop) for each in part.queues])
        places = np.empty(len(number), _PLACE_DTYPE)
        for name in ("physical_offset", "size"):
            places[name] = np.concatenate([each[name] for each in units])
        at = places["physical_offset"].astype(np.int64)
        order = np.argsort(at, kind="stable")
        order = order[(at[order] >= part.low) & (at[order] < part.high)]
        places = places[order]
        check_units(places)
        yield from self._checked(part, places, number[order], queue_offset[order])

    def _checked(
        self,
        part: QueueRanges,
        places: npt.NDArray[np.void],
        number: npt.NDArray[np.int64],
        queue_offset: npt.NDArray[np.int64],
    ) -> Iterator[DispatchBatch]:
        queue_ids = np.array([each.queue_id for each in part.queues])
        done = [each.first for each in part.queues]
        at = 0
        for batch in self._read(places):
            rows = slice(at, at + len(batch))
            topics = np.array(
                [[each.topic == topic for topic in batch.topics] for each in part.queues]
            )
            is_meant = (
                (batch.queue_offset == queue_offset[rows])
                & (batch.queue_id == queue_ids[number[rows]])
                & topics[number[rows], batch.topic_code]
            )
            if not is_meant.all():
                raise DoubtError("a unit leads to a record of another place in the queues")
            yield batch
            at = rows.stop
            for which in np.unique(number[rows]).tolist():
                done[which] = int(queue_offset[rows][number[rows] == which].max()) + 1
            rest = zip(part.queues, done, strict=True)
            queues = tuple(attrs.evolve(each, first=first) for each, first in rest)
            self.left = Left(part.low, part.high, queues)

    # ------------------------------------------------------------------ places

    def _of_places(self, part: KeyPlaces) -> Iterator[DispatchBatch]:
        self.left = Left(part.low, part.high)
        heads = np.empty(len(part.places), _PLACE_DTYPE)
        heads["physical_offset"], heads["size"] = part.places, 4
        places = heads.copy()
        at = 0
        while at < len(heads):
            found = self.log.read_records(
                heads[at:].tobytes(), heads.itemsize, _READ_COUNT, _READ_SIZE
            )
            if not found or len(found[-1]) < 4:
                raise DoubtError(f"nothing stands at {part.places[at]}")
            sizes = np.frombuffer(b"".join(found), ">i4")
            places["size"][at : at + len(sizes)] = sizes
            at += len(sizes)
        if ((places["size"] < RECORD_MIN_SIZE) | (places["size"] > RECORD_SIZE_MAX)).any():
            raise DoubtError("an item leads to no record")
        for batch in self._read(places):
            yield batch
            last = int(batch.physical_offset[-1])
            self.left = Left(last + 1, part.high)

    # ------------------------------------------------------------------ records

    def _must_have_crc(self, offsets: npt.NDArray[np.int64]) -> bool:
        """Whether records that are read together must have a checksum of their own.

        Raises:
            DoubtError: some of them must.
        """
        if not self.check_crc or not self.log.checked.ranges:
            return False
        covered = {self.log.must_have_crc(int(each)) for each in offsets}
        if len(covered) > 1:
            raise DoubtError("some of these records have a checksum, and some need none")
        return covered.pop()

    def _read(self, places: npt.NDArray[np.void]) -> Iterator[DispatchBatch]:
        """Yield the records at ``places``, which ascend; each is valid, and states its place.

        Raises:
            DoubtError: one is not.
        """
        decoder = Decoder(
            check_offset=False, check_crc=self.check_crc, check_record_crc=self.check_crc
        )
        at = 0
        while at < len(places):
            block = places[at : at + _READ_COUNT]
            records = self.log.read_records(
                block.tobytes(), block.itemsize, _READ_COUNT, _READ_SIZE
            )
            sizes = [len(each) for each in records]
            block = block[: len(records)]
            if not records or sizes != block["size"].tolist():
                raise DoubtError(
                    f"the log does not hold the record that a unit names at {int(places[at][0])}"
                )
            decoder.requires_record_crc = self._must_have_crc(block["physical_offset"])
            window = np.frombuffer(b"".join(records), np.uint8)
            batch = decoder.decode(window, 0).batch
            if len(batch) < len(records) or batch.finding is not None:
                raise DoubtError(f"no record at {int(block[min(len(batch), len(block) - 1)][0])}")
            offsets = block["physical_offset"].astype(np.int64)
            stated = fixed_rows(window, batch.start + _OFFSET_POSITION, np.dtype(">i8"))
            if (stated.astype(np.int64) != offsets).any():
                raise DoubtError("a record says that it stands elsewhere")
            batch.stand_at(offsets)
            yield batch
            at += len(records)
