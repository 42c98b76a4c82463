"""Kinds of filters, as RocketMQ names them."""

from __future__ import annotations

from typing import Final

SQL92: Final = "SQL92"
TAG: Final = "TAG"
