"""Writing the log, by its only writer: append, roll, flush, receipts and queue offsets.

This package appends to a valid log. It must not know recovery.
"""

from __future__ import annotations
