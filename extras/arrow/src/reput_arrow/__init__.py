"""The log as Arrow: each batch becomes a `pyarrow.RecordBatch`, without a loop over its rows.

`columns_of` is the way back: it turns Arrow columns into messages to put.

    import reput
    from reput_arrow import to_arrow

    with reput.open(path, "r", plugins=()) as store:
        for batch in store.scan():
            print(to_arrow(batch, ["topic", "keys", "body"]))

Needs pyarrow, the extra ``reput[arrow]``. Spark, Parquet and DataFrame libraries read the result.
"""

from __future__ import annotations

from reput_arrow.batches import to_arrow
from reput_arrow.columns import (
    INPUT_COLUMNS,
    InputColumn,
    check_schema,
    columns_of,
    hosts_of,
    times_of,
)
from reput_arrow.fields import COLUMNS, Column, schema_of

__all__ = [
    "COLUMNS",
    "INPUT_COLUMNS",
    "Column",
    "InputColumn",
    "check_schema",
    "columns_of",
    "hosts_of",
    "schema_of",
    "times_of",
    "to_arrow",
]
