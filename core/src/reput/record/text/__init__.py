"""Text in records: properties, topics, and how Java decodes and hashes their bytes.

This package works on bytes of text and columns of texts. It must not know records.
"""

from __future__ import annotations
