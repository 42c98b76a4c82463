"""Consume queues for reput: read a store by topic, queue id and queue offset, and by time."""

from __future__ import annotations

from reput_consumequeue.config import ConsumeQueueConfig
from reput_consumequeue.plugin import ConsumeQueuePlugin

__all__ = ["ConsumeQueueConfig", "ConsumeQueuePlugin"]
