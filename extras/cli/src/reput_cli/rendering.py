"""One message as JSON for programs, and its body as text for people."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from reput_cli.escape import readable

if TYPE_CHECKING:
    from reput.record import MessageView

__all__ = ["BODY_FORMS", "body_text", "encoded_body", "host_text", "message_document"]

BODY_FORMS = ("text", "hex", "base64", "none")

_TRANSACTIONS = {0x0: "none", 0x4: "prepared", 0x8: "commit", 0xC: "rollback"}


def message_document(
    message: MessageView, queue_offset: int | None = None, body: str = "text"
) -> dict[str, Any]:
    """Every field of ``message``; the keys are part of our promise (``docs/cli.md``).

    Args:
        message: the message.
        queue_offset: its place in the queue that was read; what the record says when left out.
        body: one of `BODY_FORMS`; ``"text"`` falls back to base64 for what is not UTF-8.
    """
    document = {
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset if queue_offset is None else queue_offset,
        "physical_offset": message.physical_offset,
        "size": message.size,
        "msg_id": message.msg_id,
        "store_timestamp": message.store_timestamp,
        "born_timestamp": message.born_timestamp,
        "store_host": host_text(message.store_host),
        "born_host": host_text(message.born_host),
        "tags": message.tags,
        "keys": list(message.keys),
        "properties": message.properties,
        "flag": message.flag,
        "sys_flag": message.sys_flag,
        "transaction": _TRANSACTIONS[message.transaction],
        "compression": message.compression,
        "reconsume_times": message.reconsume_times,
        "prepared_transaction_offset": message.prepared_transaction_offset,
        "body_size": len(message.body),
        "body_crc": message.body_crc,
    }
    if body != "none":
        document["body"], document["body_encoding"] = encoded_body(message.body, body)
    return document


def encoded_body(body: bytes, form: str) -> tuple[str, str]:
    """A body as text and the name of its encoding: ``utf-8``, ``base64`` or ``hex``."""
    if form == "hex":
        return body.hex(), "hex"
    if form == "text":
        try:
            return body.decode(), "utf-8"
        except UnicodeDecodeError:
            pass
    return base64.b64encode(body).decode(), "base64"


def body_text(body: bytes, form: str) -> str:
    """A body for people; one line, nothing in it that a terminal would obey."""
    if form == "text":
        return readable(body)
    return "" if form == "none" else encoded_body(body, form)[0]


def host_text(host: tuple[str, int]) -> str:
    """``127.0.0.1:10911``, ``[::1]:10911``."""
    address, port = host
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
