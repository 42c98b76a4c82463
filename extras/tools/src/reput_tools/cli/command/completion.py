"""``reput completion``: prints what makes a shell complete ``reput``'s words."""

from __future__ import annotations

import os

import click

from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.failures import Failure
from reput_tools.cli.kit.options import with_debug

_SHELLS = ("bash", "zsh", "fish")
_EXAMPLES = """\b
Examples:
  reput completion bash >> ~/.bashrc
  reput completion zsh >> ~/.zshrc
  reput completion fish > ~/.config/fish/completions/reput.fish
  eval "$(reput completion bash)"
"""


@click.command(
    short_help="Print a script that lets a shell complete commands, topics and plugins.",
    epilog=_EXAMPLES,
)
@click.argument("shell", required=False, type=click.Choice(_SHELLS))
@with_debug
def completion(shell: str | None) -> None:
    """Print a script that lets SHELL complete what you type after `reput`.

    It completes commands and options, and the topics, queues and plugins of the store on the
    command line. It does not open the store. SHELL is by default the shell in $SHELL; bash must be
    4.4 or newer. The last example applies to the current bash only.
    """
    from click.shell_completion import get_completion_class

    shell = shell or os.path.basename(os.environ.get("SHELL", ""))
    kind = get_completion_class(shell) if shell in _SHELLS else None
    if kind is None:
        text = f"no completion for the shell {shell!r}; name one of: {', '.join(_SHELLS)}"
        raise Failure(text, ExitCode.UNAVAILABLE)
    program = click.get_current_context().find_root().command
    complete = kind(program, {}, "reput", "_REPUT_COMPLETE")
    click.echo(complete.source_template % complete.source_vars())
