"""The log for its one writer: append, roll, flush, receipts and queue offsets.

This room adds to the end of a log that is sound. It must not know how it became sound.
"""

from __future__ import annotations
