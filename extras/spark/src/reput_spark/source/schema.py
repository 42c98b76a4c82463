"""The schema of a log in Spark's types, and the Arrow schema that Spark wants for it."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from reput_arrow import COLUMNS, schema_of
from reput_arrow.addedcolumns import BROKER_COLUMN, DAMAGE_COLUMN, STORE_COLUMN
from reput_spark.errors import SparkReputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql.types import StructType

DEFAULT_COLUMNS: Final = (
    *("topic", "queue_id", "queue_offset", "physical_offset", "size", "tags", "keys"),
    *("born_timestamp", "store_timestamp"),
)
"""Columns of a frame whose user names none: those that cost little, as Spark does not report to a
source in Python which columns a query uses."""

_EXTRA = dict.fromkeys((STORE_COLUMN, BROKER_COLUMN, DAMAGE_COLUMN), pa.string())


def spark_schema(columns: Iterable[str] | None = None, *, collects: bool = False) -> StructType:
    """Return Spark's schema of ``columns``.

    Args:
        columns: names; `DEFAULT_COLUMNS` when left out, and ``"*"`` for all columns of a log and
            the store.
        collects: whether there are rows for what is damaged, so that every column may be null.

    Raises:
        SparkReputError: no such column.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    names = list(DEFAULT_COLUMNS if columns is None else columns)
    if names == ["*"]:
        names = [*(each.name for each in COLUMNS), STORE_COLUMN]
    if collects and DAMAGE_COLUMN not in names:
        names.append(DAMAGE_COLUMN)
    return from_arrow_schema(_fields(names, collects=collects))


def arrow_schema(schema: StructType, *, collects: bool = False) -> pa.Schema:
    """Return the Arrow schema that batches must have for ``schema``, which the user may have cut.

    Args:
        schema: columns of a log, with their types.
        collects: whether there are rows for what is damaged, so that every column may be null.

    Raises:
        SparkReputError: a column that a log does not have, has with another type, or that may be
            null where the schema says that it is not.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    ours = {
        field.name: field
        for field in from_arrow_schema(_fields(schema.names, collects=collects)).fields
    }
    for field in schema.fields:
        kind, found = ours[field.name].dataType.simpleString(), field.dataType.simpleString()
        if found != kind:
            raise SparkReputError("OPTION", f"column {field.name!r} is {kind}, not {found}")
        if ours[field.name].nullable and not field.nullable:
            raise SparkReputError("OPTION", f"column {field.name!r} may be null: no 'not null'")
    return plain_arrow_schema(schema)


def plain_arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of ``schema``, whatever its columns are."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # Newer releases want the time zone; older ones know only this one.
    zone: dict[str, Any] = (
        {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    )
    return to_arrow_schema(schema, **zone)


def _fields(names: Iterable[str], *, collects: bool = False) -> pa.Schema:
    fields = []
    for name in names:
        if name in _EXTRA:
            fields.append(pa.field(name, _EXTRA[name], nullable=name == DAMAGE_COLUMN))
            continue
        try:
            field = schema_of([name], unit="us").field(0)
        except ValueError as error:
            raise SparkReputError("OPTION", str(error)) from None
        fields.append(field.with_nullable(True) if collects else field)
    return pa.schema(fields)
