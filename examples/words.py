"""An inverted index: which messages have a word. A plugin whose table has a row for each word."""

from __future__ import annotations

import re

import reput
from reput_table import Rows, Schema, TablePlugin


class WordsPlugin(TablePlugin):
    """The words of bodies, and the messages that have them."""

    name = "words"
    schema = Schema(columns={"word": str, "topic": str, "physical_offset": int}, indexes=[["word"]])

    def rows(self, batch: reput.DispatchBatch) -> Rows:
        """Return a row for each different word of each message."""
        words: list[str] = []
        rows: list[int] = []
        for row, body in enumerate(batch.body.as_bytes()):
            text = (body or b"").decode("utf-8", "replace").lower()
            found = sorted(set(re.findall(r"\w+", text)))
            words += found
            rows += [row] * len(found)
        return {
            "word": words,
            "topic": (batch.topic_code[rows], batch.topics),
            "physical_offset": batch.physical_offset[rows],
        }


def messages_with(store: reput.Store, word: str) -> list[reput.MessageView]:
    """Return the messages that have ``word``, oldest first."""
    query = "SELECT physical_offset FROM words WHERE word = ? ORDER BY physical_offset"
    found = store.plugin("words").query(query, [word.lower()])
    messages = [store.log.read_message(physical_offset) for (physical_offset,) in found]
    return [message for message in messages if message is not None]
