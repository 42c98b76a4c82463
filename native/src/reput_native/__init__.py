"""Compiled kernels of reput; `reput.engine` calls them, and nobody else does.

Each has the name of the Python function that says what it does.
"""

from __future__ import annotations

from reput_native._kernels import (
    INTERFACE,
    FlushTurns,
    __version__,
    cut_window,
    java_string_hash_column,
    keys_of_texts,
    make_items,
    property_places,
    provoke_panic,
    topic_table,
    units_by_queue,
)

__all__ = [
    "INTERFACE",
    "FlushTurns",
    "__version__",
    "cut_window",
    "java_string_hash_column",
    "keys_of_texts",
    "make_items",
    "property_places",
    "provoke_panic",
    "topic_table",
    "units_by_queue",
]
