"""``reput demo``: opens a RocketMQ store, appends, dispatches and reads back."""

from __future__ import annotations

from reput_tools.cli.command.demo.democommand import demo

__all__ = ["demo"]
