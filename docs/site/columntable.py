"""The columns of messages in Arrow: ``python docs/site/columntable.py`` prints the tables.

The site has them where a page says ``<!-- columns that are read -->`` or
``<!-- columns that are written -->``. The rows are those by which `reput_arrow` builds its schemas.
"""

from __future__ import annotations

import sys

from markdowntext import code, inline, table

from reput_arrow import COLUMNS, INPUT_COLUMNS, schema_of

_USES = {
    "needed": "needed",
    "taken": "used if given",
    "placed": "used only in copies and imports",
    "derived": "ignored",
}


def columns() -> str:
    """Return a table with a row for each column that a log has."""
    rows = []
    for column in COLUMNS:
        kind = str(schema_of([column.name]).field(0).type)
        kind += " or null" if column.is_nullable else ""
        rows.append((code(column.name), inline(kind), inline(column.about)))
    return table(("column", "type", "meaning"), rows).rstrip()


def input_columns() -> str:
    """Return a table with a row for each column that a write accepts."""
    rows = (
        (code(each.name), each.kind, _USES[each.use], inline(each.about)) for each in INPUT_COLUMNS
    )
    return table(("column", "type", "use", "value"), rows).rstrip()


MARKS = {
    "<!-- columns that are read -->": columns,
    "<!-- columns that are written -->": input_columns,
}

if __name__ == "__main__":
    sys.stdout.write("\n\n".join(text() for text in MARKS.values()) + "\n")
