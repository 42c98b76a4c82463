"""Who is in which group: in the process of the store, and beside it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from groupstores import CONFIG, PLUGINS

import reput
from reput_consumer import ConsumerPlugin, GroupMember

_FILE = "reput/consumer/members.json"


def seen_beside(at) -> tuple[GroupMember, ...]:
    """Members as another opener sees them."""
    with reput.open(at.root, mode="r") as store:
        roster = store.plugin(ConsumerPlugin).roster()
        assert roster.writer_pid == os.getpid()
        assert roster.is_known
        assert roster.is_complete
        return roster.members


def shares(members) -> dict[str, list[int]]:
    return {
        each.member: [queue for topic, queue in each.queues if topic == "orders"]
        for each in members
    }


def test_members_and_their_queues_are_seen_beside_the_writer(at):
    for queue in range(4):
        at.put("1", queue=queue)

    with at.consumer(name="a") as a:
        at.work_for(500)
        (member,) = seen_beside(at)
        assert member == GroupMember(
            "g",
            "a",
            at.clock.now - 500,
            broadcast=False,
            topics=("%RETRY%g", "orders"),
            queues=(("%RETRY%g", 0), *(("orders", queue) for queue in range(4))),
            subscriptions=("orders (*)",),
        )
        assert at.plugin.roster().members == (member,)

        with at.consumer(name="b"), at.consumer("all", broadcast=True, name="c"):
            at.work_for(500)
            assert shares(seen_beside(at)) == {"a": [0, 1], "b": [2, 3], "c": [0, 1, 2, 3]}
            assert [each.group for each in seen_beside(at)] == ["all", "g", "g"]
        at.work_for(500)
        assert shares(seen_beside(at)) == {"a": [0, 1, 2, 3]}

        at.put("1", queue=7)  # a queue that comes into being
        at.work_for(1_000)
        assert shares(seen_beside(at)) == {"a": [*range(8)]}  # the topic has grown
        assert len(list(a)) == 5
    at.work_for(500)
    assert seen_beside(at) == ()


def test_times_that_others_see_are_of_the_clock_that_they_see(at):
    """Deadlines have another time after the clock was set back."""
    at.put("1")
    at.clock.advance(-86_400_000)
    at.plugin.port.clock()

    with at.consumer(name="a"), at.store.pop_consumer("p", "orders", start="earliest") as popper:
        (popped,) = popper.receive(1, 0)
        assert popped.invisible_until == at.clock.now + 30_000
        assert popped.renew(60)
        assert popped.invisible_until == at.clock.now + 60_000
        at.work_for(500)
        (member, _) = seen_beside(at)
        assert member.since_timestamp == at.clock.now - 500
        (out,) = at.plugin.roster().out
        assert out.since_timestamp == at.clock.now - 500
    document = json.loads((at.root / "config" / "topics.json").read_bytes())
    assert document["dataVersion"]["timestamp"] == at.clock.now - 500


def test_the_file_is_written_on_changes_only_and_seldom(at, monkeypatch):
    at.put(*map(str, range(100)))
    renames = []
    rename = type(at.plugin._context.disk).rename

    def count(disk, source, target):
        if target.endswith("members.json"):
            renames.append(target)
        rename(disk, source, target)

    monkeypatch.setattr(type(at.plugin._context.disk), "rename", count)
    with at.consumer() as consumer:
        at.work_for(10_000)
        assert len(renames) == 1
        assert len(list(consumer)) == 100
        consumer.commit(durable=True)
        at.work_for(60_000)
        assert len(renames) == 1
        for _ in range(20):  # of many that come and go together
            with at.consumer():
                at.work_for(10)
        at.work_for(1_000)
    assert len(renames) == 3  # the first at once, the last when they have all gone


def test_a_closed_store_has_no_members_and_no_file(at):
    at.put("1")
    with at.consumer():
        at.work_for(500)
        assert (at.root / _FILE).exists()
    at.store.close()

    assert not (at.root / _FILE).exists()
    with reput.open(at.root, mode="r") as store:
        roster = store.plugin(ConsumerPlugin).roster()
    assert (roster.writer_pid, roster.is_known, roster.members) == (None, True, ())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "[" * 100_000,
        "{}",
        '{"pid": PID}',
        '{"pid": PID, "members": 1}',
        '{"pid": PID, "members": [1]}',
        '{"pid": PID, "members": [], "out": 1}',
        '{"pid": PID, "members": [], "out": [["g", "orders", 0, 1]]}',
        '{"pid": PID, "members": [], "out": [["g", "orders", -1, 1, 1]]}',
        '{"pid": PID, "members": [{"group": "g"}]}',
        '{"pid": PID, "members": [ENTRY]}'.replace("[0]", '["0"]'),
        '{"pid": PID, "members": [ENTRY]}'.replace("[0]", "[-1]"),
        '{"pid": PID, "members": [ENTRY]}'.replace("SINCE", "1e300"),
        '{"pid": 1, "members": [ENTRY]}',
        b"\xff\xfe",
    ],
)
def test_a_file_that_is_none_or_another_process_s_is_not_believed(at, text):
    at.put("1")
    entry = (
        '{"group": "g", "member": "a", "since": SINCE, "broadcast": false, "topics": [],'
        ' "queues": {"orders": [0]}}'
    )
    with at.consumer():
        at.work_for(500)
        if isinstance(text, str):
            text = text.replace("ENTRY", entry).replace("SINCE", "1")
            text = text.replace("PID", str(os.getpid())).replace('{"orders": [0]}', "[0]")
            text = text.encode()
        (at.root / _FILE).write_bytes(text)
        with reput.open(at.root, mode="r") as store:
            roster = store.plugin(ConsumerPlugin).roster()
            assert (roster.writer_pid, roster.is_known) == (os.getpid(), False)
            assert roster.members == ()
            assert store.plugin(ConsumerPlugin).progress("g").members == ()


def test_more_members_than_the_file_holds_are_left_out_and_that_is_told(at, monkeypatch):
    monkeypatch.setattr("reput_consumer.memberlist.memberlistfile._SIZE_MAX", 760)
    at.put("1")
    with at.consumer(name="a"), at.consumer(name="b"), at.consumer(name="c"):
        at.work_for(500)
        with reput.open(at.root, mode="r") as store:
            roster = store.plugin(ConsumerPlugin).roster()
        assert [each.member for each in roster.members] == ["a", "b"]
        assert not roster.is_complete


def test_a_directory_that_takes_no_file_is_a_warning_and_tried_again(at, caplog):
    at.put("1")
    (at.root / _FILE).unlink()
    (at.root / _FILE).parent.rmdir()
    (at.root / _FILE).parent.write_bytes(b"no directory")
    with at.consumer(name="a"):
        at.work_for(500)
        assert "members not told to other processes" in caplog.text
        (at.root / _FILE).parent.unlink()
        at.work_for(5_000)
        assert [each.member for each in seen_beside(at)] == ["a"]


# --------------------------------------------------------------------------- another process

_WRITER = """
import sys, reput
store = reput.open(sys.argv[1], plugins={plugins!r}, config={config!r})
store.put(reput.Message("orders", b"1"))
store.wait_dispatched()
store.consumer("g", "orders", name="their member")
print("ready", flush=True)
sys.stdin.read()
"""


def told(root: Path) -> tuple[bool, list[str]]:
    with reput.open(root, mode="r", plugins=["consumequeue", "consumer"]) as store:
        roster = store.plugin(ConsumerPlugin).roster()
    return roster.is_known, [each.member for each in roster.members]


@pytest.mark.costly
def test_members_of_another_process_are_seen_until_it_is_killed(tmp_path):
    root = tmp_path / "store"
    code = _WRITER.format(plugins=PLUGINS, config=CONFIG)
    words = [sys.executable, "-c", code, str(root)]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
            while told(root) == (True, []):  # soon: a thread of the process writes the file
                assert writer.poll() is None
            assert told(root) == (True, ["their member"])
        finally:
            writer.send_signal(signal.SIGKILL)
    left = (root / _FILE).read_bytes()
    assert json.loads(left)["pid"] == writer.pid
    assert told(root) == (True, [])

    # The next writer has the number of the one that was killed: its members are not its own.
    given_up = ["consumer", "schedule"]
    with reput.open(root, plugins=["consumequeue"], forget=given_up):
        (root / _FILE).write_bytes(left.replace(b"%d" % writer.pid, b"%d" % os.getpid()))
        os.utime(root / _FILE, (1, 1))
        assert told(root) == (False, [])

    with reput.open(root, plugins=PLUGINS, config=CONFIG):
        assert told(root) == (True, [])
