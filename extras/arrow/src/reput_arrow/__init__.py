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

from typing import TYPE_CHECKING

from reput.lazyexports import lazy_exports

if TYPE_CHECKING:
    from reput_arrow.inputcolumns import INPUT_COLUMNS as INPUT_COLUMNS
    from reput_arrow.inputcolumns import InputColumn as InputColumn
    from reput_arrow.inputcolumns import check_schema as check_schema
    from reput_arrow.inputcolumns import columns_of as columns_of
    from reput_arrow.inputcolumns import hosts_of as hosts_of
    from reput_arrow.inputcolumns import times_of as times_of
    from reput_arrow.logschema import COLUMNS as COLUMNS
    from reput_arrow.logschema import Column as Column
    from reput_arrow.logschema import schema_of as schema_of
    from reput_arrow.recordbatches import to_arrow as to_arrow
    from reput_arrow.scanner.scan import scan as scan
    from reput_arrow.scanner.scan import table as table
    from reput_arrow.scanner.scanstream import Scan as Scan

# pyarrow takes a fifth of a second: commands that only list their options go without it.
else:
    __getattr__, __dir__ = lazy_exports(__name__)
