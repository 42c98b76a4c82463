"""``reput demo``: opens a RocketMQ store, appends, dispatches and reads back."""

from __future__ import annotations

from reput_cli.commands.demo.command import demo

__all__ = ["demo"]
