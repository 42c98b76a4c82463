r"""The template language of ``cat --format``: ``'%o %k %s'``.

    %t topic            %q queue id           %o queue offset      %p physical offset
    %s body             %S its size in bytes  %T tags              %k keys
    %i message id       %u unique key         %h all properties    %{NAME} one property
    %d store time       %D store time, ms     %b born time         %B born time, ms
    %% a percent sign   \n \t \0 \\ \xHH as in C

A missing value prints as nothing. The letters follow kcat where it has one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING

from reput_tools.cli.kit.escape import body_text, escape_text
from reput_tools.cli.kit.timestamps import format_timestamp

if TYPE_CHECKING:
    from reput.record import MessageView
    from reput_tools.cli.messages.bodies import BodyOf

_Part = Callable[["MessageView", int, str], str]

_TOKEN = re.compile(r"%\{([^}]*)\}|%(.?)|\\(x[0-9A-Fa-f]{2}|.?)|([^%\\]+)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}

_FIELDS: dict[str, _Part] = {
    "t": lambda message, offset, body: escape_text(message.topic),
    "q": lambda message, offset, body: str(message.queue_id),
    "o": lambda message, offset, body: str(offset),
    "p": lambda message, offset, body: str(message.physical_offset),
    "T": lambda message, offset, body: escape_text(message.tags or ""),
    "k": lambda message, offset, body: escape_text(" ".join(message.keys)),
    "i": lambda message, offset, body: message.msg_id,
    "u": lambda message, offset, body: escape_text(message.unique_key or ""),
    "h": lambda message, offset, body: _properties_text(message),
    "d": lambda message, offset, body: format_timestamp(message.store_timestamp),
    "D": lambda message, offset, body: str(message.store_timestamp),
    "b": lambda message, offset, body: format_timestamp(message.born_timestamp),
    "B": lambda message, offset, body: str(message.born_timestamp),
    "%": lambda message, offset, body: "%",
}


class Template:
    """A compiled template.

    Args:
        text: the template.
        body_of: gives the body of a message, as stored by default.

    Raises:
        ValueError: an unknown field; the text lists the known ones.
    """

    def __init__(self, text: str, body_of: BodyOf = attrgetter("body")) -> None:
        fields = _FIELDS | {
            "s": lambda message, offset, body: body_text(body_of(message), body),
            "S": lambda message, offset, body: str(len(body_of(message))),
        }
        self._parts = [_part(found, fields) for found in _TOKEN.finditer(text)]

    def render(self, message: MessageView, queue_offset: int, body: str = "text") -> str:
        """Return the line of one message, without a line end.

        Args:
            message: the message.
            queue_offset: its place in the queue that was read.
            body: form of ``%s``, one of `reput_tools.cli.kit.escape.BODY_FORMS`.
        """
        return "".join([part(message, queue_offset, body) for part in self._parts])


def _part(found: re.Match[str], fields: dict[str, _Part]) -> _Part:
    name, field, escape, literal = found.groups()
    if name is not None:
        return lambda message, offset, body: escape_text(message.properties.get(name, ""))
    if field is not None:
        try:
            return fields[field]
        except KeyError:
            known = " ".join(f"%{letter}" for letter in fields)
            raise ValueError(f"no field %{field}; known: {known} %{{NAME}}") from None
    if escape is not None:
        literal = chr(int(escape[1:], 16)) if escape[:1] == "x" and escape[1:] else None
        literal = _ESCAPES.get(escape) if literal is None else literal
        if literal is None:
            raise ValueError(f"no escape \\{escape}; known: \\n \\t \\r \\0 \\\\ \\xHH")
    return lambda message, offset, body: literal


def _properties_text(message: MessageView) -> str:
    return escape_text(",".join(f"{name}={value}" for name, value in message.properties.items()))
