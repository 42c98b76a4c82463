"""`QueryError`, and what DuckDB's errors say in one line."""

from __future__ import annotations

import re
import shlex

import attrs

from reput.errors import ReputError

_NO_TABLE = r"Catalog Error: Table with name (.+) does not exist"
_REFUSALS = ("BinderException", "CatalogException", "ParserException", "PermissionException")


@attrs.define(eq=False, slots=False)
class QueryError(ReputError, ValueError):
    """A query that cannot be answered."""

    reason: str
    is_refused: bool = True
    """Whether the query itself is wrong, and nothing was read; else reading or computing failed."""

    def __str__(self) -> str:
        return self.reason


def is_refusal(error: Exception) -> bool:
    """Whether DuckDB refuses a query before anything is read."""
    return type(error).__name__ in _REFUSALS


def reason_of(error: Exception) -> str:
    """Return what an error says, in one line: without the query and advice about settings."""
    table = re.match(_NO_TABLE, str(error))
    if table is not None:  # DuckDB would suggest one of its own tables
        topic = shlex.quote(table[1])
        return (
            f"no table {table[1]!r}: the only table is messages; if this is a topic, -t {topic} "
            "reads only its messages"
        )
    lines = []
    for line in str(error).splitlines():
        if line.startswith(("LINE ", "Possible solutions", "See http")):
            break
        if line.strip():
            lines.append(line.strip().rstrip("!."))
    found = "; ".join(lines) or type(error).__name__
    if type(error).__name__ == "OutOfMemoryException":
        found += "; --memory gives DuckDB more"
    return found
