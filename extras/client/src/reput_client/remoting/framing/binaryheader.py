"""Headers of commands in RocketMQ's binary form, integers big-endian.

    0      2          3         5        9      13
    +------+----------+---------+--------+------+-------------+--------+-------------+--------+
    | code | language | version | opaque | flag | remark size | remark | fields size | fields |
    +------+----------+---------+--------+------+-------------+--------+-------------+--------+

A field is its name's size (2 bytes), its name, its value's size (4 bytes), its value.

Source: RocketMQ ``RocketMQSerializable``.
"""

from __future__ import annotations

import struct
from typing import Final

from reput_client.remoting.command import Command
from reput_client.remoting.errors import FrameError
from reput_client.remoting.peerlanguage import Language

HEADER_START: Final = 8  # bytes of a frame before its header
_FIXED: Final = struct.Struct(">hBhiii")  # code, language, version, opaque, flag, remark size
_SIZE: Final = struct.Struct(">i")
_NAME_SIZE: Final = struct.Struct(">h")
_NAME_SIZE_MAX: Final = (1 << 15) - 1
_CODE_MAX: Final = (1 << 15) - 1
_LANGUAGES: Final = {each.value: each for each in Language}


def encode_binary(command: Command) -> bytes:
    """Return the header of ``command``.

    Raises:
        FrameError: the code has more than 16 bits, or a name more than 32,767 bytes.
    """
    if not -_CODE_MAX - 1 <= command.code <= _CODE_MAX:
        raise FrameError(HEADER_START, f"code {command.code}", "one of 16 bits, or a JSON header")
    remark = (command.remark or "").encode("utf-8", "replace")
    fields = b"".join(_field(name, value) for name, value in command.fields.items())
    # A version is a number of 16 bits here; Java casts.
    version = min(max(command.version, -_CODE_MAX), _CODE_MAX)
    return b"".join(
        (
            _FIXED.pack(
                command.code,
                command.language,
                version,
                command.opaque,
                command.flag,
                len(remark),
            ),
            remark,
            _SIZE.pack(len(fields)),
            fields,
        )
    )


def decode_binary(header: bytes, body: bytes) -> Command:
    """Return the command of a binary header and a body.

    Raises:
        FrameError: a size leads out of the header.
    """
    if len(header) < _FIXED.size + _SIZE.size:
        raise FrameError(HEADER_START, f"a header of {len(header)} bytes", "21 or more")
    code, language, version, opaque, flag, size = _FIXED.unpack_from(header)
    at = _FIXED.size
    remark = _text(header, at, size, "remark")
    at += size
    fields: dict[str, str] = {}
    end = at + _SIZE.size + _size_at(_SIZE, header, at, "fields")
    if end > len(header):
        raise FrameError(HEADER_START + at, f"fields up to byte {end}", f"{len(header)} or less")
    at += _SIZE.size
    while at < end:
        at, name = _sized(_NAME_SIZE, header, at, end, "a name")
        at, fields[name] = _sized(_SIZE, header, at, end, f"the value of {name[:40]!r}")
    return Command(
        code,
        fields,
        body,
        opaque,
        flag,
        remark or None,
        _LANGUAGES.get(language, Language.OTHER),
        version,
    )


def _field(name: str, value: str) -> bytes:
    name_bytes, value_bytes = name.encode("utf-8", "replace"), value.encode("utf-8", "replace")
    if len(name_bytes) > _NAME_SIZE_MAX:
        raise FrameError(HEADER_START, f"a name of {len(name_bytes)} bytes", "32,767 or fewer")
    return b"".join(
        (_NAME_SIZE.pack(len(name_bytes)), name_bytes, _SIZE.pack(len(value_bytes)), value_bytes)
    )


def _sized(form: struct.Struct, header: bytes, at: int, end: int, what: str) -> tuple[int, str]:
    """Return the end of a text with its size in front, and the text."""
    size = _size_at(form, header, at, what)
    start = at + form.size
    if start + size > end:
        raise FrameError(HEADER_START + at, f"{what} of {size} bytes", f"{end - start} or fewer")
    return start + size, header[start : start + size].decode("utf-8", "replace")


def _size_at(form: struct.Struct, header: bytes, at: int, what: str) -> int:
    if at + form.size > len(header):
        raise FrameError(HEADER_START + at, "the end of the header", f"the size of {what}")
    size: int = form.unpack_from(header, at)[0]
    if size < 0:
        raise FrameError(HEADER_START + at, f"{what} of {size} bytes", "0 or more")
    return size


def _text(header: bytes, at: int, size: int, what: str) -> str:
    if not 0 <= size <= len(header) - at:
        raise FrameError(HEADER_START + at, f"{what} of {size} bytes", f"{len(header) - at}")
    return header[at : at + size].decode("utf-8", "replace")
