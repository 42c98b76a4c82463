"""`MessageProperties`: what a producer says of a message, and what a broker adds to it.

Source: RocketMQ ``SendMessageProcessor.sendMessage``, ``ReplyMessageProcessor``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import attrs

from reput.record import encode_properties, parse_properties
from reput_client.remoting import ResponseCode
from reput_server.errors import Refusal

TRACED: Final = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
"""Fields of each answer to a send, and properties of what is stored."""
KEY: Final = "UNIQ_KEY"
PRIORITY: Final = "_SYS_MSG_PRIORITY_"
"""Property of a message whose queue is its priority, since RocketMQ 5.4."""
SIZE_MAX: Final = 32_767
"""Bytes of all properties of a message."""

_END: Final = "\x02"
_TRANSACTION: Final = "__transactionId__"
_RECEIPT: Final = "POP_CK"
_PRIORITY_MAX: Final = (1 << 31) - 1
_OTHER_TYPES: Final = frozenset(
    ("DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "__SHARDINGKEY")
)
"""Properties that make a message delayed or ordered."""


@attrs.frozen(eq=False)
class MessageProperties:
    """Properties of messages as they are stored."""

    cluster: str
    new_key: Callable[[], str]
    """Makes the key of a message whose producer has given none."""
    _added: dict[bool, tuple[dict[str, str], str]] = attrs.field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        """Write once what every message gets."""
        for is_reply in (False, True):
            added = TRACED if is_reply else {"CLUSTER": self.cluster, **TRACED}
            self._added[is_reply] = added, encode_properties(added)

    @property
    def added(self) -> str:
        """The text added to properties that are in order and have none of it."""
        return self._added[False][1]

    def of(
        self, text: str, *, is_reply: bool = False, is_shared: bool = False
    ) -> tuple[bytes, dict[str, str]]:
        """Return properties as they are stored, once as bytes and once by name.

        A property without a value is none, and of two with one name the last one counts.

        Args:
            text: what the producer has sent.
            is_reply: whether the message is a reply, which belongs to no cluster.
            is_shared: whether they are of a batch, whose messages have a key each.

        Raises:
            Refusal: they would be too long.
        """
        sent = parse_properties(text.encode("utf-8", "replace"))
        added, added_text = self._added[is_reply]
        if _is_plain(text, sent, added):
            sent |= added
            written = f"{text}{added_text}"
        else:
            sent.pop(_RECEIPT, None)
            sent |= added
            if KEY not in sent and not is_shared:
                sent[KEY] = self.new_key()
            if sent.get("TRAN_MSG") == "true" and KEY in sent:
                sent[_TRANSACTION] = sent[KEY]
            written = encode_properties(sent)
        stored = written.encode("utf-8", "replace")
        if len(stored) > SIZE_MAX:
            found = f"properties of {len(stored)} bytes; {SIZE_MAX} at most"
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, f"the message is illegal: {found}")
        return stored, sent


def priority_of(properties: Mapping[str, str]) -> int | None:
    """Return the priority that a message has; None without one, or if it is not a number."""
    text = properties.get(PRIORITY, "")
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        return None
    priority = int(text)
    return priority if priority <= _PRIORITY_MAX else None


def is_of_other_type(properties: Mapping[str, str]) -> bool:
    """Whether a message with a priority is transactional, delayed or ordered, and nothing else.

    Source: RocketMQ ``TopicMessageType.parseFromMessageProperty``.
    """
    return properties.get("TRAN_MSG") == "true" or not _OTHER_TYPES.isdisjoint(properties)


def _is_plain(text: str, sent: Mapping[str, str], added: Mapping[str, str]) -> bool:
    """Whether to properties something need only be added."""
    return (
        KEY in sent
        and _RECEIPT not in sent
        and "TRAN_MSG" not in sent
        and sent.keys().isdisjoint(added)
        and text.endswith(_END)
        and text.count(_END) == len(sent)  # none twice, and none without a value
    )
