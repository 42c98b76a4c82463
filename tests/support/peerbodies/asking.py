"""Asks a server, member by member and value by value."""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs
from wirepeer import WirePeer

from peerbodies.bodies import (
    BODIES,
    FRAME,
    GROUP,
    HEADERS,
    TOPIC,
    Asked,
    Body,
    Header,
    Path,
    frame,
    of_frame,
)
from peerbodies.values import FRAME_VALUES, MISSING, values_of
from peerbodies.writing import WAYS
from reput_client.remoting import Command, parse_body

Address = tuple[str, int]
Answers = dict[str, Any]
"""By value: the answer's code, and what was shown."""

Way = Callable[[str], bytes | str]

_MODEL: Final[Path] = ("consumerDataSet", 0, "messageModel")
_TIMES: Final = (1_600_000_000_000, 4_000_000_000_000)
_QUIET_SECONDS: Final = 3.0
_AGAIN: Final = 50
_PLACE: Final = "(the value)"
_NAMED: Final = "(name)"


@attrs.frozen
class Servers:
    """A broker and a name server."""

    broker: Address
    names: Address

    def of(self, port: str) -> Address:
        return self.broker if port == "broker" else self.names


def table(servers: Servers, only: frozenset[str] = frozenset()) -> dict[str, Answers]:
    """What the servers take, by member; each value's answer is its code and what is shown then.

    Args:
        servers: whom to ask.
        only: values; all of them if it is empty.
    """
    found: dict[str, Answers] = {}
    number = 0
    _prepare(servers.broker)
    for body in BODIES:
        for path in body.paths:
            answers: Answers = {}
            for value in _chosen(values_of(str(path[-1])), only):
                number += 1
                answers[value] = _answer(servers, body, path, value, _name(body, number))
            found[f"{body.name}: {'.'.join(map(str, path))}"] = answers
    found["heartbeat, written with"] = {
        way: _answer(servers, BODIES[0], _MODEL, way, f"g{number}", write)
        for number, (way, write) in enumerate(WAYS.items())
    }
    for header in HEADERS:
        for name in header.names:
            answers = {}
            for value in _chosen(values_of(name), only):
                number += 1
                answers[value] = _of_header(servers, header, name, value, f"{number}")
            found[f"fields of {header.name}: {name}"] = answers
    for name in FRAME:
        answers = {}
        for value in _chosen(FRAME_VALUES[name], only):
            number += 1
            answers[value] = _of_frame(servers, name, value, f"g{number % _AGAIN}")
        found[f"header: {name}"] = answers
    return found


def _chosen(values: Sequence[str], only: frozenset[str]) -> Sequence[str]:
    return [value for value in values if value in only] if only else values


def _name(body: Body, number: int) -> str:
    """The name of one request's group; with thousands of groups, their files would take long."""
    return f"g{number % _AGAIN}" if body is BODIES[0] else f"g{number}"


def _prepare(broker: Address) -> None:
    """Have the topic and the group that requests name."""
    fields = {"defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "order": False}
    queues = {"readQueueNums": 8, "writeQueueNums": 8, "perm": 6, "topicSysFlag": 0}
    with _Looking(broker) as looking:
        looking.ask(17, topic=TOPIC, **fields, **queues)
        looking.ask(200, {"groupName": GROUP})


def _answer(
    servers: Servers, body: Body, path: Path, value: str, name: str, write: Way | None = None
) -> list[Any]:
    """Send one body on a connection of its own, so that nothing is left of the one before."""
    members = body.members(name)
    data: bytes | str = _written(members, path, value, name) if write is None else ""
    if write is not None:
        data = write(json.dumps(members))
    with WirePeer(servers.of(body.port)) as peer, _Looking(servers.of(body.port)) as looking:
        data = data if isinstance(data, bytes) else data.encode()
        sent = peer.answer_to(peer.send(_request(body.code, data, body.fields(name))))
        asked = Asked(looking.ask, looking.fields, name, value)
        shown = body.shown(asked, path) if sent.code == 0 else None
    return [sent.code, _lasting(shown)]


def _of_header(servers: Servers, header: Header, name: str, value: str, own: str) -> list[Any]:
    """Send one request, a field of which is written as any JSON value."""
    fields = {key: _text(given) for key, given in header.fields(own).items()}
    members = {**frame(own)[0], "code": header.code, "extFields": fields}
    head = _written(members, ("extFields", name), value, own)
    address = servers.of(header.port)
    # A name server forgets a broker with its connection: it stays open while that is looked at.
    with WirePeer(address, _QUIET_SECONDS) as peer, _Looking(address) as looking:
        sent = _exchanged(peer, head, header.body)
        if sent is None:
            return ["none", None]
        asked = Asked(looking.ask, looking.fields, own, value)
        shown = header.shown(asked, name, dict(sent.fields)) if sent.code == 0 else None
    return [sent.code, _lasting(shown)]


def _of_frame(servers: Servers, name: str, value: str, own: str) -> list[Any]:
    """Send one heartbeat, a member of whose header is written as any JSON value."""
    members, body = frame(own)
    head = _written(members, (name,), value, own)
    with WirePeer(servers.broker, _QUIET_SECONDS) as peer, _Looking(servers.broker) as looking:
        sent = _exchanged(peer, head, body)
        if sent is None:
            return ["none", None]
        asked = Asked(looking.ask, looking.fields, own, value)
        return [sent.code, of_frame(asked, name) if sent.code == 0 else None]


def _exchanged(peer: WirePeer, head: bytes, body: bytes) -> Command | None:
    """Send a header as it is; the answer, None if none comes."""
    size = 4 + len(head) + len(body)
    peer.socket.sendall(struct.pack(">ii", size, len(head)) + head + body)
    try:
        while not (found := peer.receive()).is_response:
            pass
    except (ConnectionError, TimeoutError):
        return None
    return found


class _Looking(WirePeer):
    """A connection that asks what has become of a request."""

    def ask(self, code: int, body: dict[str, Any] | None = None, **fields: object) -> Any:
        got = self._answer(code, body, fields)
        return got.code, parse_body(got.body, "answer") if got.code == 0 else {}

    def fields(self, code: int, **fields: object) -> Any:
        got = self._answer(code, None, fields)
        return got.code, got.fields

    def _answer(self, code: int, body: dict[str, Any] | None, fields: dict[str, object]) -> Command:
        data = b"" if body is None else json.dumps(body).encode()
        return self.answer_to(self.send(_request(code, data, fields)))


def _lasting(shown: Any) -> Any:
    """What is shown, without times, which are others each time."""
    if isinstance(shown, dict):
        return {key: _lasting(each) for key, each in shown.items()}
    if isinstance(shown, list):
        return [_lasting(each) for each in shown]
    return "now" if isinstance(shown, int) and _TIMES[0] < shown < _TIMES[1] else shown


def _written(members: dict[str, Any], path: Path, value: str, name: str) -> bytes:
    """The body with a value in the place of one member."""
    members = copy.deepcopy(members)
    *way, last = (name if step == _NAMED else step for step in path)
    place: Any = members
    for step in way:
        place = place[step]
    if value == MISSING:
        place.pop(last, None)
        return json.dumps(members).encode()
    place[last] = _PLACE
    return json.dumps(members).replace(json.dumps(_PLACE), value).encode()


def _request(code: int, body: bytes, fields: dict[str, object]) -> Command:
    texts = {name: _text(value) for name, value in fields.items()}
    return attrs.evolve(Command.request(code, body=body, more=texts), version=479)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def differing(
    theirs: dict[str, Answers], ours: dict[str, Answers]
) -> list[tuple[str, str, Any, Any]]:
    """Member, value, their answer and ours, where these differ."""
    return [
        (member, value, theirs[member].get(value), answer)
        for member, answers in ours.items()
        for value, answer in answers.items()
        if theirs[member].get(value) != answer
    ]
