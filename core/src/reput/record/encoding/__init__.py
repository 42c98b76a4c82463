"""Encodes messages as records, one by one or many at once.

This package writes what `reput.record.decode` reads. It must not know where records are kept.
"""

from __future__ import annotations
