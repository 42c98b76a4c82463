"""Sizes and intervals that are no options of users: small ones, so that tests roll many files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import reput
import reput.plugin

Sizes = Mapping[str, Mapping[str, Any]]
"""Values of class attributes by section."""


def owner(section: str) -> type:
    """Return the class whose attributes have the sizes of a section."""
    if section == "commitlog":
        return reput.CommitLogConfig
    if section == "dispatch":
        return reput.DispatchConfig
    return next(each.load() for each in reput.plugin.installed() if each.name == section)


def resize(sizes: Sizes) -> None:
    """Set sizes in this process for good; the mark ``sizes`` sets them during a test."""
    for section, values in sizes.items():
        for name, value in values.items():
            assert hasattr(owner(section), name), f"{section} has no {name}"
            setattr(owner(section), name, value)
