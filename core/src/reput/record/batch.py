"""`DispatchBatch`: messages of the log as columns, as every plugin gets them.

Columns are native numpy arrays of one length; row ``i`` is the same record in all of them. They are
made when first asked for; text stays in the window. A batch, and every view of its memory, is valid
until the hook that received it returns: the next batch uses the window's memory again.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import attrs
import numpy as np

from reput.record.layout import HEADER_DTYPE, PROPERTY_TAGS, TRANSACTION_MASK
from reput.record.text.properties import PropertyColumns, TextColumn

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record.messageview import MessageView

_new = object.__new__
_TEXT = "text:"  # begins the keys of properties among what a batch has made
_ASKED_MAX = 64


class SpanRow:
    """Rows of the ``(8, n)`` int64 matrix that says where ``n`` records and their parts are.

    Positions are those of a window; sizes are in bytes.
    """

    START, SIZE, BODY, BODY_SIZE, TOPIC, TOPIC_SIZE, PROPERTIES, PROPERTIES_SIZE = range(8)


class CorruptionKind(enum.Enum):
    """The fault of the bytes at which a decode stopped."""

    BAD_MAGIC = "neither a record nor a blank begins here"
    BAD_SIZE = "the record's size is impossible"
    LENGTH_MISMATCH = "the record's size is not the sum of its parts"
    PHYSICAL_OFFSET = "the record states another physical offset"
    BODY_CRC = "the body does not match its checksum"
    RECORD_CRC = "the record does not match its whole-record checksum"
    TORN = "the record was not written to its end"
    TRUNCATED = "the file ends inside the record"
    NO_BLANK = "the file ends without the blank that closes it"


@attrs.frozen
class Corruption:
    """Bytes that contradict the format; decoding ended before them."""

    physical_offset: int
    """Where the corrupt record begins."""
    reason: CorruptionKind
    detail: str
    """Found and expected, for people."""

    def __str__(self) -> str:
        return f"physical offset {self.physical_offset}: {self.reason.value} ({self.detail})"


def _int32(name: str, doc: str) -> npt.NDArray[np.int32]:
    made = property(lambda batch: batch.column(name), doc=f"``(n,)`` int32: {doc}")
    return cast("npt.NDArray[np.int32]", made)


def _int64(name: str, doc: str) -> npt.NDArray[np.int64]:
    made = property(lambda batch: batch.column(name), doc=f"``(n,)`` int64: {doc}")
    return cast("npt.NDArray[np.int64]", made)


@attrs.define(eq=False, kw_only=True, repr=False)
class DispatchBatch:
    """Columns over ``n`` records, in commit-log order; read-only."""

    window: npt.NDArray[np.uint8]
    """``(w,)``, the bytes in which the records lie."""
    base_offset: int
    """Physical offset of ``window[0]``; 0 if the records were moved together from several places
    (see `physical_offset`)."""
    _places: npt.NDArray[np.int64]
    """``(8, n)`` or more, contiguous rows as `SpanRow` names them."""
    _header: npt.NDArray[np.uint8]
    """``(n, 88)``, each row the bytes of one `HEADER_DTYPE`."""
    topic_code: npt.NDArray[np.int32]
    """``(n,)``, index of each record's topic in `topics`."""
    topics: tuple[str, ...]
    """Names of topics; more than occur here."""
    end_offset: int
    """Physical offset at which the next batch begins: the end of the last record, or the start of
    the next file if a blank followed the record."""
    finding: Corruption | None = None
    """The corruption at which decoding ended early, or None."""
    _columns: dict[str, Any] = attrs.field(factory=dict)
    """Columns that were made or added, by name."""
    _asked: set[str] = attrs.field(factory=set)
    """Names of columns that were made; one set for a batch and its parts."""
    start: npt.NDArray[np.int64] = attrs.field(init=False)
    """``(n,)``, position of each record in the window."""
    size: npt.NDArray[np.int64] = attrs.field(init=False)
    """``(n,)``, bytes of each record."""
    _headers: Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.uint8]] = attrs.field(init=False)
    """Returns the headers of the window, in a batch that has none yet (`of_records`)."""

    def __attrs_post_init__(self) -> None:
        # All plugins are given the same batch, so none may write into it.
        places, window = self._places, self.window
        if window.flags.writeable:
            self.window = window = window.view()
            window.setflags(write=False)
        if self.topic_code.flags.writeable:
            self.topic_code.setflags(write=False)
        if places.flags.writeable:
            places.setflags(write=False)  # as its rows are then
        self.start, self.size = places[SpanRow.START], places[SpanRow.SIZE]
        for each in self._columns.values():
            if isinstance(each, np.ndarray) and each.flags.writeable:
                each.setflags(write=False)

    @classmethod
    def of_records(
        cls,
        window: npt.NDArray[np.uint8],
        places: npt.NDArray[np.int64],
        header: Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.uint8]],
        topic_code: npt.NDArray[np.int32],
        topic: str,
        end_offset: int,
    ) -> DispatchBatch:
        """Return a batch of records of one topic that were moved together, without any check.

        Args:
            window: ``(w,)``, the records one behind the other and nothing else.
            places: ``(9, n)``, contiguous rows as `SpanRow` names them, then the physical offsets.
            header: returns the ``(n, 88)`` headers of the window, when a column is asked for.
            topic_code: ``(n,)`` zeros.
            topic: the topic's name.
            end_offset: see `end_offset`. Nobody may write the arrays.
        """
        batch = _new(cls)
        batch.window, batch._places, batch._headers = window, places, header
        batch.topic_code, batch.topics, batch.end_offset = topic_code, (topic,), end_offset
        return batch

    def __getattr__(self, name: str) -> Any:
        """Return an attribute that a batch of `of_records` has not made yet."""
        make = _LATER.get(name)
        if make is None:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        found = make(self)
        setattr(self, name, found)
        return found

    def __len__(self) -> int:
        return len(self.topic_code)

    def __repr__(self) -> str:
        return (
            f"<DispatchBatch of {len(self)} messages, physical offsets "
            f"[{self.start_offset}, {self.end_offset})>"
        )

    # ------------------------------------------------------------------ numbers

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return the ``(n,)`` column ``name``: a header field, or a column that a plugin added.

        Raises:
            KeyError: no such column; the message lists the columns that exist.
        """
        value: npt.NDArray[Any] | None = self._columns.get(name)
        if value is not None:
            return value
        if name == "physical_offset":
            value = self.start + self.base_offset
        elif name == "tags_code":
            value = self.text(PROPERTY_TAGS).java_hash().astype(np.int64)
        elif name in ("start", "size", "topic_code"):
            return getattr(self, name)  # type: ignore[no-any-return]
        else:
            fields = HEADER_DTYPE.names or ()
            if name not in fields:
                known = sorted({*fields, *self._columns, "physical_offset", "tags_code"})
                raise KeyError(f"{name!r}; known: {', '.join(known)}")
            raw = self._header.view(HEADER_DTYPE)[:, 0][name]
            value = raw.astype(raw.dtype.newbyteorder("="))
        if len(self._asked) < _ASKED_MAX:
            self._asked.add(name)
        value.setflags(write=False)
        self._columns[name] = value
        return value

    def asked(self) -> tuple[str, ...]:
        """Return the names of columns made on request, also of its parts; for another `make`."""
        return tuple(self._asked)

    def make(self, asked: Iterable[str]) -> None:
        """Make columns that another batch was asked for, ahead of a request."""
        for key in asked:
            if key.startswith(_TEXT):
                self.text(key.removeprefix(_TEXT))
            else:
                self.column(key)

    def holds(self, name: str) -> bool:
        """Whether the column ``name`` was asked for before, or added by a plugin."""
        return name in self._columns

    physical_offset = _int64("physical_offset", "where each record begins in the log.")
    queue_id = _int32("queue_id", "the queue of the topic.")
    queue_offset = _int64("queue_offset", "ordinal of each message in its queue.")
    sys_flag = _int32("sys_flag", "bits of ``reput.record.layout``.")
    store_timestamp = _int64("store_timestamp", "ms.")
    born_timestamp = _int64("born_timestamp", "ms.")
    tags_code = _int64(
        "tags_code", "hash of the tags, 0 without; a plugin may replace this column."
    )

    @property
    def transaction(self) -> npt.NDArray[np.int32]:
        """``(n,)`` int32: the transaction bits of `sys_flag`."""
        return self.sys_flag & TRANSACTION_MASK

    @property
    def start_offset(self) -> int:
        """Physical offset of the first record; `end_offset` if the batch is empty."""
        return self._offset_of(0) if len(self) else self.end_offset

    def _offset_of(self, row: int) -> int:
        """Physical offset of one row, without computing those of all."""
        known = self._columns.get("physical_offset")
        return self.base_offset + int(self.start[row]) if known is None else int(known[row])

    # ------------------------------------------------------------------ text

    @property
    def body(self) -> TextColumn:
        """Bodies, as positions in the window."""
        places = self._places
        return TextColumn(self.window, places[SpanRow.BODY], places[SpanRow.BODY_SIZE])

    @property
    def properties(self) -> PropertyColumns:
        """Properties of all rows, which can be looked up by name."""
        found = self._columns.get("properties")
        if found is None:
            places = self._places
            found = PropertyColumns(
                self.window, places[SpanRow.PROPERTIES], places[SpanRow.PROPERTIES_SIZE]
            )
            self._columns["properties"] = found
        return found

    def text(self, name: str) -> TextColumn:
        """Return the values of the property ``name``, such as ``"KEYS"``."""
        key = _TEXT + name
        found = self._columns.get(key)
        if found is None:
            found = self._columns[key] = self.properties.find(name)
            if len(self._asked) < _ASKED_MAX:
                self._asked.add(key)  # only now: another batch is to make what can be made
        return found

    @property
    def properties_text(self) -> TextColumn:
        """The rows' encoded property texts."""
        places = self._places
        return TextColumn(self.window, places[SpanRow.PROPERTIES], places[SpanRow.PROPERTIES_SIZE])

    # ------------------------------------------------------------------ rows

    def record(self, row: int) -> bytes:
        """Return a copy of the bytes of one record."""
        start = int(self.start[row])
        return self.window[start : start + int(self.size[row])].tobytes()

    def message(self, row: int) -> MessageView:
        """Return one record as a message with bytes of its own, which outlives the batch."""
        from reput.record.messageview import MessageView

        return MessageView(self.record(row), self._offset_of(row))

    # ------------------------------------------------------------------ parts

    def __getitem__(self, rows: slice) -> DispatchBatch:
        """Return rows ``i`` to ``j`` as a batch that shares this batch's memory."""
        first, stop, step = rows.indices(len(self))
        if step != 1:
            raise ValueError("a batch is cut in order: no step")
        stop = max(first, stop)
        whole_end = stop == len(self)
        end_offset = self.end_offset if whole_end else self._offset_of(stop)
        return DispatchBatch(
            window=self.window,
            base_offset=self.base_offset,
            places=self._places[:, first:stop],
            header=self._header[first:stop],
            topic_code=self.topic_code[first:stop],
            topics=self.topics,
            end_offset=end_offset,
            finding=self.finding if whole_end else None,
            columns={
                name: column[first:stop] if isinstance(column, np.ndarray) else column
                for name, column in self._columns.items()
                if isinstance(column, np.ndarray) or stop - first == len(self)
            },
            asked=self._asked,
        )

    def stand_at(self, physical_offset: npt.NDArray[np.int64]) -> None:
        """State where each record is in the log: ``(n,)`` int64, not copied.

        For a batch of records that were moved together.
        """
        physical_offset.setflags(write=False)
        self._columns["physical_offset"] = physical_offset
        self.end_offset = int(physical_offset[-1] + self.size[-1]) if len(self) else 0

    def after(self, physical_offset: int) -> DispatchBatch:
        """Return the records that begin at or after ``physical_offset``."""
        if physical_offset <= self.start_offset:
            return self
        return self[int(np.searchsorted(self.physical_offset, physical_offset)) :]

    def with_columns(self, columns: Mapping[str, npt.NDArray[Any]]) -> DispatchBatch:
        """Return a batch with ``columns`` added; they replace existing columns of the same name.

        Raises:
            ValueError: a column is not ``(n,)``, has another kind of values than numbers or bytes,
                or may not be replaced.
        """
        for name, column in columns.items():
            if name in _FIXED:
                raise ValueError(f"column {name!r} is the record's own and cannot be replaced")
            if np.shape(column) != (len(self),):
                raise ValueError(
                    f"column {name!r} has shape {np.shape(column)}, the batch has {len(self)} rows"
                )
            kinds = "iu" if name == "tags_code" else "biufSUV"
            kind = np.asarray(column).dtype.kind
            if kind not in kinds:
                raise ValueError(f"column {name!r} is of kind {kind!r}, not one of {kinds!r}")
        changed = self[:]
        for name, column in columns.items():
            kept = np.asarray(column).view()
            kept.setflags(write=False)
            changed._columns[name] = kept
        return changed


_FIXED = frozenset({"start", "size", "physical_offset", "topic_code"})
_LATER: Final[dict[str, Callable[[Any], Any]]] = {
    "base_offset": lambda batch: 0,
    "finding": lambda batch: None,
    "start": lambda batch: batch._places[SpanRow.START],
    "size": lambda batch: batch._places[SpanRow.SIZE],
    "_header": lambda batch: batch._headers(batch.window),
    "_headers": lambda batch: None,  # of a batch that has headers, which is copied or pickled
    "_columns": lambda batch: {"physical_offset": batch._places[-1]},
    "_asked": lambda batch: set(),
}
"""What makes the attributes that most batches of `of_records` are never asked for."""


# --------------------------------------------------------------------------- queues of a batch

_LOW = 0xFFFFFFFF
_SIGN = 0x80000000


def queue_keys(topic_code: npt.NDArray[Any], queue_id: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return ``(n,)`` int64, one number for each queue, so that sorting them groups by queue.

    The topic's code is in the upper 32 bits, the queue id, which damage can make negative, below.
    """
    keys: npt.NDArray[np.int64] = topic_code.astype(np.int64) << 32
    keys |= queue_id.astype(np.int64) & _LOW
    return keys


def queue_of_key(key: int) -> tuple[int, int]:
    """Return the topic's code and the queue id, which may be negative, of one of `queue_keys`."""
    queue_id = key & _LOW
    return key >> 32, queue_id - ((queue_id & _SIGN) << 1)
