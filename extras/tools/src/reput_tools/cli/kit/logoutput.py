"""Shows what the library logs as lines on stderr."""

from __future__ import annotations

import logging

import click

from reput_tools.cli.kit.escape import escape_text

_LOGGED_MAX = 1_000
_logged: list[str] = []


class _LogLines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        # click looks up stderr at each call: tests replace it.
        message = record.getMessage()
        if len(_logged) < _LOGGED_MAX:
            _logged.append(message)
        text = f"reput: {record.levelname.lower()}: {message}"
        click.echo(escape_text(text), err=True)


def was_logged(text: str) -> bool:
    """Return whether a log line of this command has said ``text``."""
    return text in _logged


def show_log_lines() -> None:
    """Show warnings of reput and its plugins; all messages where ``--debug`` was given."""
    _logged.clear()
    context = click.get_current_context(silent=True)
    debug = context is not None and bool((context.obj or {}).get("debug"))
    # Plugins log under names of their own distributions, so the handler is at the root.
    root = logging.getLogger()
    root.setLevel(logging.DEBUG if debug else logging.WARNING)
    if not any(isinstance(handler, _LogLines) for handler in root.handlers):
        root.addHandler(_LogLines())
