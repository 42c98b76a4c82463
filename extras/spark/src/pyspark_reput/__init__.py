"""Where Spark looks for the data source ``reput``: it imports top-level modules of such names.

Nothing is imported here that takes time: Spark imports this on the first use of any data source.
"""

from __future__ import annotations

from typing import Any

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> Any:
    if name == "DefaultSource":
        from reput_spark.source.datasource import ReputDataSource

        return ReputDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
