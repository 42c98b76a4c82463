"""`PopRequest`: a request for messages of a group."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from reput_consumer.group.membersettings import LATEST, Start
from reput_consumer.selectors import Selector


@attrs.frozen(kw_only=True)
class PopRequest:
    """A request for messages of a group."""

    group: str
    topic: str
    selector: Selector = attrs.field(factory=Selector)
    max_count: int = 32
    max_bytes: int = 64 << 20
    """Bytes of records after which no more messages are taken."""
    invisible_ms: int = 60_000
    start: Start = attrs.field(factory=lambda: Start(LATEST))
    """Where the group begins in queues of which it has no offset yet."""
    attempt: str = ""
    """Of an ordered group: the same text again gets the same batch again."""
    is_ordered: bool | None = None
    """Whether each queue is read one batch after the other; None: as the group's settings say."""
    queue_id: int | None = None
    """The queue to take from; None for any."""
    keep: Callable[[], bool] | None = None
    """Called when a message would expire, on any thread: whether the consumer still has it, so that
    its deadline moves by a minute, up to three hours after it was handed out."""
    max_attempts: int | None = None
    """How often a message is handed out at most; None for the group's setting."""
    nonce: int | None = None
    """Names all that several requests hand out together; see `PopService.new_nonce`."""
