"""Commands of reput's other distributions: what to install for one that is missing."""

from __future__ import annotations

from typing import Final

from reput.installhints import install_command

_NEEDED: Final = {
    ("clean",): ("retention",),
    ("compact",): ("compaction",),
    ("browse",): ("web",),
    ("consume", "dlq", "groups", "reset-offset", "topics"): ("consumequeue", "consumer"),
    ("export", "import"): ("arrow",),
    ("follow", "promote"): ("consumequeue", "consumer", "aio", "client", "server"),
    ("schedule",): ("consumequeue", "schedule"),
    ("scrub",): ("integrity",),
    ("serve",): ("consumequeue", "consumer", "aio", "client", "server"),
    ("spark",): ("arrow", "spark"),
    ("sql",): ("arrow[sql]",),
    ("transactions",): ("consumequeue", "transaction"),
}
"""Distributions by commands: the last one has them; pip finds none of the others by itself."""


def how_to_get(name: str) -> str | None:
    """Return which distribution has the command, and how to install it; None if none has it."""
    for commands, needed in _NEEDED.items():
        if name in commands:
            owner = f"reput-{needed[-1].partition('[')[0]}"
            return f"reput {name} is part of {owner}: {install_command(*needed)}"
    return None
