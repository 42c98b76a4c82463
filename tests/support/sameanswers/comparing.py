"""Answers taken apart, so that two of them can be compared part by part.

A part's name tells where it is: ``code``, ``field:offset``, ``remark``, ``body/topicList/0``,
``record 0/properties/KEYS``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
from plaindecoder import decode_one
from sameanswers.run import Exchange

from reput_client.remoting import QueueName, RemotingError, parse_body

RECORD_MAGIC = (0xDAA320A7, 0xDAA320AB)
STATUSES = (0, 10, 11, 12, 19, 20, 21)
"""Codes of answers that are no refusals; clients show their remark, or act on it."""
MISSING = "(nothing)"


@attrs.frozen
class Difference:
    """One part of one answer that is another one here and there."""

    name: str
    """Of the exchange."""
    part: str
    theirs: object
    ours: object

    def __str__(self) -> str:
        return f"{self.name}: {self.part}: {self.theirs!r} theirs, {self.ours!r} ours"


def compare(
    theirs: Mapping[str, Any],
    ours: Mapping[str, Any],
    parts: Callable[[Any], dict[str, object]] | None = None,
) -> list[Difference]:
    """All that differs, in the script's order.

    Args:
        theirs: exchanges by name.
        ours: likewise.
        parts: takes an exchange apart; `parts_of` unless given.
    """
    taken = parts_of if parts is None else parts
    found = []
    for name in [*theirs, *(each for each in ours if each not in theirs)]:
        if not (name in theirs and name in ours):
            found.append(Difference(name, "exchange", name in theirs, name in ours))
            continue
        left, right = taken(theirs[name]), taken(ours[name])
        found += _differing(name, left, right)
    return found


def _differing(
    name: str, left: Mapping[str, object], right: Mapping[str, object]
) -> Iterator[Difference]:
    missing: tuple[str, ...] = ()  # objects that are not there as a whole
    for part in [*left, *(each for each in right if each not in left)]:
        one, other = left.get(part, MISSING), right.get(part, MISSING)
        if one == other or part.startswith(missing):
            continue
        if part.endswith("/") and MISSING in (one, other):
            missing += (part,)
        yield Difference(name, part, one, other)


def parts_of(exchange: Exchange) -> dict[str, object]:
    """The parts of an answer by their names."""
    answer = exchange.answer
    if answer is None:
        return {"answer": "closed" if exchange.is_closed else "none"}
    parts: dict[str, object] = {
        "code": answer.code,
        "flag": answer.flag,
        "header": exchange.kind.name,
        "language": answer.language.name,
        "version": answer.version,
    }
    if answer.code in STATUSES:
        parts["remark"] = answer.remark or None
    else:
        # A refusal's words are for people: that there are some is what is compared.
        parts["words"] = bool(answer.remark)
    parts |= {f"field:{name}": value for name, value in answer.fields.items()}
    parts |= dict(_body_parts(answer.body))
    return parts


def _body_parts(body: bytes) -> Iterator[tuple[str, object]]:
    if not body:
        return
    if len(body) > 8 and struct.unpack_from(">I", body, 4)[0] in RECORD_MAGIC:
        yield from _record_parts(body)
        return
    try:
        value = parse_body(body, "body")
    except RemotingError:
        yield "body", body
        return
    # Whether keys are quoted is something that clients see.
    yield "bare keys", bool(re.search(rb"[{,]-?\d+:", body))
    yield from _leaves("body", value)


def _record_parts(body: bytes) -> Iterator[tuple[str, object]]:
    at = count = 0
    while at < len(body):
        record = decode_one(body[at:], at)
        if record is None:
            yield f"record {count}", body[at:]
            return
        yield from record_parts(record, f"record {count}")
        at += record["size"]
        count += 1
    yield "records", count


def record_parts(record: dict[str, Any], where: str) -> Iterator[tuple[str, object]]:
    """The parts of a record; hosts without their ports, which are chosen at every start."""
    yield f"{where}/", "record"
    for name, value in record.items():
        if name in ("record", "where", "start"):
            continue
        if name == "properties":
            pairs = [each.partition(b"\1") for each in value.split(b"\2") if each]
            yield f"{where}/order of properties", [pair[0] for pair in pairs]
            for key, _, text in pairs:
                yield f"{where}/properties/{key.decode()}", text
            yield f"{where}/properties end", value[-1:]
        elif name.endswith("_host"):
            yield f"{where}/{name}", value[:-4]
        else:
            yield f"{where}/{name}", value


def _leaves(where: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        yield f"{where}/", "object"
        for key, each in value.items():
            yield from _leaves(f"{where}/{_shown(key)}", each)
    elif isinstance(value, list) and all(isinstance(each, str) for each in value):
        # Names; their order is nobody's business.
        yield from ((f"{where}/{each}", "listed") for each in value)
    elif isinstance(value, list):
        yield f"{where}[]", len(value)
        for at, each in enumerate(sorted(value, key=str)):
            yield from _leaves(f"{where}/{at}", each)
    else:
        yield where, value


def _shown(key: object) -> object:
    return f"{key.topic}@{key.queue_id}@{key.broker}" if isinstance(key, QueueName) else key
