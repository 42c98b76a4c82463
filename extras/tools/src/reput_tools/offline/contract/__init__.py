"""What plugins are given and return in the hooks of `reput_tools.offline.hookspecs`."""

from __future__ import annotations
