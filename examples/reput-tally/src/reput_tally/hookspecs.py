"""What `reput_tally.tally` asks of plugins."""

from __future__ import annotations

from reput.plugin import hookspec


@hookspec(firstresult=True)
def reput_tally_count(root: str, topic: str) -> int | None:
    """Return how many messages of a topic the plugin's files know; None if they do not count."""
