"""Threads that read the log and call plugins with what they read. No door."""

from __future__ import annotations
