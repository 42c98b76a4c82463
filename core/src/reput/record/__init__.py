"""Records: bytes as RocketMQ lays them out, and the messages and columns that they hold.

This package encodes messages to records and decodes records to messages and columns. It must not
know where records are kept: no file, no path, no position that a caller does not pass.
`reput.record.layout` is public, too: its constants are the format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.lazyexports import lazy_exports

if TYPE_CHECKING:
    from reput.record.batch import Corruption as Corruption
    from reput.record.batch import CorruptionKind as CorruptionKind
    from reput.record.batch import DispatchBatch as DispatchBatch
    from reput.record.batch import SpanRow as SpanRow
    from reput.record.batch import queue_keys as queue_keys
    from reput.record.batch import queue_of_key as queue_of_key
    from reput.record.checksum import crc32 as crc32
    from reput.record.compression import compression_name as compression_name
    from reput.record.compression import unpack_body as unpack_body
    from reput.record.decode import RECORD_SIZE_MAX as RECORD_SIZE_MAX
    from reput.record.decode import Decoder as Decoder
    from reput.record.decode import End as End
    from reput.record.decode import cut_window as cut_window
    from reput.record.encoding.batchencoder import Columns as Columns
    from reput.record.encoding.batchencoder import PreparedMany as PreparedMany
    from reput.record.encoding.batchencoder import prepare_columns as prepare_columns
    from reput.record.encoding.encoder import Encoder as Encoder
    from reput.record.encoding.encoder import Prepared as Prepared
    from reput.record.encoding.encoder import check_topic as check_topic
    from reput.record.encoding.lightqueues import check_light_queue as check_light_queue
    from reput.record.encoding.lightqueues import inner_counts as inner_counts
    from reput.record.encoding.lightqueues import inner_message_count as inner_message_count
    from reput.record.encoding.lightqueues import light_queue_names as light_queue_names
    from reput.record.encoding.orderedqueues import ordered_queue as ordered_queue
    from reput.record.entries import ENTRY_HEAD_SIZE as ENTRY_HEAD_SIZE
    from reput.record.innerbatches import unwrapped as unwrapped
    from reput.record.innerbatches import unwrapped_batch as unwrapped_batch
    from reput.record.messageids import pack_host as pack_host
    from reput.record.messageids import parse_message_id as parse_message_id
    from reput.record.messages.message import Host as Host
    from reput.record.messages.message import Message as Message
    from reput.record.messages.message import encode_property_text as encode_property_text
    from reput.record.messageview import MessageView as MessageView
    from reput.record.messageview import host_of as host_of
    from reput.record.messageview import message_at as message_at
    from reput.record.text.javatext import java_string_hash as java_string_hash
    from reput.record.text.javatext import java_string_hash_column as java_string_hash_column
    from reput.record.text.javatext import java_text as java_text
    from reput.record.text.properties import PropertyColumns as PropertyColumns
    from reput.record.text.properties import TextColumn as TextColumn
    from reput.record.text.properties import encode_properties as encode_properties
    from reput.record.text.properties import parse_properties as parse_properties
    from reput.record.text.textmatrix import fixed_rows as fixed_rows
    from reput.record.text.textmatrix import rows_by_width as rows_by_width
    from reput.record.text.textmatrix import words_at as words_at
else:
    __getattr__, __dir__ = lazy_exports(__name__)
