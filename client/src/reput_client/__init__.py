"""Producers and consumers at brokers of RocketMQ, and at reput's server."""

from __future__ import annotations
