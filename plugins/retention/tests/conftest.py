"""Runs ``reput`` in this process, and makes stores that need no other plugin."""

from __future__ import annotations

from clistores import own_plugins, plain_store, plugin_store, run, writer

__all__ = ["own_plugins", "plain_store", "plugin_store", "run", "writer"]
