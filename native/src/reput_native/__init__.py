"""Compiled kernels of reput; `reput.engine` calls them, and nobody else does.

Each has the name of the Python function that says what it does.
"""

from __future__ import annotations

from reput_native._fits import check

check()

from reput_native._kernels import (  # noqa: E402 - an interpreter that does not fit loads none
    INTERFACE,
    Appender,
    FlushLeader,
    FlushRequests,
    Http2Connection,
    MessageView,
    __version__,
    append_rows,
    concerns_any,
    concerns_columns,
    cut_window,
    java_string_hash_column,
    joined_texts,
    keys_of_texts,
    layout,
    make_items,
    map_size,
    plain_values,
    property_maps,
    property_places,
    provoke_panic,
    queue_offsets_of_rows,
    read_pieces,
    read_whole,
    rows_of_columns,
    rows_of_messages,
    send_lane,
    sound_columns,
    sound_messages,
    texts_of,
    topic_table,
    units_by_queue,
    write_pieces,
    write_sockets,
)

__all__ = [
    "INTERFACE",
    "Appender",
    "FlushLeader",
    "FlushRequests",
    "Http2Connection",
    "MessageView",
    "__version__",
    "append_rows",
    "concerns_any",
    "concerns_columns",
    "cut_window",
    "java_string_hash_column",
    "joined_texts",
    "keys_of_texts",
    "layout",
    "make_items",
    "map_size",
    "plain_values",
    "property_maps",
    "property_places",
    "provoke_panic",
    "queue_offsets_of_rows",
    "read_pieces",
    "read_whole",
    "rows_of_columns",
    "rows_of_messages",
    "send_lane",
    "sound_columns",
    "sound_messages",
    "texts_of",
    "topic_table",
    "units_by_queue",
    "write_pieces",
    "write_sockets",
]
