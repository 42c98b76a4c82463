"""``reput schedule``: what waits in a store, for people."""

from __future__ import annotations

from reput_schedule.command.command import schedule

__all__ = ["schedule"]
