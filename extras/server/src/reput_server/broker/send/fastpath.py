"""`SendFastPath`: stores and answers the ordinary sends that a connection's bytes begin with.

This is the whole way of such a send: from the bytes of a connection to the log, and to the bytes of
the answers. Nothing waits for anything, and whatever is not ordinary stays where it is.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from reput import Message
from reput.engine import kernel
from reput.errors import PluginError, PutError
from reput_client.remoting import plain_command
from reput_server.broker.send.fastpathrequest import CODES, ordinary_send
from reput_server.broker.send.messageproperties import SIZE_MAX
from reput_server.wire.interfaces import Rest, Socket
from reput_server.wire.sockets import written_size

if TYPE_CHECKING:
    from reput_client.remoting import Command
    from reput_server.broker.send.fastpathrequest import FastPathRequest

BODY_MAX: Final = 64 << 10
"""Bytes of a body that is copied while nobody else does anything."""
_PLAIN_KEY: Final = re.compile(r"[ !#-\[\]-~]*")
"""Keys that are the same in JSON."""
_HOSTS_V6: Final = 0x30
"""Bits of system flags that say how long the addresses in a record are."""
_ONE_WAY: Final = 2
_READ_SIZE: Final = 256 << 10
"""Bytes that are read of a connection in one turn, and after which a turn ends."""


class LaneSizes(NamedTuple):
    """How large what is taken may be, bytes."""

    frame_max: int
    header_max: int
    body_max: int


Kept = tuple[int, int, int, bytes]
"""Of a socket's place in a list: how many sends were taken, the size of their frames, and their
answers, which were not written."""
TakenOfSockets = tuple[int, list[Rest], list[Kept]]
"""How many sends were taken of several sockets, what is left of these, and answers to be kept."""
Taken = tuple[bytes, int, int, str | None]
"""Answers; where what was not taken begins; how many sends were taken; and the topic of the send
that comes next, if only that topic is not known."""


class Lane(Protocol):
    """Takes sends of all connections of one broker. Used on the event loop."""

    def allow(self, topic: str, queue_count: int) -> None:
        """Take sends to a topic from now on: to queues below ``queue_count``."""
        ...

    def take(self, data: bytes | bytearray, begin: int, address: tuple[str, int], /) -> Taken:
        """Store the ordinary sends with which ``data`` goes on at ``begin``, and answer them.

        Args:
            data: bytes of a connection.
            begin: where a frame begins.
            address: of the peer. Nothing is taken of one that has no IPv4 address.
        """
        ...

    def take_sockets(self, sockets: Sequence[Socket], answers: bool, /) -> TakenOfSockets:
        """Read each socket once, and store the ordinary sends with which its bytes begin.

        Nothing waits. A socket that has no bytes, or all of whose bytes were taken and answered,
        has no rest. The call ends after one that has bytes left, as the store may have no space at
        once, and after some hundred KiB; sockets that it has not come to have no rest.

        Args:
            sockets: to read.
            answers: whether the sends are answered here. If not, the answers are kept.
        """
        ...


class SendFastPath:
    """A `Lane` (fast path of sends), step by step: the specification of the compiled one."""

    def __init__(
        self,
        puts: Any,
        added: bytes,
        unusual: Sequence[bytes],
        pieces: Sequence[bytes],
        message_host: bytes,
        sizes: LaneSizes,
    ) -> None:
        """See `send_lane`."""
        self._puts = puts
        self._added = added
        self._unusual = unusual
        self._pieces = pieces
        self._message_host = message_host
        self._sizes = sizes
        self._queue_counts: dict[str, int] = {}

    def allow(self, topic: str, queue_count: int) -> None:
        """See `Lane.allow`."""
        self._queue_counts[topic] = queue_count

    def take(self, data: bytes | bytearray, begin: int, address: tuple[str, int], /) -> Taken:
        """See `Lane.take`."""
        answers: list[bytes] = []
        count, unknown, end = 0, None, begin
        sizes = {"frame_size_max": self._sizes.frame_max, "header_size_max": self._sizes.header_max}
        while _is_ipv4(address[0]):
            found = plain_command(data, end, CODES, **sizes)
            if found is None:
                break
            command, following = found
            send = self._ordinary(command)
            if send is None:
                break
            queue_count = self._queue_counts.get(send.topic)
            if queue_count is None:
                unknown = send.topic
                break
            answer = self._stored(command, send, address) if send.queue_id < queue_count else None
            if answer is None:
                break
            if not command.flag:
                answers.append(answer)
            count, end = count + 1, following
        return b"".join(answers), end, count, unknown

    def take_sockets(self, sockets: Sequence[Socket], answers: bool, /) -> TakenOfSockets:
        """See `Lane.take_sockets`."""
        count = size = 0
        rests: list[Rest] = []
        kept: list[Kept] = []
        for place, (descriptor, address) in enumerate(sockets):
            try:
                data = os.read(descriptor, _READ_SIZE)
            except (BlockingIOError, InterruptedError):
                continue
            except OSError:  # nothing more comes, and its transport finds out why
                data = b""
            frames, end, taken, _ = self.take(data, 0, address)
            count += taken
            unwritten = b""
            if answers:
                unwritten = frames[written_size(descriptor, frames) :]
            elif taken:
                kept.append((place, taken, end, frames))
            if not data or end < len(data) or unwritten:
                rests.append((place, data[end:], unwritten))
            size += len(data)
            if end < len(data) or size >= _READ_SIZE:
                break
        return count, rests, kept

    def _ordinary(self, command: Command) -> FastPathRequest | None:
        if command.flag & ~_ONE_WAY or len(command.body) > self._sizes.body_max:
            return None
        send = ordinary_send(command.code, command.fields)
        if send is None or send.sys_flag & _HOSTS_V6 or not send.properties:
            return None
        text = send.properties.encode()
        is_usual = (
            "UNIQ_KEY\x01" in send.properties
            and _PLAIN_KEY.fullmatch(send.key)
            and len(text) + len(self._added) <= SIZE_MAX
            and not any(part in text for part in self._unusual)
        )
        return send if is_usual else None

    def _stored(
        self, command: Command, send: FastPathRequest, address: tuple[str, int]
    ) -> bytes | None:
        """Store a send, and return its answer; None if it is not stored."""
        message = Message(
            send.topic,
            command.body,
            send.queue_id,
            None,
            None,
            send.properties.encode() + self._added,
            send.flag,
            send.sys_flag,
            send.born_timestamp,
            address,
            send.reconsume_times,
        )
        receipt = None
        # Nothing is stored then; the longer way tries again, and its answer names the fault.
        with contextlib.suppress(PutError, PluginError):
            receipt = self._puts.put(message)
        if receipt is None:
            return None
        host, (first, second, third, fourth, fifth, last) = self._message_host, self._pieces
        texts = (
            b"%s%s%016X" % (first, host, receipt.physical_offset),
            b"%s%d" % (second, send.queue_id),
            b"%s%d" % (third, receipt.queue_offset),
            b"%s%s" % (fourth, send.key.encode()),
            b"%s%d%s" % (fifth, command.opaque, last),
        )
        header = b"".join(texts)
        return b"".join(
            ((len(header) + 4).to_bytes(4, "big"), len(header).to_bytes(4, "big"), header)
        )


@kernel
def send_lane(
    puts: Any,
    added: bytes,
    unusual: Sequence[bytes],
    pieces: Sequence[bytes],
    message_host: bytes,
    sizes: LaneSizes,
) -> Lane:
    """Return what takes sends, without any topic.

    Args:
        puts: `reput.Store.direct_puts`.
        added: what each message's properties get, encoded.
        unusual: a send with one of these in its property text is not ordinary.
        pieces: `AnswerFrames.pieces` of an answer with message id, queue id, queue offset and key.
        message_host: how message ids begin.
        sizes: how large what is taken may be.
    """
    return SendFastPath(puts, added, unusual, pieces, message_host, sizes)


def _is_ipv4(host: str) -> bool:
    try:
        socket.inet_pton(socket.AF_INET, host)
    except OSError:
        return False
    return True
