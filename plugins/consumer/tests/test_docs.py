"""The pages say what is so: snippets run, tables are the classes'."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import attrs
import pytest

from reput_consumer import Average, Consumer, MemberSettings
from reput_consumer.group.membersettings import MAX_RECONSUME_TIMES
from reput_consumer.messagequeue import MessageQueue
from reput_consumer.metadata import localoffsets
from reput_consumer.metadata.subscriptiongroups import GroupSettings

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "consumer-groups.md").read_text("utf-8")
FROM_JAVA = (ROOT / "docs" / "from-the-java-client.md").read_text("utf-8")


def test_arguments_that_the_page_for_java_names_are_settings():
    table = FROM_JAVA.split("## Settings")[1].split("## What a message tells")[0]
    named = set(re.findall(r"`(\w+)=", table))

    known = {field.name for field in attrs.fields(MemberSettings)}
    assert len(named) > 10
    assert named - known <= {"start", "broadcast", "strategy", "name"}


def test_what_the_page_for_java_says_of_defaults_is_so():
    settings = MemberSettings(group="g", member="m", selectors={})

    assert (settings.start.kind, settings.broadcast) == ("latest", False)
    assert settings.strategy == Average()
    assert MAX_RECONSUME_TIMES == GroupSettings(group="g").retry_max_times == 16
    assert (settings.fetch_count, settings.fetch_bytes) == (32, 256 << 10)
    limits = settings.limits
    assert (limits.message_count, limits.size_mib, limits.span) == (1_000, 100, 2_000)
    assert settings.consume_timeout_ms == 15 * 60_000
    assert (settings.suspend_ms, settings.save_interval_ms) == (1_000, 5_000)
    assert settings.auto_commit
    parameters = inspect.signature(Consumer.run).parameters
    assert (parameters["threads"].default, parameters["batch"].default) == (20, 1)


def test_what_the_page_for_java_says_of_messages_is_so(at):
    at.put("1", keys=["k"])
    table = FROM_JAVA.split("## What a message tells")[1].split("## Administration")[0]
    named = {name for row in table.splitlines() for name in re.findall(r"`(\w+)[`\[]", row[2:])}
    named = {name for name in named if name.islower()} - {"message"}

    with at.consumer() as consumer:
        message = consumer.next(0)
        assert len(named) > 8
        assert all(hasattr(message, name) for name in named)


def test_local_offsets_of_the_page_are_the_code_s():
    page = (ROOT / "docs" / "formats.md").read_text("utf-8")

    assert localoffsets.encode({MessageQueue("T", "broker-a", 0): 12}).decode() in page


@pytest.mark.parametrize("ordered", [False, True])
def test_the_page_counts_retries_and_deliveries_as_the_code_does(at, ordered):
    at.put("1")
    count = 0

    with at.consumer(explicit=True, ordered=ordered, max_reconsume_times=2) as consumer:
        for _ in range(5):
            for message in consumer:
                count += 1
                message.retry()
            at.work_for(120_000)

    assert count == 3
    assert "with 2, a message is delivered three times" in PAGE.replace("\n", " ")
    assert "after 16 retries, that is 17 deliveries" in PAGE.replace("\n", " ")
    assert "After 16 retries, that is 17 deliveries" in inspect.getdoc(Consumer.run)
