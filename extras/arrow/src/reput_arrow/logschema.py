"""The columns that a log has in Arrow: their names, types and meanings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    import pyarrow as pa


@attrs.frozen
class Column:
    """One column of a log."""

    name: str
    type: str
    """Name of the Arrow type; times are UTC."""
    is_nullable: bool
    about: str


COLUMNS: Final = tuple(
    Column(*each)
    for each in [
        ("topic", "string", False, "the topic"),
        ("queue_id", "int32", False, "the queue of the topic"),
        ("queue_offset", "int64", False, "number of the message in its queue"),
        ("physical_offset", "int64", False, "byte of the log at which the record begins"),
        ("size", "int32", False, "bytes of the record"),
        ("tags", "string", True, "the property TAGS"),
        ("tags_code", "int64", False, "Java string hash of the tags, 0 without tags"),
        ("keys", "list", False, "the words of the property KEYS"),
        ("uniq_key", "string", True, "the property UNIQ_KEY, the producer's id of the message"),
        ("properties", "map", False, "all properties; if a name occurs twice, the last value"),
        ("body", "binary", False, "the body, unpacked if its producer compressed it"),
        ("body_crc", "int32", False, "checksum that the record states for its body"),
        ("flag", "int32", False, "32 bits for the application"),
        (
            "sys_flag",
            "int32",
            False,
            "bits for compression, transactions and kinds of hosts",
        ),
        (
            "born_timestamp",
            "timestamp",
            True,
            "when the producer made it; null beyond Arrow's range",
        ),
        ("store_timestamp", "timestamp", True, "when the log took it; null beyond Arrow's range"),
        ("born_host", "string", False, "address and port of the producer"),
        ("store_host", "string", False, "address and port of the store"),
        ("reconsume_times", "int32", False, "how often consumers sent it back"),
        (
            "prepared_transaction_offset",
            "int64",
            False,
            "physical offset of the half message that this message commits",
        ),
        ("msg_id", "string", False, "offset message id: store host and physical offset"),
    ]
)
"""Every column, in the order of `schema_of`."""


def schema_of(columns: Iterable[str] | None = None, *, unit: str = "ms") -> pa.Schema:
    """Return the Arrow schema of some columns of a log, or of all.

    Args:
        columns: names, in the order wanted.
        unit: unit of the times: ``"ms"``, as they are stored, or ``"us"``, as Spark has them.

    Raises:
        ValueError: a name is not a column; the text lists the columns.
    """
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "binary": pa.binary(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "list": pa.list_(pa.field("element", pa.string(), nullable=False)),
        "map": pa.map_(pa.string(), pa.field("value", pa.string(), nullable=False)),
        "timestamp": pa.timestamp(unit, "UTC"),
    }
    known = {column.name: column for column in COLUMNS}
    fields = []
    for name in known if columns is None else columns:
        if name not in known:
            raise ValueError(f"no column {name!r} in a log; known columns: {', '.join(known)}")
        column = known[name]
        fields.append(pa.field(name, types[column.type], nullable=column.is_nullable))
    return pa.schema(fields)
