"""Answers taken apart, so that two of them can be compared part by part.

A part's name tells where it is: ``status/code``, ``entries/0/message_id``, ``1/message/body``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.unknown_fields import UnknownFieldSet
from samecalls.run import CallExchange

_SUCCESSES = (20000, 30000)


def parts_of(exchange: CallExchange) -> dict[str, object]:
    """The parts of an answer, or of all answers of a stream, by their names."""
    parts: dict[str, object] = {"gRPC": exchange.status}
    is_stream = len(exchange.answers) > 1
    for at, answer in enumerate(exchange.answers):
        parts |= dict(_parts(answer, f"{at}/" if is_stream else ""))
    if is_stream:
        parts["answers"] = len(exchange.answers)
    return parts


def _parts(message: Any, where: str) -> Iterator[tuple[str, object]]:
    kind = message.DESCRIPTOR.name
    if kind == "Status":
        yield where + "code", message.code
        # A refusal's words are for people: that there are some is what is compared.
        is_good = message.code in _SUCCESSES
        yield (
            (where + "text", message.message)
            if is_good
            else (where + "words", bool(message.message))
        )
        return
    if kind in ("Timestamp", "Duration"):
        yield where[:-1], message.seconds + message.nanos / 1e9
        return
    for unknown in UnknownFieldSet(message):
        yield f"{where}field {unknown.field_number}", unknown.data
    for field, value in message.ListFields():
        name = where + field.name
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            yield from ((f"{name}/{key}", value[key]) for key in value)
        elif field.message_type is None:
            yield name, list(value) if field.is_repeated else value
        elif field.is_repeated:
            yield f"{name}[]", len(value)
            for at, each in enumerate(value):
                yield from _parts(each, f"{name}/{at}/")
        else:
            yield f"{name}/", "there"
            yield from _parts(value, f"{name}/")
