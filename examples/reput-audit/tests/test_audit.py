"""Tests of the audit plugin: the rules for all plugins, and its own behaviour."""

from __future__ import annotations

import json
import pickle
import struct
import zlib
from pathlib import Path

import pytest

import reput
from reput.errors import ConfigError, CorruptFileError, StoreNotFoundError
from reput_audit import AuditConfig, AuditPlugin, read_counts
from reput_testing import (
    CrashContract,
    Driver,
    KillContract,
    ManualClock,
    PluginContract,
    SmallLog,
    garbled_at,
    torn_at,
)

NOON = 1_700_049_600_000  # 2023-11-15 12:00 UTC, ms
MIDNIGHT = NOON - 12 * 3_600_000
HOUR = 3_600_000
DAY = 24 * HOUR


class TestContract(PluginContract):
    plugin_name = "audit"

    def state(self, plugin: AuditPlugin) -> object:
        return plugin.totals()

    # Of the tools that the plugin answers; the contract checks these hooks, too.
    hook_specifications = frozenset({"reput_tools.offline.hookspecs", "reput_tally.hookspecs"})


class TestCrashes(CrashContract):
    plugin_name = "audit"

    def state(self, plugin: AuditPlugin) -> object:
        return plugin.totals()


class TestKilled(KillContract):
    plugin_name = "audit"

    def state(self, plugin: AuditPlugin) -> object:
        return plugin.totals()


def count(root: Path, log: SmallLog, **config: str) -> dict[tuple[str, int], tuple[int, int]]:
    with Driver(AuditPlugin(AuditConfig(**config)), "audit", root, log) as driver:
        driver.catch_up()
    return read_counts(root)


@pytest.fixture
def log() -> SmallLog:
    log = SmallLog(store_timestamp=NOON)
    log.append(reput.Message("orders", b"12345"))
    log.append(reput.Message("orders", b"123"))
    log.append(reput.Message("payments", b""))
    log.append(reput.Message("orders", b"1"), after_ms=HOUR)
    log.append(reput.Message("orders", b"12"), after_ms=DAY)
    return log


def test_messages_and_bytes_are_counted_by_topic_and_day(tmp_path, log):
    counts = count(tmp_path, log)

    assert counts == {
        ("orders", MIDNIGHT): (3, 9),
        ("orders", MIDNIGHT + DAY): (1, 2),
        ("payments", MIDNIGHT): (1, 0),
    }


def test_with_the_option_they_are_counted_by_the_hour(tmp_path, log):
    counts = count(tmp_path, log, period="hour")

    assert counts == {
        ("orders", NOON): (2, 8),
        ("orders", NOON + HOUR): (1, 1),
        ("orders", NOON + HOUR + DAY): (1, 2),
        ("payments", NOON): (1, 0),
    }


def test_a_store_that_changes_the_option_counts_anew(tmp_path, log):
    count(tmp_path / "store", log, period="hour")

    counts = count(tmp_path / "store", log, period="day")

    assert counts == count(tmp_path / "other", log, period="day")


def test_another_period_is_refused():
    with pytest.raises(ConfigError, match=r"\[audit\] period: .*'week'"):
        AuditPlugin.from_section("audit", {"period": "week"})


def test_options_travel_to_other_processes():
    assert pickle.loads(pickle.dumps(AuditConfig(period="hour"))) == AuditConfig(period="hour")


def test_the_file_is_laid_out_as_documented(tmp_path):
    log = SmallLog(store_timestamp=NOON)
    log.append(reput.Message("ab", b"12345"))

    count(tmp_path, log)

    covered = struct.pack(
        ">4sIqqqqqqqqqq2s",
        *(b"AUDT", 1, DAY, log.max_physical_offset, 1, 2),
        *(0, MIDNIGHT // DAY, 0, 2, 1, 5),
        b"ab",
    )
    expected = zlib.crc32(covered).to_bytes(4, "big") + covered
    assert (tmp_path / "audit" / "counts").read_bytes() == expected


def test_reading_counts_says_what_is_wrong(tmp_path, log):
    with pytest.raises(StoreNotFoundError, match="open the store with the plugin audit"):
        read_counts(tmp_path)
    count(tmp_path, log)
    file = tmp_path / "audit" / "counts"
    garbled_at(file, 40)
    with pytest.raises(CorruptFileError, match="counts, byte 0: checksum and bytes differ"):
        read_counts(tmp_path)
    torn_at(file, 11)
    with pytest.raises(CorruptFileError, match="11 bytes are too few"):
        read_counts(tmp_path)


def test_a_flush_without_news_leaves_the_file_alone(tmp_path, log):
    file = tmp_path / "audit" / "counts"
    with Driver(AuditPlugin(), "audit", tmp_path, log) as driver:
        driver.catch_up()
        driver.flush()
        before = file.stat()

        driver.flush()

        assert file.stat().st_ino == before.st_ino


def fill(root: Path) -> None:
    clock = ManualClock(NOON)
    with reput.open(root, plugins=["audit"], clock=clock) as store:
        store.put(reput.Message("orders", b"12345"))
        clock.advance(DAY)
        store.put(reput.Message("orders", b"1"))


def test_a_store_counts_what_is_put_into_it(tmp_path):
    fill(tmp_path)

    assert read_counts(tmp_path) == {
        ("orders", MIDNIGHT): (1, 5),
        ("orders", MIDNIGHT + DAY): (1, 1),
    }


@pytest.mark.parametrize("jobs", [1, 2])
def test_counts_of_splits_add_up_to_the_same_file(tmp_path, jobs):
    from reput_tools.offline import LocalEngine, run_rebuild

    clock = ManualClock(NOON)
    config = {"commitlog": {"file_size": 1 << 21}}
    with reput.open(tmp_path, plugins=["audit"], config=config, clock=clock) as store:
        for number in range(40):
            message = reput.Message(f"topic-{number % 3}", b"x" * (number % 7))
            store.put_many([message] * 1000)
            clock.advance(HOUR)
    before = (tmp_path / "audit" / "counts").read_bytes()

    with LocalEngine(jobs, splits=True) as engine:
        (built,) = run_rebuild(tmp_path, ["audit"], engine)

    assert (tmp_path / "audit" / "counts").read_bytes() == before
    assert (built.split_count > 1, built.reason) == (True, None)


def test_an_empty_log_has_the_file_that_a_dispatch_would_write(tmp_path):
    from reput_tools.offline import rebuild

    with reput.open(tmp_path, plugins=["audit"]):
        pass

    (built,) = rebuild(tmp_path, ["audit"], check=True)

    assert built.differences == ()


def test_the_store_shows_the_totals(tmp_path):
    fill(tmp_path)

    with reput.open(tmp_path, mode="r") as store:
        facts = store.report()["plugins"]["audit"]

    assert (facts["messages"], facts["body_size"]) == (2, 6)


def test_a_reader_that_comes_before_the_first_flush_has_nothing_to_report(tmp_path, log):
    reader = Driver(AuditPlugin(), "audit", tmp_path, log, writable=False)
    reader.open()

    assert reader.call("reput_report") is None
    with pytest.raises(StoreNotFoundError):
        reader.plugin.totals()


def test_the_command_shows_a_table_or_json(tmp_path):
    testing = pytest.importorskip("click.testing")
    pytest.importorskip("rich")
    from reput_tools.cli.root import reput as command

    fill(tmp_path)

    table = testing.CliRunner().invoke(command, ["audit", str(tmp_path)])
    as_json = testing.CliRunner().invoke(command, ["audit", str(tmp_path), "--json"])
    nowhere = testing.CliRunner().invoke(command, ["audit", str(tmp_path / "nowhere")])

    assert table.output.splitlines()[0].split("  ")[0] == "topic"
    assert "2023-11-15" in table.output
    assert json.loads(as_json.output)[0] == {
        "topic": "orders",
        "start_timestamp": MIDNIGHT,
        "message_count": 1,
        "body_size": 5,
    }
    assert nowhere.exit_code == 3
