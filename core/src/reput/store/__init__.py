"""The store: opens, closes, puts and reads, by means of the packages below it.

This package composes the others. It must not know a format. Its public names are in `reput`.
"""

from __future__ import annotations
