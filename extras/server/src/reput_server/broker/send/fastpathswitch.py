"""`FastPathSwitch`: whether sends are taken straight from connections' bytes.

`SynchronousSends` takes what is left, and does so for all where the store is slow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from reput_client.remoting import FRAME_SIZE_MAX, AnswerFrames, ResponseCode
from reput_server.broker.send.durableanswers import Kept
from reput_server.broker.send.fastpath import BODY_MAX, LaneSizes, SendFastPath, send_lane
from reput_server.broker.send.fastpathrequest import UNUSUAL
from reput_server.broker.send.messageproperties import TRACED, MessageProperties
from reput_server.wire.requestdispatcher import NOTHING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.broker.send.durableanswers import DurableAnswers
    from reput_server.broker.send.fastpath import Lane
    from reput_server.broker.send.fastpathtopics import FastPathTopics
    from reput_server.broker.send.sendbatcher import SendBatcher
    from reput_server.wire.interfaces import Connection, FromBytes, FromSockets, Socket

_UNUSUAL: Final = (*(part.encode() for part in UNUSUAL), b"INNER_", b"\0")
"""Of what is stored, `reput` acts on the last two."""


def answer_frames() -> AnswerFrames:
    """Return what makes the answers to sends that are stored."""
    names = ("msgId", "queueId", "queueOffset", "transactionId")
    return AnswerFrames.of(ResponseCode.SUCCESS, names, TRACED)


@attrs.define(eq=False, repr=False)
class FastPathSwitch:
    """Takes sends on the event loop, for all connections of a broker."""

    context: BrokerContext
    sends: SendBatcher
    topics: FastPathTopics
    durable: DurableAnswers | None = None
    """Keeps answers until messages are on disk; None if answers do not wait for that."""
    _lane: Lane | None = attrs.field(init=False, default=None)
    _made_of: tuple[Any, ...] = attrs.field(init=False, default=())
    """What the fast path was created with; each is another object once it has changed."""

    def take(self, peer: Connection, data: bytes | bytearray) -> FromBytes:
        """Take the ordinary sends with which bytes of a connection begin."""
        sends, durable = self.sends, self.durable
        now = sends.clock()
        lane = self._lane_at(now)
        if lane is None:
            return NOTHING
        answers, end, count, unknown = lane.take(data, 0, peer.address)
        while unknown is not None and (queue_count := self._queue_count(unknown)):
            try:
                lane.allow(unknown, queue_count)
            except MemoryError:  # stored sends are answered; the longer way takes the rest
                break
            more, end, more_count, unknown = lane.take(data, end, peer.address)
            answers, count = answers + more, count + more_count
        if count and durable is not None:
            sends.put_late(now)
            durable.keep([Kept(peer, count, end, answers)], now)
            return b"", end, count
        if count:
            sends.put_here(count, now)
        return answers, end, count

    def take_sockets(
        self, sockets: Sequence[Socket], peers: Sequence[Connection]
    ) -> FromSockets | None:
        """Read sockets of peers, and take the ordinary sends of their bytes; None if not now."""
        sends, durable = self.sends, self.durable
        now = sends.clock()
        lane = self._lane_at(now)
        if lane is None:
            return None
        count, rests, kept = lane.take_sockets(sockets, durable is None)
        if count and durable is None:
            sends.put_here(count, now)
        if kept and durable is not None:
            sends.put_late(now)
            durable.keep(
                [
                    Kept(peers[place], send_count, size, answers)
                    for place, send_count, size, answers in kept
                ],
                now,
            )
        return count, rests

    def _lane_at(self, now: float) -> Lane | None:
        """Return the fast path; None if sends have to be taken one by one now."""
        sends, durable = self.sends, self.durable
        if durable is None:
            return self._current() if sends.may_put_here(now) else None
        # The ordinary way refuses what is too much.
        lane = self._current() if sends.may_put_late(now) else None
        # The fast path in Python waits for the disk itself.
        return None if isinstance(lane, SendFastPath) else lane

    def _queue_count(self, topic: str) -> int:
        # Plugins see messages of some topics before they are stored.
        return 0 if topic in self._made_of[0].topics else self.topics.queue_count(topic)

    def _current(self) -> Lane | None:
        context, made_of = self.context, self._made_of
        puts, topics, options = context.store.direct_puts, context.plugin.topics, context.options
        if not (
            made_of
            and made_of[0] is puts
            and made_of[1] is topics.entries
            and made_of[2] is options.config
            and made_of[3] is context.packed_host
            and made_of[4] == options.permissions
        ):
            host = context.packed_host
            self._made_of = puts, topics.entries, options.config, host, options.permissions
            self._lane = None if puts is None else self._made(puts)
        return self._lane

    def _made(self, puts: Any) -> Lane:
        context, config = self.context, self.context.config
        body_max = min(BODY_MAX, context.store.config.max_message_size)
        sizes = LaneSizes(FRAME_SIZE_MAX, config.limits.header_bytes, body_max)
        return send_lane(puts, *lane_facts(puts, config.cluster, context.packed_host), sizes)


def lane_facts(
    puts: Any, cluster: str, packed_host: bytes
) -> tuple[bytes, list[bytes], list[bytes], bytes]:
    """Return the facts of a broker that `send_lane` needs: what it adds, leaves and answers."""
    added = MessageProperties(cluster, str).added.encode()
    names = [name.encode() + b"\x01" for name in sorted(puts.properties)]
    pieces = list(answer_frames().pieces)
    return added, [*_UNUSUAL, *names], pieces, packed_host.hex().upper().encode()
