"""Reading the log: windows, damage, splits, and the log of a writer in another process.

This package finds records. It must not know how the log is written.
"""

from __future__ import annotations
