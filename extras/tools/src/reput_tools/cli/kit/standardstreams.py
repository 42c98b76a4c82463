"""Standard input, output and error for a command, also if the shell started it without them.

A shell may start a program without them (``>&-``). Then the next file that is opened gets the
number 0, 1 or 2, and a line meant for the terminal could be written into a file of a store. So all
three are opened from the start. Using a closed one fails with an error that names it; with a
closed stderr only the exit code tells of an error.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

STANDARD_INPUT = "standard input"
STANDARD_OUTPUT = "standard output"


def use_standard_streams() -> None:
    """Replace Python's standard streams by streams whose errors name them."""
    was_open = [_is_open(number) for number in range(3)]
    # In this order, as each opening takes the lowest free number. In the wrong direction, so that
    # using them fails as using a closed stream would have.
    for number, flags in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_RDWR)):
        if not was_open[number]:
            _open_null_at(number, flags)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(_Input(0, "r", closefd=False)))
    if sys.stdout is None or _number_of(sys.stdout) == 1:
        sys.stdout = _text(_Output(1, "w", closefd=False), sys.stdout, "backslashreplace")
    if sys.stderr is None or _number_of(sys.stderr) == 2:
        sys.stderr = _text(_Errors(2, "w", closefd=False), sys.stderr, "backslashreplace")


def _text(raw: io.FileIO, old: object, errors: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=getattr(old, "encoding", None),
        # A character that the terminal's encoding lacks becomes an escape, never an error.
        errors=errors,
        line_buffering=raw.fileno() == 2 or raw.isatty(),
    )


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _open_null_at(number: int, flags: int) -> None:
    descriptor = os.open(os.devnull, flags)
    if descriptor != number:
        os.dup2(descriptor, number)
        os.close(descriptor)


def _number_of(stream: Any) -> int:
    try:
        return int(stream.fileno())
    except (AttributeError, OSError, ValueError):
        return -1  # replaced by a test, or by a program that calls us


class _Input(io.FileIO):
    def readinto(self, buffer: Any) -> int | None:
        try:
            return super().readinto(buffer)
        except OSError as error:
            error.filename = STANDARD_INPUT
            raise


class _Output(io.FileIO):
    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = STANDARD_OUTPUT
            raise


class _Errors(io.FileIO):
    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)  # no stream is left to report it on; the exit code does
