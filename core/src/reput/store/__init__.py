"""The store: opens, closes, puts and reads, by means of the rooms below it.

This room composes the others. It must not know a format. It is no door: its door is `reput`.
"""

from __future__ import annotations
