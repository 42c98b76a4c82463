"""Makes the script's topics and groups, as an operator does."""

from __future__ import annotations

import attrs
from sameanswers.administering import group, topic
from sameanswers.run import request
from samecalls.tables import GROUPS, TOPICS
from wirepeer import WirePeer


def make(broker: tuple[str, int]) -> None:
    """Have a broker create them."""
    with WirePeer(broker) as peer:
        for name, (read, write, permissions, kind) in TOPICS.items():
            attributes = "" if kind is None else f"+message.type={kind}"
            fields = topic(name, read, write, permissions, attributes=attributes)
            _ask(peer, 17, fields, b"")
        for name, settings in GROUPS.items():
            _ask(peer, 200, {}, group(name, **settings))


def _ask(peer: WirePeer, code: int, fields: dict[str, object], body: bytes) -> None:
    answer = peer.answer_to(peer.send(attrs.evolve(request(code, fields, body))))
    assert answer.code == 0, answer
