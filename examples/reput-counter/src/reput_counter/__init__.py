"""A plugin for reput that counts messages and bytes by topic, tag and minute."""

from __future__ import annotations

from reput_counter.plugin import CounterPlugin

__all__ = ["CounterPlugin"]
