"""``reput demo``: a store of RocketMQ's opened, filled, dispatched and read back."""

from __future__ import annotations

from reput_cli.commands.demo.command import demo

__all__ = ["demo"]
