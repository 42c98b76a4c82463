"""Kinds of filters, as RocketMQ names them."""

from __future__ import annotations

from typing import Final

__all__ = ["SQL92", "TAG"]

SQL92: Final = "SQL92"
TAG: Final = "TAG"
