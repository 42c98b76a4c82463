"""Headers of commands as JSON, which every peer understands.

Members may have any type that RocketMQ converts; the usual one takes no detour.

Source: RocketMQ ``RemotingSerializable``, ``RemotingCommand.headerEncode`` and ``headerDecode``.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from reput_client.remoting.bodies.queuename import queue_of
from reput_client.remoting.command import Command
from reput_client.remoting.errors import FrameError
from reput_client.remoting.peerlanguage import Language
from reput_tools.brokerfiles import integer_of, name_of, read_loosely, text_of

HEADER_START: Final = 8  # bytes of a frame before its header
_LANGUAGES: Final = Language.__members__
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
# Made once: `json.loads` with an option makes a decoder for each call.
_decode: Final = json.JSONDecoder(parse_float=str).decode
_BITS: Final = 32
_LIMIT: Final = 1 << (_BITS - 1)
_DECIMAL: Final = re.compile(r"-?[0-9]{1,300}(\.[0-9]{1,300})?([eE][+-]?[0-9]{1,9})?")
_LANGUAGE_NAMES: Final = tuple(each.name for each in sorted(Language))
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
        FrameError: ``header`` is not a JSON object, or a member is not of its type.
    """
    text = header.decode("utf-8", "replace")
    try:
        members = _decode(text)
    except (ValueError, RecursionError):
        members = _decode_loosely(text)
    if not isinstance(members, dict):
        raise FrameError(HEADER_START, f"a header that is {type(members).__name__}", "an object")
    take = members.get
    remark = take("remark")
    language = take("language", Language.JAVA.name)
    return Command(
        _integer(take("code"), "code"),
        _fields_of(take("extFields"), has_halves="\\ud" in text or "\\uD" in text),
        body,
        _integer(take("opaque", 0), "opaque"),
        _integer(take("flag", 0), "flag"),
        remark if type(remark) is str else None,
        (_LANGUAGES.get(language) if type(language) is str else None) or _language(language),
        _integer(take("version", 0), "version"),
    )


def _decode_loosely(text: str) -> object:
    try:
        found = read_loosely(text, queue_of)
    except (ValueError, RecursionError) as error:
        raise FrameError(HEADER_START, f"a header that is not JSON ({error})", "JSON") from None
    fields = found.get("extFields") if isinstance(found, dict) else None
    if isinstance(fields, dict):
        found["extFields"] = _texts_of(fields)  # names may be objects
    return found


def _integer(value: object, name: str) -> int:
    if type(value) is int and -_LIMIT <= value < _LIMIT:
        return value
    try:
        # A decimal is held as its text.
        is_decimal = isinstance(value, str) and _DECIMAL.fullmatch(value)
        found = integer_of(float(str(value)) if is_decimal else value, _BITS)
    except ValueError:
        found = None
    if found is None and (value is None or value == "") and name != "code":
        return 0
    if found is None:
        raise FrameError(HEADER_START, f"{name} = {str(value)[:40]}", "an integer of 32 bits")
    return found


def _language(value: object) -> Language:
    """Return a language that is written in another way than by its name."""
    try:
        name = name_of(value, _LANGUAGE_NAMES)
    except ValueError:
        name = None
    return Language.OTHER if name is None else _LANGUAGES[name]


def _fields_of(found: object, *, has_halves: bool) -> dict[str, str]:
    """Return the fields' texts; C++ and npm send numbers and booleans as such."""
    if found is None or found == "":
        return {}
    if not isinstance(found, dict):
        raise FrameError(HEADER_START, f"extFields as {type(found).__name__}", "an object")
    fields: dict[str, str] = found
    if not _TEXTS.issuperset(map(type, found.values())):
        fields = _texts_of(found)
    # Half of a pair, written as an escape, could be encoded nowhere.
    return {_whole(name): _whole(text) for name, text in fields.items()} if has_halves else fields


def _texts_of(found: dict[Any, Any]) -> dict[str, str]:
    texts = {str(name): text_of(value) for name, value in found.items()}
    return {name: text for name, text in texts.items() if text is not None}


def _whole(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
