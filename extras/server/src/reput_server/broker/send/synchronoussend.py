"""Takes the ordinary send at once: no task, no header object, an answer made from a pattern.

It has what `FastPathSwitch` leaves: all sends where the store is slow, or waits for its disk
without compiled kernels, and those for which a file has to be made. Whatever is not ordinary is
left to `SendHandlers`, which does all of it; an ordinary send is stored and answered here exactly
as there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from reput import Message
from reput_client.remoting import AnswerFrames, SendAnswer
from reput_server.broker.send.fastpathrequest import CODES, END, ordinary_send
from reput_server.broker.send.fastpathswitch import answer_frames
from reput_server.broker.send.messageproperties import SIZE_MAX, TRACED, MessageProperties
from reput_server.broker.send.sendhandlers import refused
from reput_server.errors import Refusal

if TYPE_CHECKING:
    from reput_client.remoting import Command
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.broker.send.fastpathrequest import FastPathRequest
    from reput_server.broker.send.fastpathtopics import FastPathTopics
    from reput_server.broker.send.sendbatcher import SendBatcher
    from reput_server.replication.replicaacks import Late
    from reput_server.wire.interfaces import Connection, Request
    from reput_server.wire.requestdispatcher import AtOnce

_UNIQUE: Final = "UNIQ_KEY\x01"


@attrs.define(eq=False, repr=False)
class SynchronousSends:
    """Takes sends on the event loop. What it says no to, a handler takes."""

    context: BrokerContext
    sends: SendBatcher
    topics: FastPathTopics
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
        self._answers = answer_frames()
        self.sends.after_round.append(self._answer_all)

    def by_code(self) -> Mapping[int, AtOnce]:
        """Return what takes requests at once, by request code."""
        return dict.fromkeys(CODES, self._take)

    def _take(self, request: Request) -> bool:
        """Take an ordinary send; False if it is none."""
        command = request.command
        ordinary = ordinary_send(command.code, command.fields)
        if ordinary is None or ordinary.queue_id >= self.topics.queue_count(ordinary.topic):
            return False
        found = self._properties(ordinary)
        if found is None:
            return False
        properties, key = found
        message = Message(
            ordinary.topic,
            command.body,
            ordinary.queue_id,
            None,
            None,
            properties,
            ordinary.flag,
            ordinary.sys_flag,
            ordinary.born_timestamp,
            request.peer.address,
            ordinary.reconsume_times,
        )
        sends = self.sends
        send = _SendAtOnce((message,), len(command.body), sends.clock(), self, request, key)
        try:
            sends.add(send)
        except Refusal as refusal:
            send.failed(refusal)
            self._answer_all()
        return True

    def _properties(self, ordinary: FastPathRequest) -> tuple[bytes, str] | None:
        """Return the properties as they are stored, and the key; None if they are too long."""
        key = ordinary.key
        found = ordinary.properties.encode("utf-8", "replace") + self._added
        if not key:
            key = self.context.new_key()
            found += f"{_UNIQUE}{key}{END}".encode()
        return (found, key) if len(found) <= SIZE_MAX else None

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

    def note(self, request: Request, answer: bytes | Command, *, is_passed: bool) -> None:
        """Keep an answer until the others of the round are there.

        Args:
            request: what it answers.
            answer: the frame or the header.
            is_passed: whether `let_pass_taken` was called for it.
        """
        done = self._done.get(request.peer)
        if done is None:
            done = self._done[request.peer] = _Done()
        done.count += 1
        done.size += request.size
        done.passed_count += is_passed
        if not request.command.is_one_way:
            done.answers.append(answer)

    def _answer_all(self) -> None:
        if self._done:
            found, self._done = self._done, {}
            for peer, done in found.items():
                peer.finish(done.count, done.size, done.answers, done.passed_count)


@attrs.define(eq=False, repr=False)
class _Done:
    """What one connection is answered after a round."""

    count: int = 0
    size: int = 0
    passed_count: int = 0
    answers: list[bytes | Command] = attrs.field(factory=list)


@attrs.define(eq=False, repr=False)
class _SendAtOnce:
    """A `reput_server.broker.send.sendbatcher.Send`."""

    messages: Sequence[Message]
    size: int
    since: float
    room: SynchronousSends
    request: Request
    key: str
    is_passed: bool = False

    @property
    def is_gone(self) -> bool:
        return False

    def placed(self) -> None:
        # It is in the log, and what comes next from the same peer comes after it.
        self.is_passed = True
        self.request.peer.let_pass_taken()

    def stored(self, places: Sequence[tuple[int, int]], late: Late | None) -> None:
        command, (message,) = self.request.command, self.messages
        queue_id = message.queue_id or 0
        if late is None:
            frame = self.room.frame_of(command.opaque, places[0], queue_id, self.key)
            self._note(frame)
            return
        header = SendAnswer(
            msg_id=self.room.message_id(places[0][1]),
            queue_id=queue_id,
            queue_offset=places[0][0],
            transaction_id=self.key,
        )
        answer = command.answer(late.code, header, remark=late.text, more=TRACED)
        self._note(answer)

    def failed(self, error: Exception) -> None:
        self._note(refused(self.request.command, error))

    def _note(self, answer: bytes | Command) -> None:
        self.room.note(self.request, answer, is_passed=self.is_passed)
