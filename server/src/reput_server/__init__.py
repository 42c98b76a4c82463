"""A broker and a name server over a store, for RocketMQ's clients and admin tools."""

from __future__ import annotations
