"""Batch queues: their layout, and how they are built and read."""

from __future__ import annotations
