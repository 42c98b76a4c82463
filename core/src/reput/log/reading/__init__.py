"""The log for those who only read: windows, damage, splits, and the log of another process.

This room finds records where they are. It must not know who writes, or how.
"""

from __future__ import annotations
