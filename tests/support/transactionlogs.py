"""Logs of transactions, made record by record and with nothing of the plugin's own code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs
from hypothesis import strategies as st

from reput.record import Message
from reput_testing import SmallLog

HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
OP = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"
COMMIT_FLAG = 0x8
BORN = 1_700_000_000_000


@attrs.define
class Half:
    """A half message in a log, as the log's maker remembers it."""

    number: int
    physical_offset: int
    queue_offset: int
    check_times: int = 0


class TransactionLog:
    """A `SmallLog`, and what was put into it."""

    def __init__(self, file_size: int = 4096) -> None:
        self.log = SmallLog(file_size)
        self.halves: list[Half] = []
        self.op_count = 0

    def properties(self, number: int, check_times: int = 0, group: str = "") -> dict[str, str]:
        found = {
            "UNIQ_KEY": f"7F0000010001A1B2C3D4{number:012X}",
            "TRAN_MSG": "true",
            "PGROUP": "g",
            "REAL_TOPIC": "orders",
            "REAL_QID": str(number % 3),
        }
        if check_times:
            found["TRANSACTION_CHECK_TIMES"] = str(check_times)
        if group:
            found["REPUT_TRANSACTION"] = group
        return found

    def message(self, topic: str, number: int, **options: Any) -> Message:
        return Message(
            topic,
            b"body %d" % number,
            born_timestamp=BORN + number,
            born_host=("10.0.0.1", 5000),
            **options,
        )

    def half(self, *, check_times: int = 0, number: int | None = None, group: str = "") -> Half:
        number = len(self.halves) if number is None else number
        properties = self.properties(number, check_times, group)
        offset = self.log.append(self.message(HALF, number, properties=properties))
        made = Half(number, offset, len(self.halves), check_times)
        self.halves.append(made)
        return made

    def copy(self, half: Half, group: str = "") -> Half:
        """What a check puts in the place of a half message."""
        return self.half(check_times=half.check_times + 1, number=half.number, group=group)

    def final(self, half: Half, group: str = "") -> int:
        message = self.message(
            "orders",
            half.number,
            queue_id=half.number % 3,
            properties=self.properties(half.number, half.check_times, group),
            sys_flag=COMMIT_FLAG,
            prepared_transaction_offset=half.physical_offset,
        )
        return self.log.append(message)

    def op(self, *halves: Half | int, body: bytes | None = None, tags: str = "d") -> int:
        offsets = [half if isinstance(half, int) else half.queue_offset for half in halves]
        text = b"".join(b"%d," % offset for offset in offsets) if body is None else body
        self.op_count += 1
        return self.log.append(Message(OP, text, tags=tags, properties={"WAIT": "true"}))

    def give_up(self, half: Half) -> int:
        properties = self.properties(half.number, half.check_times)
        return self.log.append(self.message(GIVEN_UP, half.number, properties=properties))

    def plain(self, number: int = 0) -> int:
        return self.log.append(Message("payments", b"p" * (number % 50), number % 2))


def sample_transactions(file_size: int = 4096, rounds: int = 9) -> SmallLog:
    """Everything that can become of a transaction, over several files."""
    made = TransactionLog(file_size)
    for turn in range(rounds):
        made.plain(turn)
        first, second, third = made.half(), made.half(), made.half()
        member, other = made.half(group=f"tx-{turn}"), made.half(group=f"tx-{turn}")
        made.final(first)
        copy = made.copy(second)
        made.plain(turn + 1)
        if turn % 3 != 2:
            made.op(first)
        if turn % 2:
            made.final(second)  # it was committed by the place that it had before the check
        else:
            again = made.copy(copy)
            made.give_up(again) if turn % 4 else made.op(again, body=b"%d" % again.queue_offset)
        if turn % 4 == 1:
            made.op(third, body=b",,x,99999999999999999999,%d" % third.queue_offset)
        made.final(member, f"tx-{turn}")
        if turn % 4 == 2:
            made.op(member, other)
    return made.log


_KINDS = ("half", "copy", "final", "op", "give_up", "plain", "member")


def transaction_logs() -> st.SearchStrategy[SmallLog]:
    """Logs of up to 30 events of transactions, honest and not."""
    events = st.tuples(st.sampled_from(_KINDS), st.integers(0, 7))
    return st.lists(events, max_size=30).map(log_of)


def log_of(events: Iterable[tuple[str, int]]) -> SmallLog:
    made = TransactionLog()
    for kind, which in events:
        known = made.halves
        half = known[which % len(known)] if known else None
        if kind == "half" or half is None:
            made.half()
        elif kind == "member":
            made.half(group=f"tx-{which % 2}")
        elif kind == "copy":
            made.copy(half)
        elif kind == "final":
            made.final(half)
        elif kind == "op":
            made.op(half, which)
        elif kind == "give_up":
            made.give_up(half)
        else:
            made.plain(which)
    return made.log


def state_of(plugin: Any) -> Mapping[str, Any]:
    """All that the plugin has in mind, by value."""
    engine = plugin._engine
    with engine.lock:
        if not engine.context.writable:
            engine.tracker.follow(engine.context.log.max_physical_offset)
        index = engine.tracker.index
        return {
            "rows": {
                row.queue_offset: (
                    row.physical_offset,
                    row.born_timestamp,
                    row.check_times,
                    row.state,
                    row.ended_to,
                    None if row.newer is None else row.newer.physical_offset,
                    None if row.group is None else (row.group.name, row.group.decision),
                )
                for row in index.rows.by_place.values()
            },
            "ended": sorted(index.rows.ended),
            "halved": sorted(index.rows.halved),
            "open": index.rows.open_count,
            "done_below": index.done_below,
            "op_offset": index.ops.offset(index.done_below),
        }
