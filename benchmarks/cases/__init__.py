"""The measured work, a module for each subject."""

from __future__ import annotations

import itertools

from benchmarks.case import Case
from benchmarks.cases import (
    append,
    compaction,
    consumer,
    derive,
    doctor,
    durable,
    follow,
    frames,
    groups,
    growth,
    grpc,
    index,
    isolation,
    killing,
    latency,
    ledger,
    opening,
    pages,
    peers,
    read,
    rebuild,
    report,
    scan,
    schedule,
    serve,
    spark_compact,
    spark_export,
    spark_read,
    spark_stream,
    spark_write,
    table,
    timer,
    transaction,
    web,
)
from benchmarks.cases import (
    filter as filters,
)
from benchmarks.java.jobs import CASES as BESIDE_JAVA

__all__ = ["ALL", "BESIDE_JAVA", "by_name"]

ALL: tuple[Case, ...] = tuple(
    itertools.chain.from_iterable(
        module.cases()
        for module in (
            append,
            durable,
            derive,
            index,
            table,
            rebuild,
            doctor,
            report,
            compaction,
            spark_compact,
            scan,
            spark_read,
            spark_stream,
            spark_write,
            spark_export,
            frames,
            read,
            consumer,
            groups,
            filters,
            latency,
            isolation,
            ledger,
            opening,
            killing,
            schedule,
            timer,
            transaction,
            web,
            pages,
            serve,
            grpc,
            follow,
            growth,
            peers,
        )
    )
)


def by_name(name: str) -> Case:
    """Return the case of that name, be it one of `ALL` or of `BESIDE_JAVA`.

    Raises:
        KeyError: it does not exist.
    """
    for case in (*ALL, *BESIDE_JAVA):
        if case.name == name:
            return case
    raise KeyError(name)
