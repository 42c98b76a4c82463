"""What offline tools ask of this plugin, by hooks of reput-offline; no running store calls it."""

from __future__ import annotations
