"""Columns made of the properties of a batch: one property, its words, or all as a map."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reput.record.layout import KEY_SEPARATOR
from reput_arrow.propertymaps import maps_of_texts
from reput_arrow.textarrays import as_text, binaries

if TYPE_CHECKING:
    from reput.record import DispatchBatch


class TextColumns:
    """The properties of one batch, on their way to Arrow."""

    def __init__(self, batch: DispatchBatch) -> None:
        self._batch = batch

    def column(self, name: str) -> pa.StringArray:
        """Return the values of one property, null where a message lacks it."""
        return as_text(binaries(self._batch.text(name), self._batch.start))

    def words(self, name: str, kind: pa.ListType) -> pa.ListArray:
        """Return the words of one property, an empty list where a message lacks it."""
        text = self.column(name)
        if _is_one_word(text):
            offsets = np.zeros(len(text) + 1, np.int32)
            np.cumsum(pc.is_valid(text).to_numpy(zero_copy_only=False), out=offsets[1:])
            return pa.ListArray.from_arrays(pa.array(offsets), text.drop_null(), kind)
        trimmed = pc.utf8_trim(text, KEY_SEPARATOR)
        # A text of spaces has no words, but splitting it would give one empty word.
        has_words = pc.fill_null(pc.greater(pc.binary_length(trimmed), 0), False)
        none = pa.scalar(None, pa.string())
        given = pc.if_else(has_words, trimmed, none)
        words = pc.split_pattern_regex(given, f"{KEY_SEPARATOR}+")
        lengths = pc.fill_null(pc.list_value_length(words), 0).to_numpy(zero_copy_only=False)
        offsets = np.zeros(len(text) + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        return pa.ListArray.from_arrays(pa.array(offsets), pc.list_flatten(words), kind)

    def maps(self, kind: pa.MapType) -> pa.MapArray:
        """Return all properties of each message."""
        return maps_of_texts(self._batch.properties_text, kind)


def _is_one_word(text: pa.StringArray) -> bool:
    """Whether no text contains a space."""
    _, _, buffer = text.buffers()
    if buffer is None:
        return True
    return not (np.frombuffer(buffer, np.uint8) == ord(KEY_SEPARATOR)).any()
