"""Stores as Parquet, JSON lines and CSV, and stores made of these, on all cores and without Java.

`export` writes files: all messages, or only new ones. `import_` creates a store from such files;
it writes log files with `reput_arrow.logwriter`, as Spark does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.lazyexports import lazy_exports

if TYPE_CHECKING:
    from reput_arrow.codederrors import CodedError as CodedError
    from reput_arrow.export.exporter.exportjob import export as export
    from reput_arrow.export.exporter.exportrequest import Exported as Exported
    from reput_arrow.export.importer.importjob import import_ as import_
    from reput_arrow.logwriter.publication.publish import Published as Published
else:
    __getattr__, __dir__ = lazy_exports(__name__)
