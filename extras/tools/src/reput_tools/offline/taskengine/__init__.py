"""Runs tasks in several processes, and reads logs by such tasks."""

from __future__ import annotations
