"""The log as Arrow: each batch becomes a `pyarrow.RecordBatch`, without a loop over its rows.

    import reput
    from reput.arrow import to_arrow

    with reput.open(path, "r", plugins=()) as store:
        for batch in store.scan():
            print(to_arrow(batch, ["topic", "keys", "body"]))

Needs pyarrow, the extra ``reput[arrow]``. Spark, Parquet and DataFrame libraries take it from here.
"""

from __future__ import annotations

from reput.arrow.batches import to_arrow
from reput.arrow.fields import COLUMNS, Column, schema_of

__all__ = ["COLUMNS", "Column", "schema_of", "to_arrow"]
