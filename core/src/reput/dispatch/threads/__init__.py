"""Threads that dispatch the log to plugins, flush them, and run their work. No door."""

from __future__ import annotations
