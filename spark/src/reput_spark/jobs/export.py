"""Export logs to files, also on Spark: `export` of reput-export, with a `SparkEngine` to run it."""

from __future__ import annotations

from reput_export.exporting.job import Exported, export

__all__ = ["Exported", "export"]
