"""Hypothesis strategies for messages, their parts, and logs of them.

They prefer what breaks stores: bodies that look like records, text outside of ASCII, empty values,
properties that hide in other properties' values. Strategies are made once: to make and check one
takes longer than to draw from it.
"""

from __future__ import annotations

import functools
from typing import Any

from hypothesis import strategies as st

from reput.record import Host, Message
from reput.record.layout import (
    BLANK_MAGIC,
    COMPRESSED,
    MAGIC_V1,
    MAGIC_V2,
    MULTI_TAGS,
    PROPERTY_KEYS,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_KEY,
    RETRY_PREFIX,
    TOPIC_SIZE_V1_MAX,
    TRANSACTION_COMMIT,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)
from reput_testing.logs.smalllog import FILE_SIZE, SmallLog

_TOPIC_CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%|_-"
_TEXT = st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02")
_SNIPPETS = st.sampled_from(
    [
        MAGIC_V1.to_bytes(4, "big"),
        MAGIC_V2.to_bytes(4, "big"),
        BLANK_MAGIC.to_bytes(4, "big"),
        bytes(8),
        b"\x01",
        b"\x02",
        b"TAGS\x01hidden\x02",
        b"\xff\xff\xff\xff",
        bytes.fromhex("0000005b daa320a7"),
    ]
)


@functools.cache
def topics(max_size: int = TOPIC_SIZE_V1_MAX) -> st.SearchStrategy[str]:
    """Topic names that a store accepts; a few of them come often, as a log has few topics."""
    few = st.sampled_from(["orders", "payments", "T", "order", f"{RETRY_PREFIX}group"])
    return few | st.text(_TOPIC_CHARACTERS, min_size=1, max_size=max_size)


@functools.cache
def bodies(max_size: int = 300) -> st.SearchStrategy[bytes]:
    """Message bodies: random bytes, and bytes that look like parts of a record."""
    traps = st.lists(_SNIPPETS | st.binary(max_size=16), max_size=8).map(b"".join)
    return st.one_of(st.just(b""), st.binary(max_size=max_size), traps.map(lambda b: b[:max_size]))


@functools.cache
def tags() -> st.SearchStrategy[str | None]:
    """Tags, among them none at all, empty ones and some that hash to negative numbers."""
    known = st.sampled_from([None, "", "A", "TagA||TagB", "polygenelubricants", "标签", "😀"])
    return known | st.text(_TEXT, max_size=30)


@functools.cache
def keys(max_size: int = 4) -> st.SearchStrategy[list[str] | None]:
    """Keys of one message: words, perhaps one of them twice."""
    spaceless = st.characters(exclude_categories=["Cs", "Zs", "Zl", "Zp", "Cc"])
    word = st.sampled_from(["k1", "k2", "订单"]) | st.text(spaceless, min_size=1, max_size=12)
    return st.none() | st.lists(word, max_size=max_size)


@functools.cache
def property_maps(max_size: int = 4) -> st.SearchStrategy[dict[str, str | None]]:
    """Further properties of a message, without names that the store uses itself."""
    own = (PROPERTY_TAGS, PROPERTY_KEYS)
    tricky = ["TAG", "TAGSS", "XTAGS", "KEY", PROPERTY_UNIQ_KEY, "region", "a"]
    name = st.sampled_from(tricky) | st.text(_TEXT, min_size=1, max_size=12)
    value = st.none() | st.sampled_from(["", "TAGS", "1", "值"]) | st.text(_TEXT, max_size=24)
    return st.dictionaries(name.filter(lambda text: text not in own), value, max_size=max_size)


def property_texts(max_size: int = 400) -> st.SearchStrategy[bytes]:
    """Encoded property texts as records of other writers may have them: well-formed and others."""
    parts = st.sampled_from([b"\x01", b"\x02", b"TAGS", b"KEYS", b"a", b"", "值".encode(), b"\xff"])
    tangled = st.lists(parts | st.binary(max_size=6), max_size=24).map(b"".join)
    return tangled.map(lambda text: text[:max_size])


@functools.cache
def hosts() -> st.SearchStrategy[Host]:
    """Addresses, IPv4 and IPv6, with ports."""
    return st.tuples(st.ip_addresses().map(str), st.integers(0, 65_535))


@functools.cache
def timestamps() -> st.SearchStrategy[int]:
    """Milliseconds since the epoch, most of them in this century."""
    return st.integers(1_500_000_000_000, 2_000_000_000_000) | st.sampled_from([0, 1, (1 << 62)])


@functools.cache
def system_flags() -> st.SearchStrategy[int]:
    """`Message.sys_flag` without transaction bits."""
    return st.sampled_from([0, 0, 0, COMPRESSED, MULTI_TAGS, COMPRESSED | 0x200])


@functools.cache
def _transactions() -> st.SearchStrategy[int]:
    bits = [0, 0, 0, TRANSACTION_PREPARED, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK]
    return st.sampled_from(bits)


@st.composite
def messages(
    draw: st.DrawFn,
    *,
    topic: st.SearchStrategy[str] | None = None,
    body: st.SearchStrategy[bytes] | None = None,
    max_queue_id: int = 3,
    plain: bool = False,
) -> Message:
    """Messages that a store accepts.

    Args:
        draw: given by Hypothesis.
        topic: names to draw from.
        body: bodies to draw from.
        max_queue_id: largest queue id.
        plain: leave out what plugins seldom look at: hosts, birth, flags and numbers.
    """
    sys_flag = draw(_transactions())
    rest: dict[str, Any] = {}
    if not plain:
        sys_flag |= draw(system_flags())
        rest = {
            "flag": draw(st.integers(-(1 << 31), (1 << 31) - 1)),
            "born_timestamp": draw(st.none() | timestamps()),
            "born_host": draw(st.none() | hosts()),
            "reconsume_times": draw(st.integers(0, 16)),
            "prepared_transaction_offset": draw(st.integers(0, 1 << 62)),
        }
    return Message(
        draw(topics() if topic is None else topic),
        draw(bodies() if body is None else body),
        queue_id=draw(st.integers(0, max_queue_id)),
        tags=draw(tags()),
        keys=draw(keys()),
        properties=draw(st.none() | property_maps()),
        sys_flag=sys_flag,
        **rest,
    )


@st.composite
def logs(
    draw: st.DrawFn,
    *,
    message: st.SearchStrategy[Message] | None = None,
    min_size: int = 0,
    max_size: int = 12,
    file_size: int = FILE_SIZE // 2,
) -> SmallLog:
    """Small commit logs, some of them of several files, with pauses between their messages.

    Args:
        draw: given by Hypothesis.
        message: messages to draw from; each must fit a file.
        min_size: fewest messages.
        max_size: most messages.
        file_size: bytes of one file.
    """
    log = SmallLog(file_size)
    for one, pause, roll in draw(_entries(message, min_size, max_size)):
        if roll and pause > 1_000:
            log.roll()
        log.append(one, after_ms=pause)
    return log


@functools.lru_cache(maxsize=16)
def _entries(
    message: st.SearchStrategy[Message] | None, min_size: int, max_size: int
) -> st.SearchStrategy[list[tuple[Message, int, bool]]]:
    """Return lists of messages, of pauses before them, and of whether a file may begin there."""
    pauses = st.sampled_from([0, 1, 1_000, 3_600_000, 86_400_000])
    entries = st.tuples(messages() if message is None else message, pauses, st.booleans())
    return st.lists(entries, min_size=min_size, max_size=max_size)


def cuts(log: SmallLog) -> st.SearchStrategy[set[int]]:
    """Places to cut the log into batches, for `SmallLog.batches`."""
    return st.sets(st.integers(0, max(len(log.starts) - 1, 0)))
