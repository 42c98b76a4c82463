"""What a process was doing when it was killed: by the functions that its threads were in."""

from __future__ import annotations

import sys
from types import FrameType

_ACTIVITIES: dict[str, tuple[str, ...]] = {
    "retention": ("reput.dispatch.logtrimmer", "reput_retention"),
    "compaction": ("reput_compaction",),
    "flush": (
        "reput.dispatch.runtime.pluginflusher",
        "reput.log.writer.groupcommit",
        "reput.log.writer.flushleader",
    ),
    "work": ("reput.dispatch.runtime.workscheduler",),
    "plugin change": ("reput.dispatch.pluginlifecycle",),
    "dispatch": (
        "reput.dispatch.runtime.reputloop",
        "reput.dispatch.runtime.readgroup",
        "reput.dispatch.runtime.pluginrunner",
        "reput.dispatch.runtime.pluginthread",
    ),
    "put": ("reput.log.writer",),
    "group": ("reput_consumer",),
    "rebuild": ("reput_tools.offline",),
    "open": ("reput.store.opening", "reput.log.recovery"),
    "close": ("reput.store.closer", "reput.store.processexit"),
}
"""Modules of each activity; of several threads, the activity that comes first here counts."""

_WAITS = ("threading", "reput.signalsafe", "selectors", "socket")


def activity_of(frame: FrameType | None) -> str:
    """Return the innermost activity of a thread; "" if it waits, or does something else."""
    if frame is not None and frame.f_globals.get("__name__", "").startswith(_WAITS):
        return ""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        for activity, modules in _ACTIVITIES.items():
            if module.startswith(modules):
                return activity
        frame = frame.f_back
    return ""


def activity() -> str:
    """Return what this process is doing, by the calling thread or else by all the others."""
    own = activity_of(sys._getframe(1))
    if own:
        return own
    found = {activity_of(frame) for frame in sys._current_frames().values()}
    return next((each for each in _ACTIVITIES if each in found), "")
