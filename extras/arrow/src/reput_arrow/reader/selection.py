"""What a read of logs is asked for: plain values, which go to other processes as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from reput_tools.offline import SPLIT_SIZE

if TYPE_CHECKING:
    from reput.plugin import MessageFilter
    from reput_arrow.reader.queuebounds import QueueBounds

STORE_COLUMN: Final = "store"
"""Column that says which of the paths a row came from; where it is asked for."""
BROKER_COLUMN: Final = "broker"
"""Column that says which broker a row came from, by the name of its store's directory."""
DAMAGE_COLUMN: Final = "damage"
"""Column that says what is wrong, where damage becomes rows; null for sound rows."""
BATCH_ROWS: Final = 8_192


@attrs.frozen(kw_only=True)
class Selection:
    """Which messages of which logs are wanted."""

    paths: tuple[str, ...]
    topics: frozenset[str] | None = None
    queue_ids: frozenset[int] | None = None
    min_offset: int | None = None
    """Physical offset."""
    max_offset: int | None = None
    """Physical offset, exclusive."""
    min_queue_offset: int | None = None
    max_queue_offset: int | None = None
    """Exclusive."""
    bounds: QueueBounds | None = None
    """Queue offsets wanted by queue; all that there are when left out."""
    group: str | None = None
    """Consumer group from whose progress on messages are wanted, instead of ``bounds``."""
    start_timestamp: int | None = None
    """ms."""
    end_timestamp: int | None = None
    """ms, exclusive."""
    is_queued: bool = False
    """Whether only messages are wanted that a queue has: no prepared, no rolled back one."""
    key: str | None = None
    """Of messages of `topics`: UNIQ_KEY, or a word of KEYS."""
    filter: MessageFilter | None = None
    corrupt: str = "fail"
    """At damage: ``"fail"``, ``"skip"`` it, or make rows of it (``"report"``, ``"collect"``)."""
    check_crc: bool = False
    raw: bool = True
    """Whether bodies that a producer compressed stay as stored; their columns of flags, too."""
    split_size: int | None = SPLIT_SIZE
    """Bytes; None for whole files."""
    batch_rows: int = BATCH_ROWS
    prunes: bool = True
    """Whether queues and the key index may lead to the messages; the answer is the same."""

    @property
    def is_reporting(self) -> bool:
        """Whether damage becomes rows, with the column `DAMAGE_COLUMN`."""
        return self.corrupt in ("report", "collect")
