"""Counts messages and bytes by topic, tag and minute: a whole plugin."""

from __future__ import annotations

import reput
from reput_table import Rows, Schema, TablePlugin


class CounterPlugin(TablePlugin):
    """A row of counts for each topic, tag and minute."""

    name = "counter"
    schema = Schema(key={"topic": str, "tag": str, "minute": int}, sums=["messages", "body_size"])

    def rows(self, batch: reput.DispatchBatch) -> Rows:
        """Return a row for each message; those of one key are added up."""
        return {
            "topic": (batch.topic_code, batch.topics),
            "tag": batch.text("TAGS"),
            "minute": batch.store_timestamp // 60_000,
            "messages": 1,
            "body_size": batch.body.sizes,
        }

    @staticmethod
    def contract_messages() -> list[reput.Message]:
        """Return messages that `rows` makes rows of. The tests also send any other messages."""
        return [
            reput.Message("orders", b'{"price": 120}', tags="new", keys=["a1", "alice"]),
            reput.Message("orders", b'{"price": 80}', tags="paid", keys=["a2", "bob"]),
            reput.Message("payments", b'{"price": 80}', properties={"region": "eu"}),
        ]
