"""What ``reput put`` has stored: counted, and shown at the end."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from reput_tools.cli.kit.output import format_count, format_rate, format_size, print_facts
from reput_tools.cli.kit.programname import program
from reput_tools.cli.kit.timestamps import format_duration

if TYPE_CHECKING:
    from reput.log import BatchReceipt

_QUEUES_SHOWN = 16
_WORTH_A_RATE = 1_000  # below this, most of the time went into opening the store


class PutResult:
    """The messages stored so far."""

    def __init__(self) -> None:
        self.line_count = 0
        self.count = 0
        self.size = 0
        self.first_msg_id: str | None = None
        self.last_msg_id: str | None = None
        self.queues: dict[int, tuple[int, int]] = {}
        """First queue offset and the one after the last, by queue id."""
        self.receipt: BatchReceipt | None = None

    def add(self, receipt: BatchReceipt) -> None:
        """Count what a put has stored."""
        self.receipt = receipt
        self.count += len(receipt)
        self.size += int(receipt.sizes.sum())
        self.first_msg_id = self.first_msg_id or receipt[0].msg_id
        self.last_msg_id = receipt[len(receipt) - 1].msg_id
        for queue_id in set(receipt.queue_ids.tolist()):
            offsets = receipt.queue_offsets[receipt.queue_ids == queue_id]
            first, _ = self.queues.get(queue_id, (int(offsets[0]), 0))
            self.queues[queue_id] = first, int(offsets[-1]) + 1

    def document(self, topic: str, seconds: float) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "topic": topic,
            "message_count": self.count,
            "log_size": self.size,
            "first_msg_id": self.first_msg_id,
            "last_msg_id": self.last_msg_id,
            "queues": [
                {"queue_id": queue_id, "first_queue_offset": first, "end_queue_offset": end}
                for queue_id, (first, end) in sorted(self.queues.items())
            ],
            "seconds": round(seconds, 3),
        }


def print_stored(stored: PutResult, path: str, topic: str, seconds: float) -> None:
    """Print how many messages were stored, where, and what reads them."""
    if not stored.count:
        click.echo("The input was empty: nothing to store.")
        return
    rate = ""
    if stored.count >= _WORTH_A_RATE:
        rate = f" in {format_duration(seconds)}, {format_rate(stored.count, seconds)}"
    amount = f"{format_count(stored.count, 'message')}, {format_size(stored.size)} of log"
    click.echo(f"Stored {amount}{rate}.")
    facts = [
        (
            f"{topic}/{queue_id}",
            f"queue offset {first}" + (f" to {end - 1}" if end - 1 > first else ""),
        )
        for queue_id, (first, end) in sorted(stored.queues.items())[:_QUEUES_SHOWN]
    ]
    if len(stored.queues) > len(facts):
        facts.append(("…", format_count(len(stored.queues) - len(facts), "more queue")))
    facts.append(("message id", stored.first_msg_id or ""))
    if stored.count > 1:
        facts.append(("to", stored.last_msg_id or ""))
    print_facts(facts)
    queue_id, (first, _) = min(stored.queues.items())
    where = f"{shlex.quote(path)} {shlex.quote(topic)}"
    which = f"--queue {queue_id} --from {first}"
    if len(stored.queues) > 1:
        which = f"--last {stored.count}"
    click.echo(f"Read them: {program()} cat {where} {which}")
