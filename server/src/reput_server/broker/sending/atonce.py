"""Takes the ordinary send at once: no task, no header object, an answer made from a pattern.

Whatever is not ordinary is left to `SendHandlers`, which does all of it; an ordinary send is stored
and answered here exactly as there. What a send has to pass stands in `broker.sending.checks`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs

from reput import Message
from reput_remoting import AnswerFrames, RequestCode, ResponseCode, Send, SendAnswer, SendShort
from reput_server.broker.sending.checks import checked_destination
from reput_server.broker.sending.handlers import PREPARED, refused
from reput_server.broker.sending.properties import SIZE_MAX, TRACED, MessageProperties
from reput_server.broker.topics import RETRY_PREFIX
from reput_server.errors import Refusal

if TYPE_CHECKING:
    from reput_remoting import Command
    from reput_server.broker.context import BrokerContext
    from reput_server.broker.sending.together import SendsTogether
    from reput_server.replicas.waits import Late
    from reput_server.wire.answering import AtOnce
    from reput_server.wire.contract import Connection, Request

__all__ = ["SendsAtOnce"]

_SMALL: Final = {str(number): number for number in range(4_096)}
"""Numbers as headers have them. A send with another one takes the longer way."""
_LONG_DIGITS: Final = 18
_UNIQUE: Final = "UNIQ_KEY\x01"
_UNUSUAL: Final = (
    "TRAN_MSG", "DELAY", "TIMER_", "POP_CK",
    "CLUSTER\x01", "MSG_REGION\x01", "TRACE_ON\x01", "\x01\x02",
)  # fmt: skip
"""Names of properties that a plugin or the broker acts on, or parts of them, and empty values."""
_END: Final = "\x02"


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


_SHORT: Final = _Names("a", "b", "e", "f", "g", "h", "i", "j", "m", "d", "l")
_LONG: Final = _Names(
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
)


@attrs.define(eq=False)
class SendsAtOnce:
    """Takes sends on the event loop. What it says no to, a handler takes."""

    context: BrokerContext
    sends: SendsTogether
    _queues: dict[str, tuple[object, int, int]] = attrs.field(init=False, factory=dict)
    """By topic: its settings and the broker's permissions when it was checked, and how many queues
    it has; 0 if it is shut."""
    _added: bytes = attrs.field(init=False)
    """What is added to each message's properties."""
    _host: tuple[bytes, str] = attrs.field(init=False, default=(b"", ""))
    """The broker's host, and how message ids begin with it."""
    _done: dict[Connection, _Done] = attrs.field(init=False, factory=dict)
    _answers: AnswerFrames = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Make what is the same in all sends."""
        properties = MessageProperties(self.context.config.cluster, self.context.new_key)
        self._added = properties.added.encode()
        names = ("msgId", "queueId", "queueOffset", "transactionId")
        self._answers = AnswerFrames.of(ResponseCode.SUCCESS, names, TRACED)
        self.sends.after_round.append(self._answer_all)

    def by_code(self) -> Mapping[int, AtOnce]:
        """Return what takes requests at once, by request code."""
        return {
            RequestCode.SEND_MESSAGE: self._take_long,
            RequestCode.SEND_MESSAGE_V2: self._take_short,
        }

    def _take_short(self, request: Request) -> bool:
        return self._take(request, _SHORT)

    def _take_long(self, request: Request) -> bool:
        return self._take(request, _LONG)

    def _take(self, request: Request, names: _Names) -> bool:
        """Take an ordinary send; False if it is none."""
        command, field = request.command, request.command.fields.get
        topic, number = field(names.topic), _SMALL.get
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
            return False
        text = field(names.properties, "")
        found = self._properties(text)
        if found is None or queue_id >= self._queue_count(topic, names, request):
            return False
        properties, key = found
        message = Message(
            topic,
            command.body,
            queue_id,
            None,
            None,
            properties,
            flag,
            sys_flag & ~PREPARED,
            int(born),
            request.peer.address,
            reconsume_times,
        )
        sends = self.sends
        send = _SendAtOnce((message,), len(command.body), sends.clock(), self, request, key)
        try:
            sends.add(send)
        except Refusal as refusal:
            send.failed(refusal)
            self._answer_all()
        return True

    def _properties(self, text: str) -> tuple[bytes, str] | None:
        """Return the properties as they are stored, and the key; None if they are not ordinary."""
        if text and not text.endswith(_END):
            text += _END
        for part in _UNUSUAL:
            if part in text:
                return None
        key = _unique_key(text)
        if key is None:
            return None
        found = text.encode("utf-8", "replace") + self._added
        if not key:
            key = self.context.new_key()
            found += f"{_UNIQUE}{key}{_END}".encode()
        return (found, key) if len(found) <= SIZE_MAX else None

    def _queue_count(self, topic: str, names: _Names, request: Request) -> int:
        """Return how many queues of a topic can be sent to without any question."""
        # The table hands out another object once the settings have changed.
        settings = self.context.plugin.topics.get(topic)
        permissions = self.context.options.permissions
        known = self._queues.get(topic)
        if known is not None and known[0] is settings and known[1] == permissions:
            return known[2]
        if settings is None:
            self._queues.pop(topic, None)  # so that names that peers make up take no memory
            return 0
        count = self._checked(names, request)
        self._queues[topic] = settings, permissions, count
        return count

    def _checked(self, names: _Names, request: Request) -> int:
        context = self.context
        header = request.command.header(SendShort if names is _SHORT else Send)
        send: Send = header.spelled_out() if isinstance(header, SendShort) else header
        topic = context.topics.known(send.topic)
        if topic is None or send.topic.startswith(RETRY_PREFIX) or not context.is_writable:
            return 0
        try:
            checked_destination(context, attrs.evolve(send, queue_id=0))
        except Refusal:
            return 0
        return max(topic.read_queues, topic.write_queues)

    # ------------------------------------------------------------------ answers

    def message_id(self, physical_offset: int) -> str:
        """Return the same as `BrokerContext.message_id`."""
        host = self.context.packed_host
        if self._host[0] is not host:
            self._host = host, host.hex().upper()
        return f"{self._host[1]}{physical_offset:016X}"

    def frame_of(self, opaque: int, place: tuple[int, int], queue_id: int, key: str) -> bytes:
        """Return the answer to a send that is stored at ``place``."""
        found = self.message_id(place[1]), str(queue_id), str(place[0]), key
        return self._answers.frame(opaque, *found)

    def note(self, request: Request, answer: bytes | Command) -> None:
        """Keep an answer until the others of the round are there."""
        done = self._done.get(request.peer)
        if done is None:
            done = self._done[request.peer] = _Done()
        done.count += 1
        done.size += request.size
        if not request.command.is_one_way:
            done.answers.append(answer)

    def _answer_all(self) -> None:
        if self._done:
            found, self._done = self._done, {}
            for peer, done in found.items():
                peer.finish(done.count, done.size, done.answers)


@attrs.define(eq=False)
class _Done:
    """What one connection is answered after a round."""

    count: int = 0
    size: int = 0
    answers: list[bytes | Command] = attrs.field(factory=list)


@attrs.define(eq=False)
class _SendAtOnce:
    """A `reput_server.broker.sending.together.Send`."""

    messages: Sequence[Message]
    size: int
    since: float
    room: SendsAtOnce
    request: Request
    key: str

    @property
    def is_gone(self) -> bool:
        return False

    def stored(self, places: Sequence[tuple[int, int]], late: Late | None) -> None:
        command, (message,) = self.request.command, self.messages
        if late is None:
            frame = self.room.frame_of(command.opaque, places[0], message.queue_id, self.key)
            self.room.note(self.request, frame)
            return
        header = SendAnswer(
            msg_id=self.room.message_id(places[0][1]),
            queue_id=message.queue_id,
            queue_offset=places[0][0],
            transaction_id=self.key,
        )
        answer = command.answer(late.code, header, remark=late.text, more=TRACED)
        self.room.note(self.request, answer)

    def failed(self, error: Exception) -> None:
        self.room.note(self.request, refused(self.request.command, error))


def _unique_key(properties: str) -> str | None:
    """Return the unique key, an empty text without one; None if it cannot be told at once."""
    at = properties.find(_UNIQUE)
    if at < 0:
        return ""
    if properties.find(_UNIQUE, at + 1) >= 0 or (at and properties[at - 1] != _END):
        return None
    key = properties[at + len(_UNIQUE) : properties.find(_END, at)]
    return key if key.isascii() else None
