"""Exit codes of ``reput``: stable, one meaning each, the same for every command."""

from __future__ import annotations

import enum


class ExitCode(enum.IntEnum):
    """The exit codes; ``docs/cli.md`` shows this list."""

    OK = 0
    """Done, and nothing wrong was found."""
    DAMAGED = 1
    """Damage or a difference was found; the output shows where."""
    USAGE = 2
    """The command line is wrong; nothing was done. (click's own code.)"""
    NOT_FOUND = 3
    """No store, topic, queue or message there, or no such plugin in the store."""
    LOCKED = 4
    """Another process uses the store: the command needs it alone, or its request was not taken."""
    UNAVAILABLE = 5
    """Something needed is missing or unusable: a plugin, an option, a permission, the output."""
    REFUSED = 6
    """A message was refused or not written, or a question was answered with no."""
    WARNED = 7
    """No damage was found, but something that needs attention."""
    LOST = 8
    """Messages are lost, or cannot be read any more; the output describes the loss."""
    INTERNAL = 70
    """A bug in reput or in a plugin."""
    INTERRUPTED = 130
    """Ctrl-C (128 + SIGINT)."""
    OUTPUT_CLOSED = 141
    """The reader of the output went away, as in ``| head`` (128 + SIGPIPE)."""
