"""Frames of requests as clients write them: whole, with nothing unusual in their headers.

The rules are exact, so that a compiled engine can read the same frames, and no others.
`FrameReader` reads all frames, and its errors name the faults of others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any, Final

from reput.engine import kernel
from reput_client.remoting.command import Command
from reput_client.remoting.errors import FrameError
from reput_client.remoting.framing.binaryheader import decode_binary
from reput_client.remoting.framing.frames import FRAME_START
from reput_client.remoting.peerlanguage import Language

_KIND_SHIFT: Final = 24
_HEADER_LENGTH_MAX: Final = (1 << _KIND_SHIFT) - 1
_LENGTH_SIZE: Final = 4
_FIELDS_MAX: Final = 32
_DIGITS_MAX: Final = 18
_BITS: Final = 31
_REPLACED: Final = "\ufffd"
_CODE: Final = re.compile(rb'"code"[ \t\n\r]*:[ \t\n\r]*([0-9]{1,5})(?![0-9A-Za-z_])')
_BINARY_CODE_SIZE: Final = 2
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "code": (int,),
    "extFields": (dict,),
    "flag": (int,),
    "language": (str,),
    "opaque": (int,),
    "remark": (str, type(None)),
    "serializeTypeCurrentRPC": (str,),
    "version": (int,),
}


def plain_command(
    data: bytes | bytearray,
    begin: int,
    codes: Collection[int],
    *,
    frame_size_max: int,
    header_size_max: int,
) -> tuple[Command, int] | None:
    """Return the request that begins at ``begin``, and where it ends; None if it is not plain.

    A header in JSON is plain if its members are the usual ones, each once and of its own type, if
    its fields are at most 32 texts, if it is UTF-8 throughout, and without halves of pairs as
    escapes. A binary header is if its texts are UTF-8, and its fields at most 32.

    Args:
        data: bytes of a connection.
        begin: where a frame begins.
        codes: those of requests that are wanted; others are not plain.
        frame_size_max: bytes of the longest frame that is read.
        header_size_max: bytes of the longest header that is read.
    """
    if len(data) - begin < FRAME_START.size:
        return None
    length, word = FRAME_START.unpack_from(data, begin)
    kind, header_size = word >> _KIND_SHIFT, word & _HEADER_LENGTH_MAX
    header_at = begin + FRAME_START.size
    body_at, end = header_at + header_size, begin + _LENGTH_SIZE + length
    if length < 0 or end - begin > frame_size_max or header_size > header_size_max or kind > 1:
        return None
    if not body_at <= end <= len(data):
        return None
    header, body = bytes(data[header_at:body_at]), bytes(data[body_at:end])
    command = (_binary if kind else _json)(header, body, codes)
    return None if command is None else (command, end)


@kernel
def plain_values(
    data: bytes | bytearray,
    begin: int,
    codes: tuple[int, int],
    texts: tuple[str, ...],
    numbers: tuple[str, ...],
    sizes: tuple[int, int],
) -> tuple[int, int, int, int, tuple[Any, ...]] | None:
    """Return the plain request that begins at ``begin``; None if it is not plain.

    Such a request has no body, and its numbers are 1 to 18 digits.

    Args:
        data: bytes of a connection.
        begin: where a frame begins.
        codes: those of requests that are wanted.
        texts: names of fields.
        numbers: names of fields that hold numbers.
        sizes: bytes of the longest frame, and of the longest header, that are read.

    Returns:
        Where the request ends; its code, number and flag; and the values of the fields, numbers
        last. A field that the request does not have is None.
    """
    found = plain_command(data, begin, codes, frame_size_max=sizes[0], header_size_max=sizes[1])
    if found is None or found[0].body:
        return None
    command, end = found
    values: list[str | int | None] = [command.fields.get(name) for name in texts]
    for name in numbers:
        text = command.fields.get(name)
        if text is None:
            values.append(None)
        elif len(text) <= _DIGITS_MAX and text.isascii() and text.isdigit():
            values.append(int(text))
        else:
            return None
    return end, command.code, command.opaque, command.flag, tuple(values)


def _binary(header: bytes, body: bytes, codes: Collection[int]) -> Command | None:
    if int.from_bytes(header[:_BINARY_CODE_SIZE], "big", signed=True) not in codes:
        return None
    try:
        command = decode_binary(header, body)
    except FrameError:
        return None
    fields = command.fields
    texts = (command.remark or "", *fields, *fields.values())
    if len(fields) > _FIELDS_MAX or any(_REPLACED in text for text in texts):
        return None
    return command


def _json(header: bytes, body: bytes, codes: Collection[int]) -> Command | None:
    code = _CODE.search(header)  # most requests of other codes are left without more ado
    if code is None or int(code[1]) not in codes:
        return None
    try:
        text = header.decode()
        members = _decode(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(members, dict) or "code" not in members or "\\ud" in text or "\\uD" in text:
        return None
    for name, value in members.items():
        if type(value) not in _TYPES.get(name, ()):
            return None
    numbers = members["code"], members.get("opaque", 0), members.get("flag", 0)
    fields = members.get("extFields", {})
    if (
        any(number >> _BITS not in (0, -1) for number in (*numbers, members.get("version", 0)))
        or numbers[0] not in codes
        or len(fields) > _FIELDS_MAX
        or not all(type(value) is str for value in fields.values())
    ):
        return None
    return Command(numbers[0], fields, body, numbers[1], numbers[2], None, Language.OTHER)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name that stands there twice")
    return found


_decode: Final = json.JSONDecoder(object_pairs_hook=_once).decode
