"""A client of one connection, for tests of what goes over it: no retries, no routes, no threads."""

from __future__ import annotations

import itertools
import socket
from typing import Self

import attrs

from reput.record import MessageView
from reput_client.remoting import Command, FrameReader, HeaderKind, Send, SendShort, encode_frame


class WirePeer:
    """Sends requests as they are given, and returns the answers as they come."""

    def __init__(self, address: tuple[str, int], timeout: float = 20.0) -> None:
        self.socket = socket.create_connection(address, timeout)
        # As clients do: a request does not wait until the one in front of it was noticed.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = FrameReader()
        self._numbers = itertools.count(1)
        self.told: list[Command] = []
        """Requests of the server that came before an answer."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    @property
    def last_kind(self) -> HeaderKind:
        """How the header of the last command was written."""
        return self._reader.last_kind

    def send(self, command: Command, kind: HeaderKind = HeaderKind.JSON) -> Command:
        """Send a request, with a number of its own; return it."""
        numbered = attrs.evolve(command, opaque=next(self._numbers))
        self.socket.sendall(encode_frame(numbered, kind))
        return numbered

    def ask(self, code: int, header: object = None, **options: object) -> Command:
        """Send a request and return its answer; requests that come meanwhile go to `told`."""
        return self.answer_to(self.send(Command.request(code, header, **options)))

    def answer_to(self, sent: Command) -> Command:
        """Return the answer to a request; requests that come meanwhile go to `told`."""
        while True:
            command = self.receive()
            if command.is_response and command.opaque == sent.opaque:
                return command
            self.told.append(command)

    def receive(self) -> Command:
        """Return the next command of the server.

        Raises:
            ConnectionError: the server has closed the connection.
        """
        while (command := self._reader.next_command()) is None:
            data = self.socket.recv(65_536)
            if not data:
                raise ConnectionResetError("closed by the server")
            self._reader.feed(data)
        return command

    def is_closed(self) -> bool:
        """Whether the server closes the connection; what it sends before is passed over."""
        try:
            while True:
                self.receive()
        except ConnectionError:
            return True
        except TimeoutError:
            return False


def views(answer: Command) -> list[MessageView]:
    """Return the records of an answer's body, as a consumer decodes them."""
    found, at = [], 0
    while at < len(answer.body):
        size = int.from_bytes(answer.body[at : at + 4], "big")
        found.append(MessageView(answer.body[at : at + size]))
        at += size
    return found


def message(topic: str, queue_id: int = 0, *, properties: str = "", **options: object) -> SendShort:
    """The header of a send; its body goes beside it."""
    header = Send(
        producer_group="producers",
        topic=topic,
        default_topic="TBW102",
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=1_700_000_000_000,
        flag=0,
        properties=properties,
    )
    return SendShort.of(attrs.evolve(header, **options))
