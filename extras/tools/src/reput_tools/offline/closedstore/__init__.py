"""A store that no program has open: looked at without a lock, or held by it and changed."""

from __future__ import annotations
