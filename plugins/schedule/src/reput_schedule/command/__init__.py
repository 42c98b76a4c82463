"""``reput schedule``: what waits in a store, for people."""

from __future__ import annotations

from reput_schedule.command.schedulecommand import schedule

__all__ = ["schedule"]
