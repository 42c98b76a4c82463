"""`scan` and `table`: what programs call to read messages of logs into Arrow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from reput.errors import ConfigError
from reput_arrow.logschema import COLUMNS, schema_of
from reput_arrow.reader.selection import (
    BROKER_COLUMN,
    DAMAGE_COLUMN,
    STORE_COLUMN,
    Selection,
)
from reput_arrow.scanner.scanrequest import (
    CORRUPT,
    Moment,
    Paths,
    compiled,
    milliseconds,
    one_or_many,
    paths_of,
    whole,
)
from reput_arrow.scanner.scanstream import BATCH_SIZE, Scan

if TYPE_CHECKING:
    from reput.plugin import MessageFilter

_BODIES: Final = {"binary": pa.binary(), "text": pa.string()}
_ADDED: Final = dict.fromkeys((STORE_COLUMN, BROKER_COLUMN, DAMAGE_COLUMN), pa.string())
_BATCH_SIZE_MAX: Final = 1 << 30  # offsets of texts are 32 bits


def scan(
    path: Paths,
    *,
    topic: str | Iterable[str] | None = None,
    queue: int | Iterable[int] | None = None,
    min_queue_offset: int | None = None,
    max_queue_offset: int | None = None,
    key: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    columns: Iterable[str] | None = None,
    where: str | MessageFilter | None = None,
    body: str = "binary",
    raw: bool = False,
    corrupt: str = "fail",
    check_crc: bool = False,
    batch_size: int = BATCH_SIZE,
    unit: str = "ms",
) -> Scan:
    """Describe messages of logs for Polars, DuckDB and others; nothing is read yet.

    No plugin is needed, and the logs may be written meanwhile: each reading goes as far as they
    went when it began.

    Args:
        path: a store, a directory of log files, one such file, a directory of stores, a URI of
            HDFS, S3 and others that `pyarrow.fs` knows, or several of these.
        topic: only messages in the queues of these topics. Where the store's consume queues lead
            to them, and they are few, nothing else is read.
        queue: only these queues.
        min_queue_offset: first queue offset wanted.
        max_queue_offset: queue offset after the last one wanted.
        key: only messages of ``topic`` with this key, UNIQ_KEY or a word of KEYS. Where the store's
            index leads to them, nothing else is read.
        since: store time of the oldest message wanted. Older parts of the log are not read.
        until: store time after that of the newest message wanted; likewise.
        columns: those wanted, of `COLUMNS`, and ``"store"``, the path that a row came from, and
            ``"broker"``, the name of that directory; all of `COLUMNS` when left out. Columns
            that are not wanted are never decoded.
        where: a condition on properties in SQL92; needs reput-filter.
        body: ``"binary"``, or ``"text"``: UTF-8, with U+FFFD for what is none.
        raw: leave bodies that a producer compressed as stored, and ``sys_flag`` likewise. Else they
            are unpacked; a body that is not what its flag says stays as it is, with its flag.
        corrupt: at damage: ``"fail"``, ``"skip"`` it, or ``"report"`` it: as rows of their own that
            have a physical offset and a text in the column ``damage``, and null elsewhere.
        check_crc: verify the checksum of every body.
        batch_size: bytes of an Arrow batch, at most; about so much is held at a time.
        unit: of the times, ``"ms"`` or ``"us"``.

    Raises:
        ConfigError: an option that cannot be; the text says what was expected.
    """
    for name, value, known in [("corrupt", corrupt, CORRUPT), ("body", body, tuple(_BODIES))]:
        if value not in known:
            raise ConfigError("scan", name, f"{value!r} is none", known)
    batch_size = whole("batch_size", batch_size, 1, _BATCH_SIZE_MAX)
    if min_queue_offset is not None:
        min_queue_offset = whole("min_queue_offset", min_queue_offset)
    if max_queue_offset is not None:
        max_queue_offset = whole("max_queue_offset", max_queue_offset)
    if key is not None and (topic is None or not isinstance(key, str)):
        raise ConfigError("scan", "key", f"a string, with topic=, expected, found {key!r}")
    selection = Selection(
        paths=paths_of(path),
        topics=one_or_many("topic", topic, str),
        queue_ids=one_or_many("queue", queue, int),
        min_queue_offset=min_queue_offset,
        max_queue_offset=max_queue_offset,
        is_queued=not (topic is None and min_queue_offset is None and max_queue_offset is None),
        key=key,
        start_timestamp=milliseconds("since", since),
        end_timestamp=milliseconds("until", until),
        filter=compiled(where),
        corrupt=corrupt,
        check_crc=check_crc,
        raw=raw,
        split_size=None,
    )
    schema = _schema(columns, unit, _BODIES[body], is_reporting=selection.is_reporting)
    return Scan(selection, schema, batch_size)


def table(path: Paths, **options: Any) -> pa.Table:
    """Read messages of logs into one table.

    Args:
        path: as for `scan`.
        options: those of `scan`: ``topic="orders"``, ``since="2026-01-31"``,
            ``columns=["keys", "body"]``, …

    Raises:
        ConfigError: an option that cannot be.
        StoreNotFoundError: no log at a path.
        CorruptFileError: damage, with ``corrupt="fail"``.
    """
    return scan(path, **options).table()


def _schema(
    columns: Iterable[str] | None, unit: str, body: pa.DataType, *, is_reporting: bool
) -> pa.Schema:
    names = [each.name for each in COLUMNS] if columns is None else list(columns)
    if isinstance(columns, str):
        raise ConfigError("scan", "columns", f"a list of names expected, found {columns!r}")
    if is_reporting and DAMAGE_COLUMN not in names:
        names.append(DAMAGE_COLUMN)
    if len(set(names)) < len(names):
        raise ConfigError("scan", "columns", f"a name twice in {names}")
    fields = []
    for name in names:
        if name in _ADDED and (is_reporting or name != DAMAGE_COLUMN):
            fields.append(pa.field(name, _ADDED[name]))
            continue
        try:
            field = schema_of([name], unit=unit).field(0)
        except ValueError as error:
            raise ConfigError("scan", "columns", str(error)) from None
        field = field.with_type(body) if name == "body" else field
        fields.append(field.with_nullable(True) if is_reporting else field)
    return pa.schema(fields)
