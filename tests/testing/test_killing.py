"""The kill loop notices what it is there for: lost, changed, foreign and misplaced messages."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import ClassVar

import attrs
import pytest

import reput
from reput_testing import KillContract, QuickDisk
from reput_testing.crashes.killloop import KillLoop, kill_count
from reput_testing.crashes.killplan import Ack, Death, Life, Moment, PluginSource
from reput_testing.crashes.killrounds import KillRounds
from reput_testing.crashes.survivingmessages import SurvivingMessages, records_of
from reput_testing.logs.producers import FLUSH, PUT_WHOLE, READ, Sender, calls

SEED = 7


@pytest.fixture
def death():
    """One producer, until it is killed."""
    return Death(
        seed=SEED,
        number=0,
        thread_count=1,
        call_count=None,
        moment=Moment("writing", "acks", 1),
        commitlog={"file_size": 65_536},
        sizes={},
        max_body_size=200,
        flushes=False,
        goes_on_repaired=False,
        reads_first=False,
    )


@pytest.fixture
def left(tmp_path, death):
    """Records and acknowledgements of the first 40 messages of the producer, or a few more."""
    acks, config = [], {"commitlog": death.commitlog}
    with reput.open(tmp_path, plugins=[], config=config, disk=QuickDisk()) as store:
        for call in calls(SEED, 0, death.max_body_size):
            if call.kind in (FLUSH, READ):
                continue
            if len(acks) >= 40:
                break
            receipts = store.put_many(call.messages, whole=call.kind == PUT_WHOLE)
            for row, receipt in enumerate(receipts):
                where = receipt.queue_offset, receipt.physical_offset
                acks.append(Ack(0, call.first + row, *where, False))
        return records_of(store), acks


def test_what_was_put_and_acknowledged_is_accepted(death, left):
    records, acks = left
    survivors = SurvivingMessages()

    survivors.add(records, death, acks)

    assert survivors.records == records
    assert sum(map(len, survivors.queues.values())) <= len(records)


def test_messages_of_a_call_that_was_not_acknowledged_are_accepted(death, left):
    records, acks = left
    last_call = max(
        call.first
        for call, _ in zip(calls(SEED, 0, 200), range(60), strict=False)
        if call.messages and call.first < len(records)
    )

    SurvivingMessages().add(records, death, acks[:last_call])


def _with_another_body(records):
    offset, record = records[3]
    at = record.index(_sender(3)) + len(_sender(3))
    return [*records[:3], (offset, _flipped(record, at)), *records[4:]]


def _flipped(record, at):
    return record[:at] + bytes([record[at] ^ 1]) + record[at + 1 :]


def _with_another_property(records):
    return [(offset, record.replace(b"region", b"regiom")) for offset, record in records]


NEXT = "message 5 of the producer comes next"
WRONG = {
    "lost": (lambda records: records[:-1], r"1 of 4\d acknowledged messages are lost"),
    "missing in between": (lambda records: records[:5] + records[6:], NEXT),
    "in another order": (
        lambda records: [*records[:5], records[6], records[5], *records[7:]],
        NEXT,
    ),
    "twice": (lambda records: records[:5] + records[4:], NEXT),
    "another body": (_with_another_body, r"body is .* was put"),
    "another property": (_with_another_property, r"properties are .* were put"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_was_acknowledged_and_is_not_as_it_was_is_noticed(death, left, wrong):
    (change, text), (records, acks) = WRONG[wrong], left

    with pytest.raises(AssertionError, match=text):
        SurvivingMessages().add(change(records), death, acks)


def test_messages_of_a_later_call_are_noticed(death, left):
    records, _ = left
    with pytest.raises(AssertionError, match="of a later call"):
        SurvivingMessages().add(records, death, [])


def test_a_whole_put_in_two_log_files_is_noticed(death, left):
    records, acks = left
    whole = next(
        call
        for call in calls(SEED, 0, death.max_body_size)
        if call.kind == PUT_WHOLE and len(call.messages) > 1
    )
    begins_second = records[whole.first + 1][0]
    files = attrs.evolve(death, commitlog={"file_size": begins_second})

    with pytest.raises(AssertionError, match="log file 1; the put as a whole began in log file 0"):
        SurvivingMessages().add(records, files, acks)


def test_a_message_that_nobody_put_is_noticed(death, left):
    records, acks = left
    with pytest.raises(AssertionError, match="no producer put"):
        SurvivingMessages().add(records, attrs.evolve(death, seed=SEED + 1), acks)


def test_a_message_elsewhere_than_acknowledged_is_noticed(death, left):
    records, acks = left
    moved = acks[8]._replace(physical_offset=acks[8].physical_offset + 1)
    with pytest.raises(AssertionError, match="was acknowledged, and is"):
        SurvivingMessages().add(records, death, [*acks[:8], moved, *acks[9:]])


def test_messages_that_were_there_before_must_stay(death, left):
    records, acks = left
    survivors = SurvivingMessages()
    survivors.add(records, death, acks)
    next_death = attrs.evolve(death, seed=SEED + 1)

    with pytest.raises(AssertionError, match=rf"number {len(records) - 1} of .* is gone"):
        survivors.add(records[:-1], next_death, [])
    with pytest.raises(AssertionError, match=r"number 2 of .* is another one now"):
        survivors.add([*records[:2], records[3], *records[3:]], next_death, [])


def test_the_same_seed_gives_the_same_deaths():
    first, again = (list(Life(SEED, 3).deaths()) for _ in range(2))
    other = list(Life(SEED, 4).deaths())

    assert first == again
    assert first != other


@pytest.mark.costly
def test_the_disk_kills_its_process_in_front_of_the_operation(tmp_path):
    script = (
        "import os, sys\n"
        "from reput_testing.disks.selfkillingdisk import SelfKillingDisk\n"
        "disk = SelfKillingDisk()\n"
        "disk.die_at(3)\n"
        "for name in 'abcd':\n"
        "    disk.close(disk.open(os.path.join(sys.argv[1], name), create=True))\n"
    )

    ended = subprocess.run([sys.executable, "-c", script, tmp_path], check=False)

    assert ended.returncode == -signal.SIGKILL
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


class ForgetfulPlugin(reput.Plugin):
    """Counts messages, and believes its file whatever the log says: a crash is never noticed."""

    name: ClassVar[str] = "forgetful"

    @reput.hookimpl
    def reput_open(self, context):
        self.count = 0
        self.path, self.disk = context.directory("forgetful", "count"), context.disk
        if context.writable:
            self.disk.make_directory(os.path.dirname(self.path))
        if self.disk.exists(self.path):
            self.count = int(self.disk.read_file(self.path))

    @reput.hookimpl
    def reput_dispatch(self, batch):
        self.count += len(batch)
        self.disk.replace(self.path, b"%d" % self.count)


class Forgetful(KillContract):
    plugin_type = ForgetfulPlugin
    kills = 60  # most of them would do

    def state(self, plugin):
        return plugin.count


@pytest.mark.costly
def test_a_plugin_that_counts_messages_twice_after_a_kill_is_found_out(tmp_path):
    with pytest.raises(AssertionError, match="after a kill: another state") as failure:
        Forgetful().test_after_every_kill_it_agrees_with_the_log(tmp_path)

    assert "REPUT_KILL_SEED='" in str(failure.value)
    assert (tmp_path / "life" / "store" / "commitlog").is_dir()


class RaisingPlugin(reput.Plugin):
    """Refuses every message, for a reason that is none."""

    name: ClassVar[str] = "raising"

    @reput.hookimpl
    def reput_put(self, messages):
        raise ZeroDivisionError("no message is good enough")


@pytest.mark.costly
def test_a_writer_that_fails_is_told_with_its_words(tmp_path):
    loop = KillLoop(tmp_path, [PluginSource.of("raising", RaisingPlugin, {})])

    with pytest.raises(AssertionError, match="the writer failed: 1") as failure:
        loop.run(1_000)

    assert "ZeroDivisionError: no message is good enough" in str(failure.value)


def test_a_class_that_no_other_process_finds_is_refused():
    class Local(reput.Plugin):
        pass

    with pytest.raises(ValueError, match="must stand in a module"):
        PluginSource.of("local", Local, {})


def test_the_environment_says_how_many_kills(monkeypatch):
    monkeypatch.delenv("REPUT_SOAK", raising=False)
    monkeypatch.delenv("REPUT_KILLS", raising=False)
    assert kill_count(5) == 5
    monkeypatch.setenv("REPUT_SOAK", "1")
    assert kill_count(5) >= 1_000
    monkeypatch.setenv("REPUT_KILLS", "17")
    assert kill_count(5) == 17


def _sender(sequence):
    return SEED.to_bytes(8, "big") + bytes(2) + sequence.to_bytes(4, "big")


def test_a_body_tells_its_sender():
    assert Sender.of(_sender(3) + b"filler") == Sender(SEED, 0, 3)
    assert Sender.of(b"short") is None


class CountedLives(KillRounds[None]):
    """Each life counts one kill; the life ``fails`` fails."""

    def __init__(self, fails: int) -> None:
        super().__init__()
        self.fails = fails

    def enter_job(self, job: int) -> None:
        self.job = job

    def processes(self):
        return contextlib.nullcontext()

    def live(self, processes, life, kills):
        assert life % 2 == self.job
        assert life != self.fails, self.again(life)
        self.count_kill(f"job {self.job}")


@pytest.mark.parametrize(("first", "fails"), [(0, -1), (4, -1), (0, 5), (4, 5)])
def test_jobs_share_the_lives_and_the_first_failure_ends_them(first, fails, capfd, monkeypatch):
    monkeypatch.setenv("REPUT_KILLS_FROM", str(first))
    lives = CountedLives(fails)

    if fails < 0:
        lives.run(40, 2)
        assert lives.killed == {"job 0": 20, "job 1": 20}
        said = capfd.readouterr()
        assert "40 of 40 kills" in said.err
        expected = f"REPUT_KILL_SEED={lives.seed} REPUT_KILLS_FROM={first + 40}\n"
        assert said.out.endswith(expected)
    else:
        with pytest.raises(AssertionError, match=f"REPUT_KILL_SEED=.?{lives.seed}/5"):
            lives.run(1 << 40, 2)
        assert lives.next_life > 5
