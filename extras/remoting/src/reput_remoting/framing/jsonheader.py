"""Headers of commands as JSON, which every peer understands.

Source: RocketMQ ``RemotingSerializable``, ``RemotingCommand.headerEncode`` and ``headerDecode``.
"""

from __future__ import annotations

import json
from typing import Any, Final

from reput_remoting.command import Command
from reput_remoting.errors import FrameError
from reput_remoting.peers import Language

__all__ = ["decode_json", "encode_json"]

HEADER_START: Final = 8  # bytes of a frame before its header
_LANGUAGES: Final = Language.__members__
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
# Made once: `json.loads` with an option makes a decoder for each call.
_decode: Final = json.JSONDecoder(parse_float=str).decode
_LIMIT: Final = 1 << 31
_TEXTS: Final = frozenset({str})


def encode_json(command: Command) -> bytes:
    """Return the header of ``command``; values of fields are texts, as C++ and Go want them."""
    members: dict[str, Any] = {"code": int(command.code)}
    if command.fields:
        members["extFields"] = dict(command.fields)
    members["flag"] = command.flag
    members["language"] = command.language.name
    members["opaque"] = command.opaque
    if command.remark is not None:
        members["remark"] = command.remark
    members["serializeTypeCurrentRPC"] = "JSON"
    members["version"] = command.version
    # A lone surrogate becomes a question mark, as Java's encoder has it.
    return _encode(members).encode("utf-8", "replace")


def decode_json(header: bytes, body: bytes) -> Command:
    """Return the command of a JSON header and a body.

    Raises:
        FrameError: ``header`` is no JSON object, or a member is not of its type.
    """
    text = header.decode("utf-8", "replace")
    try:
        members = _decode(text)
    except (ValueError, RecursionError) as error:
        raise FrameError(HEADER_START, f"a header that is no JSON ({error})", "JSON") from None
    if not isinstance(members, dict):
        raise FrameError(HEADER_START, f"a header that is {type(members).__name__}", "an object")
    take = members.get
    remark = take("remark")
    return Command(
        _integer(take("code"), "code"),
        _fields_of(take("extFields"), has_halves="\\ud" in text or "\\uD" in text),
        body,
        _integer(take("opaque", 0), "opaque"),
        _integer(take("flag", 0), "flag"),
        remark if type(remark) is str else None,
        _LANGUAGES.get(str(take("language")), Language.OTHER),
        _integer(take("version", 0), "version"),
    )


def _integer(value: object, name: str) -> int:
    if type(value) is not int or not -_LIMIT <= value < _LIMIT:
        raise FrameError(HEADER_START, f"{name} = {str(value)[:40]}", "an integer of 32 bits")
    return value


def _fields_of(found: object, *, has_halves: bool) -> dict[str, str]:
    """Return the fields' texts; C++ and npm send numbers and booleans as such."""
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise FrameError(HEADER_START, f"extFields as {type(found).__name__}", "an object")
    fields: dict[str, str] = found
    if not _TEXTS.issuperset(map(type, found.values())):
        fields = _texts_of(found)
    # Half of a pair, written as an escape, could be encoded nowhere.
    return {_whole(name): _whole(text) for name, text in fields.items()} if has_halves else fields


def _texts_of(found: dict[str, Any]) -> dict[str, str]:
    fields = {}
    for name, value in found.items():
        kind = type(value)
        if kind is str:
            fields[name] = value
        elif kind is bool:
            fields[name] = "true" if value else "false"
        elif kind is int:
            fields[name] = str(value)
        elif value is not None:
            raise FrameError(HEADER_START, f"extFields.{name[:40]} as {kind.__name__}", "a text")
    return fields


def _whole(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
