"""Writing the log, by its only writer: append, roll, flush, receipts and queue offsets.

This room appends to a sound log. It must not know recovery.
"""

from __future__ import annotations
