"""Keys of the JSON of messages and of losses of the log; see `reput_tools.cli.kit.jsonkeys`."""

from __future__ import annotations

from typing import Final

MESSAGE_KEYS: Final = {
    "topic": "its topic",
    "queue_id": "its queue",
    "queue_offset": "its place in the queue that was read",
    "physical_offset": "the byte of the log at which its record begins",
    "size": "bytes of the record",
    "msg_id": "the offset message id, which contains the physical offset",
    "store_timestamp": "when the store took it",
    "born_timestamp": "when the producer made it",
    "store_host": "address of the store, `address:port`",
    "born_host": "address of the producer, `address:port`",
    "tags": "its tags, or null",
    "keys": "an array of its keys",
    "properties": "an object with all properties, tags and keys among them",
    "flag": "the producer's own number",
    "sys_flag": "RocketMQ's bits; they describe the body that is shown",
    "transaction": "`none`, `prepared`, `commit` or `rollback`",
    "compression": "the form in which the log has the body: `zlib`, `lz4`, `zstd` or null",
    "reconsume_times": "number of failed deliveries before this one",
    "prepared_transaction_offset": "place of the prepared message of a committed one",
    "body_size": "bytes of the body; decompressed, unless `--raw` is given",
    "body_crc": "checksum of the body as stored",
    "body": "the body; missing with `--body none`",
    "body_encoding": "`utf-8` if the body is text, otherwise `base64`; `--body` selects another",
}
LOST_MESSAGE_KEYS: Final = {
    "hole": "true; a message has no such member",
    "topic": "null if it is not known, as are the next two",
    "queue_id": "its queue",
    "queue_offset": "its place in the queue",
    "physical_offset": "where it was in the log",
    "size": "bytes lost there; 0 if not known",
    "reason": "why it is lost, for people",
}
PROBLEM_KEYS: Final = {"problem": "a part of the store that cannot be used, with its path"}

_FIRST_LOST: Final = {
    "reason": "the kind of damage, a short name such as `BODY_CRC`",
    "detail": "the values found and expected, for people",
    "topic": "topic of the first record lost; null if not known, as are the next two",
    "queue_id": "its queue",
    "queue_offset": "its place in the queue",
}
DAMAGE_KEYS: Final = {
    "file": "the file of the log",
    "position": "byte of this file",
    "physical_offset": "where the damage begins",
    "end_offset": "where it ends",
    "size": "bytes",
    **_FIRST_LOST,
}
LOSS_KEYS: Final = {
    "start_offset": "where the lost range begins",
    "end_offset": "where it ends",
    "size": "bytes",
    **_FIRST_LOST,
    "queue_end_offset": "after the last record, if all lost records are from one queue, as with "
    "the reason `GONE`; otherwise null",
    "keys": "keys of the first record lost, if its properties are readable",
    "action": "`filled`, `cut` or `skipped`",
    "kept": "path of a copy of the bytes, without the zeros at its end, or null",
    "timestamp": "when it was noticed",
}
TOPIC_KEYS: Final = {
    "topic": "its name",
    "message_count": "messages between the offsets of its queues; with `--scan`, the readable "
    "messages",
    "last_update_timestamp": "store time of its newest message, or null",
    "queues[].queue_id": "the queue",
    "queues[].min_queue_offset": "its first message",
    "queues[].max_queue_offset": "the place after its last message",
    "queues[].message_count": "its messages",
    "queues[].last_update_timestamp": "store time of its newest message, or null",
}
