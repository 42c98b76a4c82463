"""The log as Arrow: each batch becomes a `pyarrow.RecordBatch`, without a loop over its rows.

`columns_of` is the way back: it turns Arrow columns into messages to put.

    import reput
    from reput_arrow import to_arrow

    with reput.open(path, "r", plugins=()) as store:
        for batch in store.scan():
            print(to_arrow(batch, ["topic", "keys", "body"]))

`scan` and `table` read what is wanted of a store, or of several, by topic, queue and time:

    from reput_arrow import scan

    polars.DataFrame(scan(path, topic="orders", since="2026-01-31", columns=["keys", "body"]))

Needs pyarrow, the extra ``reput[arrow]``. Spark, Parquet and DataFrame libraries read the result.
"""

from __future__ import annotations

from reput_arrow.inputcolumns import (
    INPUT_COLUMNS,
    InputColumn,
    check_schema,
    columns_of,
    hosts_of,
    times_of,
)
from reput_arrow.logschema import COLUMNS, Column, schema_of
from reput_arrow.recordbatches import to_arrow
from reput_arrow.scanner.scan import scan, table
from reput_arrow.scanner.scanstream import Scan

__all__ = [
    "COLUMNS",
    "INPUT_COLUMNS",
    "Column",
    "InputColumn",
    "Scan",
    "check_schema",
    "columns_of",
    "hosts_of",
    "scan",
    "schema_of",
    "table",
    "times_of",
    "to_arrow",
]
