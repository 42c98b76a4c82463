"""Decoding: the large log as columns, nothing written."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.case import BODIES, Case, body_name
from benchmarks.stores import open_large
from benchmarks.tables import SCAN
from benchmarks.trial import Trial


def cases() -> Iterator[Case]:
    """Borders, headers and topics; the same with every body's checksum; with keys and tags."""
    for body in BODIES:
        name = body_name(body)
        for suffix, run in (
            ("", partial(scan, label="reput, decode", baseline=True)),
            (".crc", partial(scan, label="reput, decode and check CRC", check_crc=True)),
            (".keys", partial(scan, label="reput, decode, hash tags and keys", keys=True)),
        ):
            yield Case(
                name=f"scan.{name}{suffix}",
                table=SCAN,
                run=run,
                body_size=body,
                big_log=True,
            )


def scan(
    trial: Trial,
    *,
    label: str,
    baseline: bool = False,
    check_crc: bool = False,
    keys: bool = False,
) -> None:
    """Decode all batches of the log."""
    assert trial.big_log is not None
    trial.warm_up()
    count = 0
    with open_large(trial.big_log, mode="r") as store:
        size = store.log.max_physical_offset - store.log.min_physical_offset
        with trial.timed(label, 0, size, baseline=baseline) as measured:
            for batch in store.scan(check_crc=check_crc):
                count += len(batch)
                if keys:
                    for property_name in ("TAGS", "KEYS", "UNIQ_KEY"):
                        batch.text(property_name).java_hash()
        expected = sum(queue.message_count for queue in store.queues())
    measured.count = count
    trial.require(count == expected, f"{count} records, {expected} in the queues")
