"""How long a reput store keeps its messages: by age, by size, and by space on the disk."""

from __future__ import annotations

from reput_retention.cleaner import expire_log
from reput_retention.cleanplan import CleanPlan, ExpiryReport, Removal
from reput_retention.config import ROCKETMQ_RETENTION, RetentionConfig
from reput_retention.plugin import RetentionPlugin

__all__ = [
    "ROCKETMQ_RETENTION",
    "CleanPlan",
    "ExpiryReport",
    "Removal",
    "RetentionConfig",
    "RetentionPlugin",
    "expire_log",
]
