"""What plugins are given and return in the hooks of `reput_offline.hookspecs`."""

from __future__ import annotations
