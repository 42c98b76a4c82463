"""Plugins that are a SQL table: for an index without a file format.

    from reput_table import Schema, TablePlugin

    class Words(TablePlugin):
        schema = Schema(columns={"word": str, "physical_offset": int}, indexes=[["word"]])

        def rows(self, batch):
            ...

Rows, and how far the log is in the table, are committed together in one SQLite file. Backfill,
cuts, trims, damage, rebuilds and readers in other processes are taken care of.
"""

from __future__ import annotations

from reput_table.errors import QueryError
from reput_table.plugin import TablePlugin
from reput_table.rowcolumns import Rows
from reput_table.schema import Schema

__all__ = ["QueryError", "Rows", "Schema", "TablePlugin"]
