"""Text in records: properties, topics, and what Java makes of their bytes.

This room knows bytes of text and columns of them. It must not know records.
"""

from __future__ import annotations
