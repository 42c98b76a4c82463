"""What an export is asked for: plain values, which go to the processes that do its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from reput_arrow.reader.selection import Selection

FORMS: Final = ("parquet", "jsonl", "csv")
PARTS: Final = ("topic", "queue", "day", "hour")
"""What directories of an export may be made by."""
COMPRESSIONS: Final = {
    "parquet": ("zstd", "none", "snappy", "gzip", "lz4"),
    "jsonl": ("none", "gzip", "zstd"),
    "csv": ("none", "gzip", "zstd"),
}
"""Of each form, the one when left out first."""


@attrs.frozen
class ExportRequest:
    """What every task of an export must know."""

    target: str
    """Directory of which the staging directory is a neighbour; see `files`."""
    staging: str
    selection: Selection
    columns: tuple[str, ...]
    form: str
    partition_by: tuple[str, ...]
    compression: str


@attrs.frozen
class Exported:
    """The written files."""

    message_count: int
    size: int
    """Bytes of the logs."""
    file_count: int
    written_size: int
    """Bytes of the files."""
    damage_count: int = 0
    """Places of the logs that were left out, as they are damaged."""
    increment: int | None = None
    """Number of the part that this export has added to the target; None for a whole export, and
    where nothing was new."""
