"""Retention: which files of the log are removed, when, and which plugins are asked and notified.

This room decides and removes. It must not know how a store is opened or what a put is. It is no
door: everything in it may change in any release.
"""

from __future__ import annotations
