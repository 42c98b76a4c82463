"""The store: opens, closes, puts and answers, by what the rooms below it can do.

This room puts the others together. It must not know a format. No door of its own: the door is
`reput`.
"""

from __future__ import annotations
