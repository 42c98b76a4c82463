"""Columns made of the properties of a batch: one property, its words, or all as a map."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reput.record import parse_properties
from reput.record.layout import KEY_SEPARATOR, PROPERTY_TAGS
from reput_arrow.entries import PropertyEntries
from reput_arrow.texts import as_text, binaries

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch

__all__ = ["TextColumns"]


class TextColumns:
    """The properties of one batch, on their way to Arrow.

    When all properties are wanted, all borders are found anyway, and single properties use them.
    Otherwise the batch is searched for each property by name. Texts of other writers without clear
    borders are read row by row, by the rules of `reput.record.parse_properties`.
    """

    def __init__(self, batch: DispatchBatch, *, has_all: bool) -> None:
        self._batch = batch
        self._has_all = has_all

    @cached_property
    def _texts(self) -> pa.BinaryArray:
        return binaries(self._batch.properties_text, self._batch.start)

    @cached_property
    def _entries(self) -> PropertyEntries | None:
        return PropertyEntries.of(self._texts) if self._has_all else None

    def column(self, name: str) -> pa.StringArray:
        """Return the values of one property, null where a message lacks it."""
        if self._entries is None:
            return as_text(binaries(self._batch.text(name), self._batch.start))
        return as_text(binaries(self._entries.text(name), self._entries.text_starts))

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

    def tags_code(self) -> npt.NDArray[np.int64]:
        """Return ``(n,)`` hash of the tags, or the value that a plugin has put in its place."""
        if self._entries is None or self._batch.holds("tags_code"):
            return self._batch.tags_code.copy()
        return self._entries.text(PROPERTY_TAGS).java_hash().astype(np.int64)

    def maps(self, kind: pa.MapType) -> pa.MapArray:
        """Return all properties of each message."""
        if self._entries is not None:
            return self._entries.maps(kind)
        rows = [list(parse_properties(text).items()) for text in self._texts.to_pylist()]
        return pa.array(rows, kind)


def _is_one_word(text: pa.StringArray) -> bool:
    """Whether no text contains a space."""
    _, _, buffer = text.buffers()
    if buffer is None:
        return True
    return not (np.frombuffer(buffer, np.uint8) == ord(KEY_SEPARATOR)).any()
