"""Retention: which files of the log go, when, and who is told before.

This room decides and removes. It must not know how a store is opened or what a put is. No door:
what is inside may change in any release.
"""

from __future__ import annotations
