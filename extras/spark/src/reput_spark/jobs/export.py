"""Export logs to files, also on Spark: `export` of reput-arrow, with a `SparkEngine` to run it."""

from __future__ import annotations

from reput_arrow.export.exporter.exportjob import Exported, export

__all__ = ["Exported", "export"]
