"""A plugin for reput that counts messages: how many, and how large, per topic and day."""

from __future__ import annotations

from reput_audit.plugin import AuditConfig, AuditPlugin, read_counts

__all__ = ["AuditConfig", "AuditPlugin", "read_counts"]
