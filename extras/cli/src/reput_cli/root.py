"""``reput`` itself: lists commands, loads the one asked for, turns errors into exit codes."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import click

import reput as package
from reput_cli.exitcodes import ExitCode
from reput_cli.failures import failure_of
from reput_cli.options import with_debug
from reput_cli.plugincommands import PluginCommands

__all__ = ["ReputGroup", "reput"]

# In the order in which a newcomer needs them.
_COMMANDS = (
    "demo",
    "info",
    "cat",
    "get",
    "grep",
    "put",
    "plugins",
    "backfill",
    "rebuild",
    "suspend",
    "resume",
    "dead-letters",
    "losses",
    "clean",
)


class ReputGroup(click.Group):
    """A group whose commands are modules, imported when they are named, and those of plugins."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._plugin_commands = PluginCommands()

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Ours in a newcomer's order, then those of plugins by name."""
        added = self._plugin_commands.all()
        return [*_COMMANDS, *(name for name in sorted(added) if name not in _COMMANDS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name; ours before those of plugins."""
        if cmd_name not in _COMMANDS:
            return self._plugin_commands.find(cmd_name)
        module = importlib.import_module(f"reput_cli.{cmd_name.replace('-', '')}")
        command = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the command line; ``--help`` and ``--version`` print here already."""
        try:
            return super().make_context(*args, **kwargs)
        except BrokenPipeError:
            _abandon_stdout()
            raise click.exceptions.Exit(ExitCode.OUTPUT_CLOSED) from None
        except OSError as error:
            _abandon_stdout()
            raise failure_of(error) from error

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; every way in which it can end has its exit code."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except (click.ClickException, click.exceptions.Exit):
            raise
        except (KeyboardInterrupt, click.Abort):
            raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None
        except BrokenPipeError:
            _abandon_stdout()
            raise click.exceptions.Exit(ExitCode.OUTPUT_CLOSED) from None
        except Exception as error:
            if (ctx.find_object(dict) or {}).get("debug"):
                import traceback

                traceback.print_exc()
            try:
                sys.stdout.flush()
            except OSError:
                _abandon_stdout()
            raise failure_of(error) from error
        return result


def _abandon_stdout() -> None:
    """Let the interpreter flush what is left to nowhere, instead of failing once more at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        pass  # stdout is no file here


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
    """Look into message stores, fill them, read them: the files are those of Apache RocketMQ.

    Reading commands never change a byte, also while another process writes the store. Start with
    `reput demo`.
    """
    context.ensure_object(dict)
