"""Make the keys of a batch: select texts and hash them, for all messages at once.

Source: RocketMQ ``IndexService#buildIndex``: ``topic#key`` for ``UNIQ_KEY``, then for each word of
``KEYS``, and since 5.4 ``topic#T#tags``; messages that were rolled back have no keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from reput.engine import kernel
from reput.record import java_string_hash, java_string_hash_column, rows_by_width
from reput.record.layout import (
    PROPERTY_KEYS,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_KEY,
    TRANSACTION_ROLLBACK,
)
from reput_index.layout import KEY_SEPARATOR, TAG_PREFIX, TOPIC_END, key_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

    from reput.record import DispatchBatch, MessageView

_SEPARATOR: Final = ord(KEY_SEPARATOR)
_SEEDS_MAX = 1 << 16  # topics whose hashes are remembered
_ROWS_PER_TOPIC: Final = 16  # with fewer, finding out which topics occur takes less time


class HashedKeys(NamedTuple):
    """Keys in the order of their items, ``m`` of them."""

    hashes: npt.NDArray[np.int32]
    """``(m,)`` hashes as items state them."""
    physical_offsets: npt.NDArray[np.int64]
    """``(m,)`` of each key's message, ascending."""
    timestamps: npt.NDArray[np.int64]
    """``(m,)`` store time of each key's message, ms."""

    def first(self, count: int) -> HashedKeys:
        """Return the first ``count`` keys."""
        return HashedKeys(
            self.hashes[:count], self.physical_offsets[:count], self.timestamps[:count]
        )

    def behind(self, count: int) -> HashedKeys:
        """Return the keys without the first ``count``."""
        if count == 0:
            return self
        return HashedKeys(
            self.hashes[count:], self.physical_offsets[count:], self.timestamps[count:]
        )


class KeysOfBatch:
    """Finds the keys of batches, and remembers the hashes of topics.

    Args:
        adds_tags: whether the keys of a message include that of its tags; or a function that
            returns for which messages they do, as `reput_index.tagitems.WrittenTags`.
    """

    def __init__(
        self,
        adds_tags: bool
        | Callable[
            [DispatchBatch, npt.NDArray[np.bool_], HashedKeys], npt.NDArray[np.bool_]
        ] = False,
    ) -> None:
        self._adds_tags = adds_tags
        self._seeds: dict[str, int] = {}

    def __call__(self, batch: DispatchBatch) -> HashedKeys:
        """Return the keys of a batch."""
        adds_tags = self._adds_tags
        rolled_back = batch.transaction == TRANSACTION_ROLLBACK
        if adds_tags is False:
            return self._keys(batch, rolled_back)
        tags = batch.text(PROPERTY_TAGS)
        has_tags = (tags.sizes > 0) & ~rolled_back
        if adds_tags is not True and has_tags.any():
            keys = self._keys(batch, rolled_back)
            has_tags = adds_tags(batch, has_tags, keys)
            if not has_tags.any():
                return keys
        if not has_tags.any():
            return self._keys(batch, rolled_back)
        return self._keys(batch, rolled_back, (tags.starts, np.where(has_tags, tags.sizes, 0)))

    def _keys(
        self,
        batch: DispatchBatch,
        rolled_back: npt.NDArray[np.bool_],
        tags: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None,
    ) -> HashedKeys:
        unique, words = batch.text(PROPERTY_UNIQ_KEY), batch.text(PROPERTY_KEYS)
        unique_sizes, words_sizes = unique.sizes, words.sizes
        if rolled_back.any():
            unique_sizes = np.where(rolled_back, 0, unique_sizes)
            words_sizes = np.where(rolled_back, 0, words_sizes)
        starts, words_starts = unique.starts, words.starts
        codes, seeds = batch.topic_code, self._seeds_of(batch)
        offsets, timestamps = batch.physical_offset, batch.store_timestamp
        if tags is not None:
            # A second row of each message, whose topic ends with the prefix of tags.
            none = np.zeros_like(words_sizes)
            starts, unique_sizes = _in_turn(starts, tags[0]), _in_turn(unique_sizes, tags[1])
            words_starts, words_sizes = _in_turn(words_starts, none), _in_turn(words_sizes, none)
            codes = _in_turn(codes, codes + np.int32(len(seeds)))
            seeds = np.concatenate([seeds, _continued(seeds, TAG_PREFIX)])
            offsets, timestamps = _in_turn(offsets, offsets), _in_turn(timestamps, timestamps)
        return HashedKeys(
            *keys_of_texts(
                batch.window,
                starts,
                unique_sizes,
                words_starts,
                words_sizes,
                codes,
                seeds,
                offsets,
                timestamps,
            )
        )

    def _seeds_of(self, batch: DispatchBatch) -> npt.NDArray[np.int32]:
        """Return the hash of the text before the keys of each topic in ``batch.topics``.

        If ``batch`` has few rows for each topic, topics without rows have 0.
        """
        if len(self._seeds) > _SEEDS_MAX:
            self._seeds.clear()
        topics, codes, seeds = batch.topics, batch.topic_code, self._seeds
        table = np.zeros(len(topics), np.int32)
        wanted: Iterable[int] = range(len(topics))
        if len(topics) > len(codes) // _ROWS_PER_TOPIC:
            occurs = np.zeros(len(topics), np.bool_)
            occurs[codes] = True
            wanted = np.flatnonzero(occurs).tolist()
        for code in wanted:
            topic = topics[code]
            seed = seeds.get(topic)
            if seed is None:
                seed = seeds[topic] = java_string_hash(topic + TOPIC_END)
            table[code] = seed
        return table


def _in_turn(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the elements of two columns in turn."""
    return np.stack([first, second], axis=1).reshape(-1)


def _continued(java_hashes: npt.NDArray[np.int32], text: str) -> npt.NDArray[np.int32]:
    """Return the hashes of texts with ``text`` after them; wraps like Java's."""
    for letter in text:
        java_hashes = java_hashes * np.int32(31) + np.int32(ord(letter))
    return java_hashes


@kernel
def keys_of_texts(
    window: npt.NDArray[np.uint8],
    unique_starts: npt.NDArray[np.int64],
    unique_sizes: npt.NDArray[np.int64],
    words_starts: npt.NDArray[np.int64],
    words_sizes: npt.NDArray[np.int64],
    topic_code: npt.NDArray[np.int32],
    topic_seeds: npt.NDArray[np.int32],
    physical_offsets: npt.NDArray[np.int64],
    timestamps: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Make the keys of ``(n,)`` messages, as `HashedKeys` has them.

    Args:
        window: ``(w,)`` uint8, in which the texts stand.
        unique_starts: position of each message's unique key.
        unique_sizes: its bytes; 0 or less without a key.
        words_starts: position of the text of its other keys, words between separators.
        words_sizes: the text's bytes; 0 or less without a text.
        topic_code: index of its topic in ``topic_seeds``.
        topic_seeds: ``(t,)``, Java hash of the text before the keys of each topic.
        physical_offsets: where its record stands.
        timestamps: its store time.
    """
    seeds = topic_seeds[topic_code]
    has_unique = unique_sizes > 0
    word_rows, word_starts, word_sizes = _words(window, words_starts, words_sizes)
    unique_hashes = java_string_hash_column(window, unique_starts, unique_sizes, seeds)
    if word_rows is None:  # exactly one word in every message
        word_hashes = java_string_hash_column(window, word_starts, word_sizes, seeds)
        if has_unique.all():
            both = np.empty((len(seeds), 2), np.int32)
            both[:, 0], both[:, 1] = unique_hashes, word_hashes
            return (
                _stated(both.reshape(-1)),
                np.repeat(physical_offsets, 2),
                np.repeat(timestamps, 2),
            )
        word_rows = np.arange(len(seeds))
    else:
        word_hashes = java_string_hash_column(window, word_starts, word_sizes, seeds[word_rows])
    counts = np.bincount(word_rows, minlength=len(seeds)) + has_unique
    firsts = np.cumsum(counts) - counts
    hashes = np.empty(int(counts.sum()), np.int32)
    # The words of a message come after its unique key, in their order.
    number_of_word = np.arange(len(word_rows)) - np.searchsorted(word_rows, word_rows)
    hashes[firsts[word_rows] + has_unique[word_rows] + number_of_word] = word_hashes
    hashes[firsts[has_unique]] = unique_hashes[has_unique]
    return _stated(hashes), np.repeat(physical_offsets, counts), np.repeat(timestamps, counts)


def _stated(java_hashes: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return the hashes as items state them."""
    hashes = np.abs(java_hashes)
    hashes[hashes < 0] = 0  # the smallest integer has no positive counterpart
    return hashes


def _words(
    window: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64] | None, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return row, start and size of every word, ordered by row; None for rows if each has one."""
    parts: list[tuple[npt.NDArray[np.int64], ...]] = []
    is_plain = True
    for rows, matrix in rows_by_width(window, starts, sizes):
        row_sizes = sizes[rows]
        # A separator after the end of a row's text counts here, and is excluded below.
        is_separator = matrix == _SEPARATOR
        if not is_separator.any():  # the usual case; testing each row takes twenty times as long
            parts.append((rows, starts[rows], row_sizes))
            continue
        suspicious = is_separator.any(axis=1)
        is_plain = False
        plain = rows[~suspicious]
        parts.append((plain, starts[plain], sizes[plain]))
        parts.append(_split(starts, rows[suspicious], matrix[suspicious], row_sizes[suspicious]))
    if is_plain and len(parts) == 1 and len(parts[0][0]) == len(starts):
        return None, starts, sizes
    if not parts:
        empty = np.zeros(0, np.int64)
        return empty, empty, empty
    word_rows, word_starts, word_sizes = (np.concatenate(each) for each in zip(*parts, strict=True))
    if len(parts) > 1:
        order = np.lexsort((word_starts, word_rows))
        word_rows, word_starts, word_sizes = word_rows[order], word_starts[order], word_sizes[order]
    return word_rows, word_starts, word_sizes


def _split(
    starts: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    matrix: npt.NDArray[np.uint8],
    sizes: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], ...]:
    """Return row, start and size of the words of rows that hold separators."""
    # A column of "no letter" on either side: then every word has a start and a position after its
    # end.
    is_letter = np.zeros((len(rows), matrix.shape[1] + 2), np.int8)
    within = np.arange(matrix.shape[1]) < sizes[:, None]
    is_letter[:, 1:-1] = (matrix != _SEPARATOR) & within
    change = np.diff(is_letter, axis=1)
    at_row, begins = np.nonzero(change == 1)
    _, ends = np.nonzero(change == -1)
    found = rows[at_row]
    return found, starts[found] + begins, ends - begins


def hash_of(topic: str, key: str) -> int:
    """Return the hash under which a key of a topic is found."""
    return key_hash(java_string_hash(topic + TOPIC_END + key))


def keys_of_message(message: MessageView) -> list[str]:
    """Return the keys of one message, in the order of its items."""
    if message.transaction == TRANSACTION_ROLLBACK:
        return []
    properties = message.properties
    unique = properties.get(PROPERTY_UNIQ_KEY)
    words = properties.get(PROPERTY_KEYS, "").split(KEY_SEPARATOR)
    return [key for key in (unique, *words) if key]


def tag_key_of_message(message: MessageView) -> str | None:
    """Return the key of one message's tags; None without tags."""
    if message.transaction == TRANSACTION_ROLLBACK:
        return None
    tags = message.properties.get(PROPERTY_TAGS)
    return TAG_PREFIX + tags if tags else None
