"""Options and arguments that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from reput_tools.cli.kit.units import Seconds


class CheckedPath(click.Path):
    """The path of a file or a directory: `click.Path`, and a text that can be a path.

    An empty text is mostly a shell's unset variable.
    """

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | os.PathLike[str]:
        """Return the path.

        Raises:
            click.BadParameter: the text is empty or contains a NUL byte, or `click.Path` refuses
                it.
        """
        text = os.fsdecode(value)
        if not text:
            self.fail('the path is empty; "." is the working directory', param, ctx)
        if "\0" in text:
            self.fail("the path contains a NUL byte, and no name of a file can", param, ctx)
        return super().convert(value, param, ctx)


STORE_PATH = CheckedPath(file_okay=False, readable=False)
"""A store's directory. Opening it reports everything else that is wrong with it."""

_Command = TypeVar("_Command", bound=Callable[..., Any])


def path_argument(command: _Command) -> _Command:
    """PATH: the store's directory, and ``--follow-links``.

    Whether there is a store is checked by opening it. Applied after all options of the command, of
    which ``--follow-links`` is shown last, before ``--debug``.
    """
    own: list[click.Parameter] = getattr(command, "__click_params__", [])
    is_last = bool(own) and own[0].name == "debug"
    linked = follow_links_option(command)
    parameters: list[click.Parameter] = linked.__click_params__  # type: ignore[attr-defined]
    parameters.insert(int(is_last), parameters.pop())  # click shows the first one last
    return click.argument("path", type=STORE_PATH)(linked)


def follow_links_option(command: _Command) -> _Command:
    """Add ``--follow-links``; `reput_tools.cli.kit.storeopening.look_at` and openings obey it."""
    told = "Follow symbolic links inside of the store. Use it only for links that you created."
    return _flag_of_context("--follow-links", "follow_links", told)(command)


def not_empty(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Refuse an empty value; a callback of an option or argument for which empty means nothing.

    Mostly a shell's unset variable is the reason; going on would ignore the option.
    """
    texts = value if isinstance(value, tuple) else (value,)
    if any(text is not None and not text.strip() for text in texts):
        raise click.BadParameter("it is empty; leave it out, or give a value", context, parameter)
    return value


def read_set_options(given: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the values of ``--set PLUGIN.OPTION=VALUE`` by section and option.

    A value is JSON where it can be, else a text.

    Raises:
        click.BadParameter: a text of another form.
    """
    import json

    sections: dict[str, dict[str, Any]] = {}
    for each in given:
        name, is_given, text = each.partition("=")
        section, _, option = name.partition(".")
        if not (section and option and is_given):
            raise click.BadParameter(f"{each!r} is not PLUGIN.OPTION=VALUE", param_hint="--set")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        sections.setdefault(section, {})[option] = value
    return sections


def jobs_option(default: str) -> Callable[[_Command], _Command]:
    """Add ``-j`` and ``--jobs``: the number of processes; ``default`` says how many by default."""
    return click.option(
        "-j",
        "--jobs",
        metavar="N",
        type=click.IntRange(min=1),
        help=f"Number of processes. Default: {default}.",
    )


def timeout_option(command: _Command) -> _Command:
    """Add ``--timeout``: how long to wait for a process that has the store open."""
    return click.option(
        "--timeout",
        metavar="SECONDS",
        type=Seconds(min=0),
        default=10.0,
        show_default=True,
        help="How long to wait for a process that has the store open.",
    )(command)


def with_debug(command: _Command) -> _Command:
    """Add ``--debug`` after the command's name too, where users add it after a failure."""
    told = "Show log lines, and where an error came from."
    return _flag_of_context("--debug", "debug", told)(command)


def _flag_of_context(flag: str, name: str, told: str) -> Callable[[_Command], _Command]:
    """Add a flag that the context remembers by ``name``, so that no command has to pass it on."""

    def remember(context: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            context.ensure_object(dict)[name] = True

    return click.option(flag, is_flag=True, expose_value=False, callback=remember, help=told)


def read_time(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Return ms since the epoch of a time, or of a time ago; a callback of an option."""
    if value is None:
        return None
    from reput.files import system_clock
    from reput_tools.cli.kit.timestamps import parse_start

    try:
        start = parse_start(value, system_clock())
    except ValueError:
        start = None
    if start is None or start.kind != "time":
        text = (
            "a time ago (-90s, -1h, -2d), a time (2026-01-31T12:00:00Z), @ and ms since the epoch"
        )
        raise click.BadParameter(f"{value!r} is none of: {text}", context, parameter)
    return start.value
