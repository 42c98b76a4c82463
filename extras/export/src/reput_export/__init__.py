"""Stores as Parquet, JSON lines and CSV, and stores made of these, on all cores and without Java.

`reput_export.exporting.export` and `reput_export.importing.import_` are what the commands call;
`writing` makes whole log files of rows, and is what Spark writes with, too.
"""

from __future__ import annotations
