"""`Run`: the script's requests to one broker and its name server, and every answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Self

import attrs
from wirepeer import WirePeer

from reput_client.remoting import Command, HeaderKind, parse_body

Address = tuple[str, int]
Fields = Mapping[str, object]

_SETTLE_SECONDS = 60
_QUIET_SECONDS = 0.5
VERSION = 479
"""That of release 5.3.3, which the script says it is."""


@attrs.frozen
class Exchange:
    """One request of the script, and what came of it."""

    name: str
    answer: Command | None
    """None if none came."""
    kind: HeaderKind = HeaderKind.JSON
    """How the answer's header was written."""
    is_closed: bool = False
    """Whether the connection was closed instead."""


@attrs.define(eq=False)
class Run:
    """Sends the script's requests, one after the other, and keeps the answers by name."""

    broker: Address
    names: Address
    silent: frozenset[str] | None = None
    """Names of the requests that get no answer; None if any of `raw` may get none."""
    exchanges: dict[str, Exchange] = attrs.field(factory=dict)
    _peers: dict[str, WirePeer] = attrs.field(factory=dict)
    _never: threading.Event = attrs.field(factory=threading.Event)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for peer in self._peers.values():
            peer.socket.close()

    def peer(self, who: str = "broker") -> WirePeer:
        """The connection of ``broker`` or ``names``, perhaps with ``:`` and a name of who asks."""
        if who not in self._peers:
            address = self.names if who.startswith("names") else self.broker
            self._peers[who] = WirePeer(address, _SETTLE_SECONDS)
        return self._peers[who]

    def leave(self, who: str) -> None:
        """Close a connection."""
        self._peers.pop(who).socket.close()

    def ask(
        self,
        name: str,
        code: int,
        fields: Fields | None = None,
        body: bytes = b"",
        *,
        who: str = "broker",
        version: int = VERSION,
        kind: HeaderKind = HeaderKind.JSON,
    ) -> Command:
        """Send a request, keep its answer under ``name``, and return it."""
        if name in self.exchanges:
            raise ValueError(f"two requests of the script are named {name!r}")
        peer = self.peer(who)
        command = request(code, fields, body, version=version)
        answer = peer.answer_to(peer.send(command, kind))
        self.exchanges[name] = Exchange(name, answer, peer.last_kind)
        return answer

    def tell(self, code: int, fields: Fields | None = None, body: bytes = b"") -> None:
        """Send a request that nobody answers."""
        self.peer().send(attrs.evolve(request(code, fields, body), flag=2))

    def unanswered(self, name: str, code: int, fields: Fields | None = None) -> None:
        """Send a request to which no answer comes for a while, or note the one that comes."""
        self.raw(name, request(code, fields, b""))

    def raw(self, name: str, sent: Command | bytes) -> None:
        """Send a request, or bytes that are none, on a new connection; note what comes of it."""
        may_be_silent = self.silent is None or name in self.silent
        with WirePeer(self.broker, _QUIET_SECONDS if may_be_silent else _SETTLE_SECONDS) as peer:
            if isinstance(sent, bytes):
                peer.socket.sendall(sent)
            else:
                peer.send(sent)
            try:
                answer = peer.receive()
            except TimeoutError:
                self.exchanges[name] = Exchange(name, None)
            except ConnectionError:
                self.exchanges[name] = Exchange(name, None, is_closed=True)
            else:
                self.exchanges[name] = Exchange(name, answer, peer.last_kind)

    def note(self, name: str, answer: Command) -> None:
        """Keep a command that came otherwise."""
        self.exchanges[name] = Exchange(name, answer)

    def until(self, wanted: int, code: int, fields: Fields, field: str = "offset") -> None:
        """Ask again, and keep nothing, until a field of the answer has a value.

        A broker that has answered a send puts the message in its queue a moment later.
        """
        end = time.monotonic() + _SETTLE_SECONDS
        peer = self.peer("broker:settle")
        while True:
            answer = peer.answer_to(peer.send(request(code, fields, b"")))
            if int(answer.fields.get(field, -1)) >= wanted:
                return
            if time.monotonic() > end:
                raise TimeoutError(f"{fields}: {answer}, {wanted} expected")
            self.pause(0.02)

    def until_members(self, group: str, count: int) -> None:
        """Wait until a group has ``count`` members."""
        end = time.monotonic() + _SETTLE_SECONDS
        peer = self.peer("broker:settle")
        while True:
            answer = peer.answer_to(peer.send(request(38, {"consumerGroup": group}, b"")))
            found = parse_body(answer.body, "members").get("consumerIdList", ())
            if len(found) == count:
                return
            if time.monotonic() > end:
                raise TimeoutError(f"{group}: {found}, {count} expected")
            self.pause(0.02)

    def told(self, who: str, code: int) -> Command:
        """A request of the server to one of the script's connections."""
        peer = self.peer(who)
        while not any(each.code == code for each in peer.told):
            peer.told.append(peer.receive())
        return next(each for each in peer.told if each.code == code)

    def gone(self, topic: str) -> None:
        """Wait until the name server has forgotten a topic; a real one does it in a thread."""
        end = time.monotonic() + _SETTLE_SECONDS
        peer = self.peer("names:settle")
        while peer.answer_to(peer.send(request(105, {"topic": topic}, b""))).code == 0:
            if time.monotonic() > end:
                raise TimeoutError(f"{topic} still has a route")
            self.pause(0.02)

    def pause(self, seconds: float) -> None:
        """Let time go by for a broker that cannot be asked whether it is ready."""
        self._never.wait(seconds)

    def settle(self, topic: str, queue_id: int, count: int) -> None:
        """Wait until a queue has ``count`` messages."""
        self.until(count, 30, {"topic": topic, "queueId": queue_id})


def request(code: int, fields: Fields | None, body: bytes, *, version: int = VERSION) -> Command:
    """A request with these fields; booleans and numbers as Java writes them."""
    texts = {name: _text(value) for name, value in (fields or {}).items() if value is not None}
    return attrs.evolve(Command.request(code, body=body, more=texts), version=version)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
