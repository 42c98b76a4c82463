"""``reput`` itself: lists commands, loads the one that is called, turns errors into exit codes."""

from __future__ import annotations

import importlib
import os
import sys
from functools import partial
from typing import Any

import click

import reput as package
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.failures import Failure, failure_of, usage_failure
from reput_tools.cli.kit.options import with_debug
from reput_tools.cli.kit.suggestions import did_you_mean
from reput_tools.cli.lazycommand import SECTIONS, LazyCommand
from reput_tools.cli.plugincommands import plugin_commands

# In the order in which a newcomer needs them, each with its section and its line in the list.
_COMMANDS = {
    "demo": ("", "Open a RocketMQ store, fill it, dispatch its messages and read them back."),
    "info": ("read", "Show what a store holds, and its state."),
    "cat": ("read", "Print the messages of a topic."),
    "get": ("read", "Show one message."),
    "grep": ("read", "Find messages by body, key, tag, property and time."),
    "put": ("write", "Store lines as messages."),
    "fill": ("write", "Give files that grow their full size, for a broker."),
    "plugins": ("plugins", "List the installed plugins, or the plugins of a store."),
    "backfill": ("plugins", "Let a plugin catch up to the end of the log."),
    "rebuild": ("plugins", "Rebuild the files of plugins, on all cores."),
    "suspend": ("plugins", "Suspend a plugin, so that it gets no messages until you resume it."),
    "resume": ("plugins", "Resume a plugin that was suspended or has failed."),
    "dead-letters": ("plugins", "List messages that a plugin skipped."),
    "losses": ("doctor", "List what the log has lost."),
    "completion": ("", "Print a script that lets a shell complete commands, topics and plugins."),
}


# click 8.2 and newer raise it for a group without a command: its text is the help.
_HELP_SHOWN: tuple[type[click.UsageError], ...] = tuple(
    filter(None, [getattr(click.exceptions, "NoArgsIsHelpError", None)])
)


class ReputGroup(click.Group):
    """A group whose commands, ours and those of other distributions, are imported when called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return our commands in a newcomer's order, then those of other distributions by name."""
        return [*_COMMANDS, *_added(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> LazyCommand | None:
        """Return the command of that name without importing it; ours take precedence."""
        if cmd_name not in _COMMANDS:
            return _added(ctx).get(cmd_name)
        section, line = _COMMANDS[cmd_name]
        return LazyCommand(cmd_name, line, partial(_load, cmd_name), section)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by section; those without one under "Other commands"."""
        found = [
            (name, command)
            for name in self.list_commands(ctx)
            if (command := self.get_command(ctx, name)) is not None
        ]
        width = max(len(name) for name, _ in found)
        room = formatter.width - 6 - width
        for section, heading in (*SECTIONS.items(), ("", "Other commands")):
            rows = [
                (name.ljust(width), command.get_short_help_str(room))  # aligned over all sections
                for name, command in found
                if command.section == section
            ]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is called; for an unknown one say which it may be, and where."""
        name = args[0]
        is_unknown = not name.startswith("-") and self.get_command(ctx, name) is None
        if is_unknown and not ctx.resilient_parsing:  # completion ignores an unknown one
            from reput_tools.cli.missingcommands import how_to_get

            if (step := how_to_get(name)) is not None:
                raise Failure(step, ExitCode.UNAVAILABLE)
            known = f"`{ctx.command_path} --help` lists all"
            hint = did_you_mean(name, self.list_commands(ctx)) or f"; {known}"
            raise click.UsageError(f"No such command {name!r}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the command line; ``--help`` and ``--version`` already print here."""
        try:
            return super().make_context(*args, **kwargs)
        except _HELP_SHOWN:
            raise
        except click.UsageError as error:
            raise usage_failure(error) from None
        except BrokenPipeError:
            _abandon_stdout()
            raise click.exceptions.Exit(ExitCode.OUTPUT_CLOSED) from None
        except OSError as error:
            _abandon_stdout()
            raise failure_of(error) from error

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; each way in which it can end has an exit code."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except click.exceptions.Exit:
            raise
        except _HELP_SHOWN:
            raise
        except click.UsageError as error:
            _trace(ctx, error.__cause__)
            raise usage_failure(error) from None
        except click.ClickException as error:
            _trace(ctx, error.__cause__)
            raise
        except (KeyboardInterrupt, click.Abort):
            raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None
        except BrokenPipeError:
            _abandon_stdout()
            raise click.exceptions.Exit(ExitCode.OUTPUT_CLOSED) from None
        except Exception as error:
            _trace(ctx, error)
            try:
                sys.stdout.flush()
            except OSError:
                _abandon_stdout()
            raise failure_of(error) from error
        return result


def _added(ctx: click.Context) -> dict[str, LazyCommand]:
    """Return commands of other distributions; they are looked up once in a run."""
    if __name__ not in ctx.meta:
        ctx.meta[__name__] = plugin_commands(taken=_COMMANDS)
    added: dict[str, LazyCommand] = ctx.meta[__name__]
    return added


def _load(name: str) -> click.Command:
    module = importlib.import_module(f"reput_tools.cli.command.{name.replace('-', '')}")
    command = getattr(module, name.replace("-", "_"))
    assert isinstance(command, click.Command)
    return command


def _trace(ctx: click.Context, error: BaseException | None) -> None:
    """Show where the error came from, if ``--debug`` was given."""
    if error is not None and (ctx.find_object(dict) or {}).get("debug"):
        import traceback

        traceback.print_exception(error)


def _abandon_stdout() -> None:
    """Redirect stdout to nowhere, so that the interpreter's last flush does not fail again."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        pass  # stdout is not a file here


@click.group(
    cls=ReputGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: "
    + ", ".join(f"{code.value} {code.name.lower().replace('_', ' ')}" for code in ExitCode)
    + ".",
)
@click.version_option(package.__version__, "-V", "--version", message="reput %(version)s")
@with_debug
@click.pass_context
def reput(context: click.Context) -> None:
    """Inspect, fill and read message stores. Their files have the format of Apache RocketMQ.

    Commands that read never change a byte, and another process may write the store meanwhile. Start
    with `reput demo`.
    """
    context.ensure_object(dict)
