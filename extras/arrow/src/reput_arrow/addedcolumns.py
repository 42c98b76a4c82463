"""Columns that a read adds to those of a log; a write ignores them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reput_arrow import check_schema
from reput_arrow.codederrors import CodedError
from reput_arrow.reader.selection import BROKER_COLUMN, DAMAGE_COLUMN, STORE_COLUMN

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ADDED_COLUMNS", "BROKER_COLUMN", "DAMAGE_COLUMN", "STORE_COLUMN", "check_columns"]

ADDED_COLUMNS: Final = (STORE_COLUMN, BROKER_COLUMN, DAMAGE_COLUMN)


def check_columns(schema: pa.Schema) -> None:
    """Refuse the schema of rows that are not messages.

    Raises:
        CodedError: a column that is missing, not known or of a wrong type.
    """
    try:
        check_schema(schema, ADDED_COLUMNS)
    except ValueError as error:
        raise CodedError("OPTION", str(error)) from None
