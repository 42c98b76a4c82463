"""What offline tools ask of this plugin, by hooks of reput-tools; no running store calls it."""

from __future__ import annotations
