"""``reput demo``: opens a store of RocketMQ's, appends, dispatches and reads back."""

from __future__ import annotations

from reput_cli.commands.demo.command import demo

__all__ = ["demo"]
