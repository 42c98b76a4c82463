"""Stores as Parquet, JSON lines and CSV, and stores made of these, on all cores and without Java.

`export` writes files, whole or what is new alone, and `import_` makes a store of them. The room
`writing` makes whole log files of rows, and is what Spark writes with, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.doors import door

if TYPE_CHECKING:
    from reput_export.errors import CodedError as CodedError
    from reput_export.exporting.job import export as export
    from reput_export.exporting.order import Exported as Exported
    from reput_export.importing.job import import_ as import_
    from reput_export.writing.publish.publishing import Published as Published

_HOMES = {
    "CodedError": "errors",
    "Exported": "exporting.order",
    "Published": "writing.publish.publishing",
    "export": "exporting.job",
    "import_": "importing.job",
}

__all__ = [*_HOMES]

if not TYPE_CHECKING:  # so that mypy reports a name that is not listed
    __getattr__, __dir__ = door(__name__, _HOMES)
