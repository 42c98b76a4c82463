"""Bodies as commands show them: unpacked where a producer compressed them, or as stored.

A body that is not what its flag says is shown as stored, and a line on stderr says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.failures import Failure, warn

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.record import MessageView

    BodyOf = Callable[[MessageView], bytes]

COMPRESSION_BITS: Final = 0x701
"""The bits of a system flag that tell how a body is compressed."""
_COMPRESSED: Final = 0x1
_TOLD_MAX: Final = 5  # lines; a log of a wrong writer has millions of such bodies

_Command = TypeVar("_Command", bound="Callable[..., Any]")


def raw_option(command: _Command) -> _Command:
    """Add ``--raw``: bodies stay as stored."""
    told = "Do not decompress bodies that a producer compressed."
    return click.option("--raw", is_flag=True, help=told)(command)


def bodies(*, raw: bool) -> BodyOf:
    """Return the function that gives the body of a message.

    Args:
        raw: whether bodies stay as stored.
    """
    if raw:
        return lambda message: message.body
    told = 0

    def unpacked(message: MessageView) -> bytes:
        nonlocal told
        sys_flag = message.sys_flag
        if not sys_flag & _COMPRESSED:
            return message.body
        from reput.errors import CodecNotFoundError, UnpackError
        from reput.record import unpack_body

        try:
            return unpack_body(message.body, sys_flag)
        except CodecNotFoundError as error:
            text = f"{_place(message)}: {error}, or --raw leaves bodies as stored"
            raise Failure(text, ExitCode.UNAVAILABLE) from error
        except UnpackError as error:
            told += 1
            if told <= _TOLD_MAX:
                last = "; further ones are not told" if told == _TOLD_MAX else ""
                warn(f"{_place(message)}: {error}; it is taken as stored{last}")
            return message.body

    return unpacked


def _place(message: MessageView) -> str:
    return f"{message.topic}/{message.queue_id}@{message.queue_offset}"
