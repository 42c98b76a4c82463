"""Unpacks bodies that a producer compressed.

Clients compress bodies of 4,096 bytes and more, and name the algorithm in the system flag. LZ4 and
ZSTD need the extra ``reput[compression]``; ZSTD comes with Python 3.14.

Source: RocketMQ ``MessageSysFlag`` (bits 0 and 8 to 10), ``CompressorFactory``: a zlib stream, an
LZ4 frame, a ZSTD frame. Differs from it in that the size of the result is bounded.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, Final

from reput.errors import CodecNotFoundError, UnpackError
from reput.record.layout import COMPRESSED, COMPRESSION_MASK

UNPACKED_SIZE_MAX: Final = 64 << 20
"""Bytes of the largest unpacked body, unless the caller gives another limit. A few compressed bytes
can stand for gigabytes."""

_ZLIB, _LZ4, _ZSTD, _ZLIB_OF_5 = 0, 0x100, 0x200, 0x300
_NAMES: Final = {_ZLIB: "zlib", _LZ4: "lz4", _ZSTD: "zstd", _ZLIB_OF_5: "zlib"}


def compression_name(sys_flag: int) -> str | None:
    """Return ``"zlib"``, ``"lz4"``, ``"zstd"`` or ``"unknown"``; None for a plain body."""
    if not sys_flag & COMPRESSED:
        return None
    return _NAMES.get(sys_flag & COMPRESSION_MASK, "unknown")


def unpack_body(body: bytes, sys_flag: int, limit: int = UNPACKED_SIZE_MAX) -> bytes:
    """Return a body before its producer compressed it.

    Args:
        body: the body as stored.
        sys_flag: the system flag of its record.
        limit: bytes of the largest result.

    Returns:
        ``body`` itself if it is not compressed.

    Raises:
        CodecNotFoundError: a library is missing; the text names the extra that installs it.
        UnpackError: the body contradicts the flag, or is larger than ``limit``.
    """
    name = compression_name(sys_flag)
    if name is None:
        return body
    if name == "unknown":
        raise UnpackError(name, f"type {(sys_flag & COMPRESSION_MASK) >> 8}; 0 to 3 expected")
    codec, failure = _CODECS[name]()
    decompressor = codec()
    pieces, size, data = [], 0, body
    try:
        while not decompressor.eof:
            # One byte more than allowed distinguishes a body that is too large from one that fits.
            piece = decompressor.decompress(data, limit + 1 - size)
            data = getattr(decompressor, "unconsumed_tail", b"")
            size += len(piece)
            if size > limit:
                raise UnpackError(name, f"more than {limit} bytes when unpacked")
            if not piece and not decompressor.eof:
                raise UnpackError(name, f"its {len(body)} bytes end too early")
            pieces.append(piece)
    except failure as error:
        raise UnpackError(name, str(error)) from None
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


_Codec = tuple[Callable[[], Any], type[Exception]]


def _zlib() -> _Codec:
    return zlib.decompressobj, zlib.error


def _lz4() -> _Codec:
    try:
        from lz4.frame import LZ4FrameDecompressor
    except ImportError:
        raise CodecNotFoundError("lz4", "the package lz4 is not installed") from None
    return LZ4FrameDecompressor, RuntimeError


def _zstd() -> _Codec:
    try:
        from compression.zstd import ZstdDecompressor, ZstdError
    except ImportError:
        try:
            from backports.zstd import ZstdDecompressor, ZstdError
        except ImportError:
            reason = "the package backports.zstd is not installed"
            raise CodecNotFoundError("zstd", reason) from None
    return ZstdDecompressor, ZstdError


_CODECS: Final[dict[str, Callable[[], _Codec]]] = {"zlib": _zlib, "lz4": _lz4, "zstd": _zstd}
