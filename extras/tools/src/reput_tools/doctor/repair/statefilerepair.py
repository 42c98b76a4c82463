"""Checks the small files beside a log: the checkpoint and the state file.

Nothing in them is needed for a repair, which makes all of them again. Damaged ones are named.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from reput.errors import UnsafePathError
from reput.files import OWN_DIRECTORY
from reput.log import Checkpoint, StateFile
from reput_tools.doctor.repair.loglayout import Notice

if TYPE_CHECKING:
    from reput_tools.offline import Traces

_AHEAD_MS: Final = 60_000
_AGAIN: Final = "it is recreated"


def damaged_notes(traces: Traces, max_store_timestamp: int, end_offset: int) -> list[Notice]:
    """Return the damaged small files of a store.

    Args:
        traces: the store.
        max_store_timestamp: the latest of the log's records, ms.
        end_offset: the log's end.
    """
    found = [*_checkpoint(traces, max_store_timestamp)]
    for kind, name, problem in _problems(traces, end_offset):
        found.append(Notice(name, kind, f"{problem}; {_AGAIN}"))
    return found


def _checkpoint(traces: Traces, max_store_timestamp: int) -> Iterator[Notice]:
    path = os.path.join(traces.root, "checkpoint")
    if not traces.disk.exists(path):
        if max_store_timestamp:
            yield Notice(
                "checkpoint",
                "checkpoint.missing",
                "it is missing; the store writes it when it is next opened for writing",
            )
        return
    data = _read(traces, path)
    if data is None or len(data) < Checkpoint.SIZE_MIN:
        size = "it cannot be read" if data is None else f"it has {len(data)} bytes"
        yield Notice("checkpoint", "checkpoint.short", f"{size}; {_AGAIN}")
        return
    found = Checkpoint.load(path, traces.disk)
    times = {
        "log": found.log_timestamp,
        "queues": found.queues_timestamp,
        "index": found.index_timestamp,
    }
    for name, time in times.items():
        if time < 0 or time > max_store_timestamp + _AHEAD_MS:
            text = f"its time for the {name} is {time}, the latest message's {max_store_timestamp}"
            yield Notice("checkpoint", "checkpoint.ahead", f"{text}; {_AGAIN}")


def _problems(traces: Traces, end_offset: int) -> Iterator[tuple[str, str, str]]:
    file = f"{OWN_DIRECTORY}/state"
    state = StateFile.of(traces.root, traces.disk, lambda error: None)
    if state.damage:
        yield "reput.state", file, f"{state.damage}; what can be read of it is taken over"
    for name, place in traces.places():
        if place.physical_offset > end_offset:
            text = f"it says {place.physical_offset} for {name}, and the log ends at {end_offset}"
            yield "reput.state", file, text


def _read(traces: Traces, path: str) -> bytes | None:
    try:
        return traces.disk.read_file(path, 4096)
    except UnsafePathError:
        raise
    except OSError:
        return None
