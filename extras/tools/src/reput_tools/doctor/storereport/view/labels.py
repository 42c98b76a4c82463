"""What values of a report are called, in a terminal and on a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reput_tools.cli.kit import format_size
from reput_tools.doctor.storereport.concerns import format_age

if TYPE_CHECKING:
    from reput_tools.doctor.storereport.reportmodel import Bucket


def age_label(bucket: Bucket) -> str:
    """Return what a bucket of ages is called."""
    if bucket.least is None:
        return "in the future"
    if bucket.below is None:
        return f"{_span(bucket.least)} and more"
    return f"{_span(bucket.least)} to {_span(bucket.below)}"


def size_label(bucket: Bucket) -> str:
    """Return what a bucket of sizes is called."""
    if not bucket.least or bucket.below is None:
        return "empty"
    return f"{format_size(bucket.least)} to {format_size(bucket.below)}"


def delay_label(bucket: Bucket) -> str:
    """Return what a bucket of times from born to stored is called."""
    if bucket.least is None or bucket.below is None:
        return "before it was born"
    if bucket.below == 1:
        return "0 ms"
    return f"{format_age(bucket.least / 1000)} to {format_age(bucket.below / 1000)}"


def first_message(damage: Mapping[str, Any]) -> str | None:
    """Return ``orders/0@12`` for the first message of a damage; None where it is not known."""
    if damage["topic"] is None:
        return None
    return f"{damage['topic']}/{damage['queue_id']}@{damage['queue_offset']}"


def _span(duration_ms: int) -> str:
    hours = duration_ms // 3_600_000
    return f"{hours // 24} d" if hours >= 24 else f"{hours} h"
