"""What an ordinary send is: one that no plugin and no rule of the broker has to see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from reput_client.remoting import RequestCode
from reput_server.broker.send.sendhandlers import PREPARED

END: Final = "\x02"
UNUSUAL: Final = (
    "TRAN_MSG", "DELAY", "TIMER_", "POP_CK", "_SYS_MSG_PRIORITY_", "__LITE_TOPIC",
    "CLUSTER\x01", "MSG_REGION\x01", "TRACE_ON\x01", "\x01\x02",
)  # fmt: skip
"""Names of properties that a plugin or the broker acts on, or parts of them, and empty values."""
_SMALL: Final = {str(number): number for number in range(4_096)}
"""Numbers as headers have them. A send with another one takes the longer way."""
_LONG_DIGITS: Final = 18
_UNIQUE: Final = "UNIQ_KEY\x01"


class _Names(NamedTuple):
    """Where the fields of a send stand."""

    group: str
    topic: str
    queue_id: str
    sys_flag: str
    born_timestamp: str
    flag: str
    properties: str
    reconsume_times: str
    batch: str
    queue_count: str
    most_reconsumed: str


CODES: Final = {
    RequestCode.SEND_MESSAGE: _Names(
        "producerGroup",
        "topic",
        "queueId",
        "sysFlag",
        "bornTimestamp",
        "flag",
        "properties",
        "reconsumeTimes",
        "batch",
        "defaultTopicQueueNums",
        "maxReconsumeTimes",
    ),
    RequestCode.SEND_MESSAGE_V2: _Names("a", "b", "e", "f", "g", "h", "i", "j", "m", "d", "l"),
}
"""Names of the fields by request code."""


class FastPathRequest(NamedTuple):
    """An ordinary send, but for its topic."""

    topic: str
    queue_id: int
    sys_flag: int
    flag: int
    born_timestamp: int
    reconsume_times: int
    properties: str
    """As the producer has sent them, but that the last one is ended."""
    key: str
    """The unique key; an empty text if there is none."""


def ordinary_send(code: int, fields: Mapping[str, str]) -> FastPathRequest | None:
    """Return what a send of a code in `CODES` says; None if it is not ordinary."""
    field, number, names = fields.get, _SMALL.get, CODES[RequestCode(code)]
    topic = field(names.topic)
    queue_id = number(field(names.queue_id, ""))
    sys_flag, flag = number(field(names.sys_flag, "")), number(field(names.flag, ""))
    reconsume_times = number(field(names.reconsume_times, "0"))
    born = field(names.born_timestamp, "")
    if (
        topic is None
        or queue_id is None
        or sys_flag is None
        or flag is None
        or reconsume_times is None
        or not (born.isdigit() and born.isascii() and len(born) <= _LONG_DIGITS)
        or field(names.group) is None
        or field(names.batch, "false") != "false"
        or field(names.queue_count, "4") not in _SMALL
        or field(names.most_reconsumed, "0") not in _SMALL
    ):
        return None
    text = field(names.properties, "")
    if text and not text.endswith(END):
        text += END
    for part in UNUSUAL:
        if part in text:
            return None
    key = _unique_key(text)
    if key is None:
        return None
    return FastPathRequest(
        topic, queue_id, sys_flag & ~PREPARED, flag, int(born), reconsume_times, text, key
    )


def _unique_key(properties: str) -> str | None:
    """Return the unique key, an empty text without one; None if it is not known at once."""
    at = properties.find(_UNIQUE)
    if at < 0:
        return ""
    if properties.find(_UNIQUE, at + 1) >= 0 or (at and properties[at - 1] != END):
        return None
    key = properties[at + len(_UNIQUE) : properties.find(END, at)]
    return key if key.isascii() else None
