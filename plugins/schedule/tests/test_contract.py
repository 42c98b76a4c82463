"""The plugin keeps what every plugin promises, through power cuts and kills, too."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from reput.record import Message
from reput_consumequeue import ConsumeQueueConfig, ConsumeQueuePlugin
from reput_schedule import SchedulePlugin
from reput_testing import (
    CrashContract,
    KillContract,
    PluginContract,
    SmallLog,
    sample_log,
    snapshot,
)

NOON = 1_700_049_600_000
CONFIG = {"deliver": "never"}
pytestmark = pytest.mark.sizes(schedule={"timer_log_file_size": 4_096})


def timed(number: int) -> Message:
    """A parked message of the timer."""
    properties = {
        "TIMER_OUT_MS": str(NOON + 1_000 * (number % 40)),
        "REAL_TOPIC": "orders",
        "REAL_QID": "0",
        "UNIQ_KEY": f"K{number}",
    }
    return Message("rmq_sys_wheel_timer", b"timed %d" % number, properties=properties)


def levelled(number: int) -> Message:
    """A parked message of a delay level."""
    properties = {"DELAY": str(1 + number % 4), "REAL_TOPIC": "orders", "REAL_QID": "0"}
    queue_id = number % 4
    return Message("SCHEDULE_TOPIC_XXXX", b"level %d" % number, queue_id, properties=properties)


class Rules:
    """What the contracts are told about the plugin."""

    plugin_name = "schedule"
    config: ClassVar = CONFIG

    def state(self, plugin: Any) -> object:
        times, counts = plugin.timer.pending()
        return times.tolist(), counts.tolist()

    def files_of(self, root: str) -> list[str]:
        return [f"{root}/timerwheel", f"{root}/timerlog", f"{root}/config"]

    def files(self, root: Any) -> dict[str, bytes]:
        # In config is what was delivered, which the log does not tell byte by byte; the wheel has
        # 38 MB, and tests of its own.
        return snapshot(root, [f"{root}/timerlog"])

    def messages(self) -> list[Message]:
        return [make(number) for number in range(60) for make in (timed, levelled)]

    def log(self) -> SmallLog:
        # Behind the others: the log keeps what is not delivered yet (`reput_hold`).
        log = sample_log()
        for message in self.messages():
            log.append(message)
        return log


class SmallPlugin(SchedulePlugin):
    """Of small timer-log files, also in the process that is killed."""

    timer_log_file_size: ClassVar[int] = 4_096


class TestContract(Rules, PluginContract):
    def open_store(self, root, log, **options):
        if options.get("plugins") is None:
            options["plugins"] = ["consumequeue", self.name]
        return super().open_store(root, log, **options)

    # RocketMQ's records have no checksum: another time in one looks as good as the right one. The
    # files say how large files are, a damaged one too.
    undetectable = frozenset({"garbled", "zeroed", "removed", "torn", "grown"})
    # A writer makes a file and then gives it its size.
    undetectable_to_readers = frozenset({"emptied"})


@pytest.mark.proof
class TestCrashes(Rules, CrashContract):
    def log(self) -> SmallLog:
        return sample_log(messages=self.messages())

    def plugins(self) -> list[Any]:
        # An object, as its section would be one too many where the store is opened without it.
        return [ConsumeQueuePlugin(ConsumeQueueConfig(units_per_file=20)), self.name]


@pytest.mark.proof
class TestKilled(Rules, KillContract):
    plugin_type = SmallPlugin
    beside = ("consumequeue",)
    kills = 6
