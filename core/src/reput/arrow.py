"""The log as Arrow tables and streams; every name here comes from the distribution reput-arrow.

`reput.arrow.table` and `reput.arrow.scan` read messages, `reput.arrow.to_arrow` makes Arrow of one
batch, and `reput.arrow.columns_of` goes back. The extra ``reput[arrow]`` installs it; a type
checker finds the names in ``reput_arrow``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reput.doors import door

_NAMES = (
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
)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...

else:
    __getattr__, __dir__ = door(__name__, {}, elsewhere=dict.fromkeys(_NAMES, "reput_arrow"))
