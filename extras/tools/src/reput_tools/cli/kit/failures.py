"""Turns an exception into one line on stderr and an exit code."""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

import click

from reput_tools.cli.kit.escape import escape_text
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.standardstreams import STANDARD_OUTPUT
from reput_tools.cli.kit.suggestions import did_you_mean, meant_option

if TYPE_CHECKING:
    from reput.errors import NoReaderError


class Failure(click.ClickException):
    """Ends the command with one line on stderr, which names the next step, and an exit code."""

    def __init__(self, message: str, code: ExitCode, below: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.exit_code = int(code)  # type: ignore[misc]  # click reads it off the object
        self.below = below
        """Lines below that one, such as a text and an arrow that points into it."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the line, and those below it."""
        for line in (f"reput: {self.format_message()}", *self.below):
            click.echo(escape_text(line), file=file, err=file is None)


def warn(text: str) -> None:
    """Print one line on stderr that does not end the command."""
    click.echo(f"reput: {escape_text(text)}", err=True)


def usage_failure(error: click.UsageError) -> Failure:
    """Return the failure that the command line shows for arguments that are not understood."""
    path = "reput" if error.ctx is None else error.ctx.command_path
    if isinstance(error, click.NoSuchOption):
        known = [] if error.ctx is None else _options_of(error.ctx)
        text = f"{path} has no option {error.option_name}"
        text += meant_option(error.option_name, known)
    else:
        text = error.format_message().rstrip(".")
        if not text[1:2].isupper():  # else a name like NEW_DIRECTORY
            text = text[:1].lower() + text[1:]
    if "--help" not in text and "did you mean" not in text:
        text += f"; `{path} --help` lists the options"
    return Failure(text, ExitCode.USAGE)


def _options_of(ctx: click.Context) -> list[str]:
    params = ctx.command.get_params(ctx)
    return [name for each in params for name in each.opts if name.startswith("--")]


def failure_of(error: Exception) -> Failure:
    """Return the failure that the command line shows for ``error``."""
    from reput import errors

    match error:
        case errors.StoreLockedError():
            holder = "another process"
            if error.holder_pid is not None:
                holder = f"process {error.holder_pid}"
            text = (
                f"{error.path}: the store is being written by {holder}; "
                "end that one first (commands that only read work meanwhile)"
            )
            return Failure(text, ExitCode.LOCKED)
        case errors.StoreNotFoundError():
            text = f"{error.path}: {error.reason}"
            step = _nearby(error.path)
            if not step and error.reason == errors.EXPECTED:
                step = f"; `reput put {shlex.quote(error.path)} TOPIC BODY --create` creates it"
            return Failure(f"{text}{step}", ExitCode.NOT_FOUND)
        case errors.NoReaderError():
            return Failure(no_reader(error, "PATH"), _UNAVAILABLE)
        case errors.OffsetOutOfRangeError():
            return Failure(str(error), ExitCode.NOT_FOUND)
        case errors.CorruptFileError():
            return Failure(f"damaged: {error}", ExitCode.DAMAGED)
        case errors.PutError() | errors.UnsupportedFilesError():
            return Failure(str(error), ExitCode.REFUSED)
        case errors.PluginNotFoundError():
            text = str(error)
            if "did you mean" not in text:
                step = "; `reput plugins` lists the installed ones"
                text += did_you_mean(error.plugin, _installed_names()) or step
            return Failure(text, _UNAVAILABLE)
        case errors.ConfigError():
            return Failure(f"{error}{did_you_mean(error.option, error.known)}", _UNAVAILABLE)
        case errors.PluginOrderError():
            text = f"{error}; `reput plugins` shows what each one requires and runs after"
            return Failure(text, _UNAVAILABLE)
        case errors.ReputError():
            return Failure(str(error), _UNAVAILABLE)
        case OSError():
            return Failure(_os_text(error), _os_code(error))
        case _:
            text = (
                f"internal error: {type(error).__name__}: {error}; "
                "this is a bug, --debug shows where"
            )
            return Failure(text, ExitCode.INTERNAL)


_UNAVAILABLE = ExitCode.UNAVAILABLE


def no_reader(error: NoReaderError, root: str) -> str:
    """Return the text of an error, with the command that adds the plugin to the store."""
    if error.plugin not in _installed_names():
        return str(error)
    step = f"`reput backfill {root} {error.plugin}` adds the plugin {error.plugin}"
    return f"no active plugin answers {error.operation}; {step}"


def _installed_names() -> list[str]:
    from reput.plugin import installed

    return [found.name for found in installed()]


def _nearby(path: str) -> str:
    """Return where the store may be that ``path`` nearly names."""
    for candidate in (os.path.dirname(os.path.abspath(path)), os.path.join(path, "store")):
        if os.path.isdir(os.path.join(candidate, "commitlog")):
            return f"; there is one at {candidate}"
    return ""


def _os_text(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if isinstance(error.filename, str) else reason


def _os_code(error: OSError) -> ExitCode:
    if error.filename == STANDARD_OUTPUT:
        return ExitCode.UNAVAILABLE  # full or closed: the store refused nothing
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return ExitCode.REFUSED
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return ExitCode.NOT_FOUND
    return ExitCode.UNAVAILABLE
