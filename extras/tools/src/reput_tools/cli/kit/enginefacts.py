"""What a command says of the engine that runs the kernels of this process."""

from __future__ import annotations

from typing import Any


def engine_document() -> dict[str, Any]:
    """For programs: name, version of reput-native where that runs, and why."""
    from reput.engine import ENGINE

    return {"name": ENGINE.name, "version": ENGINE.version, "reason": ENGINE.reason}


def engine_line() -> tuple[str, str]:
    """For people: one fact."""
    from reput.engine import ENGINE

    return "engine", str(ENGINE)
