"""``reput follow`` and ``reput promote``: what they print, how they end, what they refuse."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest
from commands import commands, without_answers
from fakemaster import FILE_SIZE, FakeLog, FakeMaster
from jsonkeys import forms_of, keys_of
from masterlogs import bytes_of, log_of

import reput
from reput_server.follow import State
from reput_server.follow.command.display import line_of
from reput_server.follow.follower.follower import FollowStatus
from reput_server.follow.follower.lag import Lag
from reput_tools.cli.kit import ExitCode


@pytest.fixture
def run():
    with commands() as run:
        yield run


@pytest.fixture
def master(log):
    with FakeMaster(log) as master:
        yield master


def once(run, path, master, *options):
    """Follow until all is there."""
    plugins = ("--plugins", "consumequeue,index")
    return run("follow", path, "--from", master.address, "--once", *plugins, *options)


@contextlib.contextmanager
def process(path, master, *options):
    """A process that follows until a signal comes."""
    command = [sys.executable, "-m", "reput", "follow", str(path), "--from", master.address]
    with subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    ) as found:
        try:
            yield found
        finally:
            if found.poll() is None:
                found.kill()


def lines_until(process, holds):
    """Lines of JSON up to the first for which ``holds``."""
    found = []
    for line in process.stdout:
        found.append(json.loads(line))
        if holds(found[-1]):
            return found
    raise AssertionError((found, process.stderr.read()))


# --------------------------------------------------------------------------- the usual way


def test_once_brings_all_and_ends(tmp_path, run, master):
    path = tmp_path / "store"

    outcome = once(run, path, master)

    assert outcome.code == 0, outcome
    assert outcome.out == ""
    assert outcome.err.splitlines()[-1] == "reput: stopped: shop/broker-a"
    with reput.open(path, mode="r") as store:
        assert bytes_of(store) == bytes(master.log.data)
        assert len(store.query("topic-1", "k1").messages) == 1


def test_lines_for_programs_say_where_it_is(tmp_path, run, master):
    outcome = once(run, tmp_path / "store", master, "--json")

    last = outcome.lines[-1]
    assert outcome.code == 0, outcome
    assert last["state"] == "stopped"
    assert (last["master"], last["lag_bytes"], last["lag_seconds"]) == ("shop/broker-a", 0, 0.0)
    assert last["fed_offset"] == last["dispatched_offset"] == master.log.end
    assert last["plugins"]["index"] == {"state": "running", "lag_bytes": 0}
    keys = forms_of("follow")[""]
    assert keys_of(outcome.lines, keys) == keys.keys()


def test_a_name_server_knows_the_broker(tmp_path, run, master):
    found = ("--namesrv", master.address, "--broker", "broker-a")

    outcome = run("follow", tmp_path / "store", *found, "--once", "--plugins", "consumequeue")

    assert outcome.code == 0, outcome


@pytest.mark.costly
def test_a_signal_ends_it_in_order_and_the_next_start_goes_on(tmp_path, master, run):
    path = tmp_path / "store"
    with process(path, master, "--json", "--plugins", "consumequeue") as follower:
        lines = lines_until(follower, lambda line: line["lag_bytes"] == 0)
        follower.send_signal(signal.SIGINT)
        rest = follower.stdout.read()
        errors = follower.stderr.read()
        code = follower.wait(60)

    assert (code, errors) == (0, "")
    assert lines[0]["state"] in ("connecting", "following")
    assert json.loads(rest.splitlines()[-1])["state"] == "stopped"
    with reput.open(path, mode="r") as store:
        assert store.clean
        assert bytes_of(store) == bytes(master.log.data)
    assert once(run, path, master).code == 0


@pytest.mark.costly
def test_a_killed_follower_goes_on_with_whole_records(tmp_path, run, log_bytes):
    path = tmp_path / "store"
    log = FakeLog(log_bytes[:60_001])  # inside of a record, as most places are
    with FakeMaster(log, seed=7) as master:
        with process(path, master, "--json", "--plugins", "consumequeue,index") as follower:
            lines_until(follower, lambda line: line["fed_offset"] == len(log.data))
            follower.kill()
        master.append(log_bytes[len(log.data) :])
        outcome = once(run, path, master)

    assert outcome.code == 0, outcome
    with reput.open(path, mode="r") as store:
        assert bytes_of(store) == log_bytes
        found = [
            len(store.query(f"topic-{at % 3}", f"k{at}").messages) for at in range(0, 1_200, 7)
        ]
    assert set(found) == {1}


@pytest.mark.costly
def test_metrics_are_served_beside_those_of_the_store(tmp_path, master):
    options = ("--json", "--metrics", "127.0.0.1:0", "--plugins", "consumequeue")
    with process(tmp_path / "store", master, *options) as follower:
        (*_, last) = lines_until(follower, lambda line: line["lag_bytes"] == 0)
        with urllib.request.urlopen(last["metrics"], timeout=60) as page:
            found = dict(
                line.rsplit(" ", 1)
                for line in page.read().decode().splitlines()
                if not line.startswith("#")
            )
        follower.send_signal(signal.SIGTERM)
        follower.communicate(timeout=60)

    assert float(found["reput_follow_up"]) == 1
    assert float(found["reput_follow_lag_bytes"]) == 0
    assert float(found['reput_follow_state{state="following"}']) == 1
    assert float(found['reput_follow_state{state="diverged"}']) == 0
    assert float(found["reput_log_appended_bytes_total"]) == master.log.end


def test_metadata_are_saved(tmp_path, run, master):
    master.answers |= {
        21: b'{"topicConfigTable":{}}',
        201: b'{"subscriptionGroupTable":{"billing":{"groupName":"billing"}}}',
        43: b'{"offsetTable":{"topic-0@billing":{0:150,1:60}}}',
        45: 1,
    }
    path = tmp_path / "store"
    assert once(run, path, master, "--metadata").code == 0

    outcome = run("groups", path, "--json")

    assert outcome.code == 0, outcome
    assert "billing" in outcome.out


# --------------------------------------------------------------------------- what ends it


def test_each_end_has_its_exit_code_and_says_what_to_do(tmp_path, run, log_bytes):
    path = tmp_path / "store"
    with FakeMaster(FakeLog(log_bytes)) as master:
        assert once(run, path, master).code == 0
    other = log_of(tmp_path / "other", 1_300, seed=5)
    ends = [
        (FakeLog(log_bytes[:-500]), {}, ExitCode.WARNED, "master lost messages", "promote"),
        (FakeLog(log_bytes, base=64 * FILE_SIZE), {}, ExitCode.LOST, "fell behind", "new dir"),
        (
            FakeLog(log_bytes),
            {"mappedFileSizeCommitLog": 1 << 20},
            ExitCode.UNAVAILABLE,
            "file size changed",
            "new directory",
        ),
        (
            FakeLog(log_bytes),
            {"enableDLegerCommitLog": "true"},
            ExitCode.UNAVAILABLE,
            "refused",
            "enableDLegerCommitLog",
        ),
        (
            FakeLog(log_bytes[:-500] + other[len(log_bytes) - 500 : len(log_bytes) + 10]),
            {},
            ExitCode.DAMAGED,
            "diverged",
            "promote this one",
        ),
    ]
    for log, config, code, state, advice in ends:
        with FakeMaster(log, config=config) as master:
            outcome = once(run, path, master)

        last = outcome.err.splitlines()[-1]
        assert outcome.code == code, outcome
        assert last.startswith(f"reput: {state}: ")
        assert advice in last


def test_a_broker_that_is_not_there_is_named_before_a_store_is_made(tmp_path, run, master):
    master.stop()

    outcome = once(run, tmp_path / "store", master)

    assert outcome.code == ExitCode.UNAVAILABLE
    assert master.address in outcome.err
    assert not (tmp_path / "store").exists()


def test_a_store_with_messages_of_its_own_is_refused(tmp_path, run, master):
    with reput.open(tmp_path / "store", config={"commitlog": {"file_size": FILE_SIZE}}) as store:
        store.put(reput.Message("mine", b"1"))

    outcome = once(run, tmp_path / "store", master)

    assert outcome.code == ExitCode.UNAVAILABLE
    assert "has messages of its own" in outcome.err


@pytest.mark.costly
def test_a_second_follower_of_a_directory_is_refused(tmp_path, run, master):
    path = tmp_path / "store"
    with process(path, master, "--json", "--plugins", "consumequeue") as follower:
        lines_until(follower, lambda line: line["state"] == "following")
        outcome = once(run, path, master)

    assert outcome.code == ExitCode.LOCKED
    assert f"process {follower.pid}" in outcome.err


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ((), "name the broker"),
        (("--from", "a:1", "--namesrv", "b:1", "--broker", "c"), "name the broker"),
        (("--from", "a:1", "--broker", "c"), "--broker goes with --namesrv"),
        (("--namesrv", "a:1"), "needs --broker NAME"),
        (("--namesrv", ";", "--broker", "c"), "not an address"),
        (("--from", "a"), "expected HOST:PORT"),
        (("--from", "a:1", "--begin", "soon"), "oldest, latest or a physical offset"),
        (("--from", "a:1", "--metrics", "9464"), "expected HOST:PORT"),
        (("--directory", ".", "--from", "a:1"), "or --directory PATH"),
        (("--directory", ".", "--broker", "b"), "--broker goes with --namesrv"),
        (("--directory", ".", "--acknowledge"), "--acknowledge is for a connection"),
        (("--directory", ".", "--ha", "a:1"), "--ha is for a connection"),
        (("--directory", "nowhere"), "does not exist"),
        (("--from", "a:1", "--serve-namesrv", "a:1"), "goes with --serve"),
        (("--from", "a:1", "--serve", "none"), "expected HOST:PORT"),
        (("--from", "a:1", "--serve", "0.0.0.0:1"), "not an address for clients"),
        (("--from", "a:1", "--serve", "a:1", "--serve-namesrv", "a"), "expected HOST:PORT"),
    ],
)
def test_options_that_contradict_each_other_are_refused(tmp_path, run, options, text):
    outcome = run("follow", tmp_path / "store", *options)

    assert outcome.code == ExitCode.USAGE
    assert text in outcome.err
    assert not (tmp_path / "store").exists()


# --------------------------------------------------------------------------- promote


def test_a_promoted_store_takes_messages_and_follows_nobody(tmp_path, run, master):
    path = tmp_path / "store"
    once(run, path, master)

    outcome = run("promote", path, "--yes", "--json")

    assert outcome.code == 0, outcome
    assert outcome.json["master"] == "shop/broker-a"
    assert outcome.json["max_physical_offset"] == master.log.end
    assert outcome.json.keys() == forms_of("promote")[""].keys()
    assert run("put", path, "topic-0", stdin="mine\n").code == 0
    again = once(run, path, master)
    assert again.code == ExitCode.UNAVAILABLE
    assert "has messages of its own" in again.err


def test_a_store_that_follows_nobody_is_not_promoted(tmp_path, run):
    reput.open(tmp_path / "store", plugins=[]).close()

    outcome = run("promote", tmp_path / "store", "--yes")

    assert outcome.code == ExitCode.UNAVAILABLE
    assert "not a replica" in outcome.err


def test_promoting_asks_first(tmp_path, run, master):
    path = tmp_path / "store"
    once(run, path, master)

    assert run("promote", path, stdin="n\n").code == ExitCode.REFUSED
    assert without_answers("promote", path).code == ExitCode.USAGE
    with reput.open(path, mode="r") as store:
        assert store.role == "replica"


# --------------------------------------------------------------------------- the live line


def test_the_live_line_says_how_far_behind_what_is():
    status = FollowStatus(
        state=State.FOLLOWING,
        text="",
        master="shop/broker-a",
        address="h:1",
        lag=Lag(3 << 20, 12_000, 1.25),
        fed_offset=0,
        flushed_offset=0,
        dispatched_offset=0,
        received_size=0,
        connection_count=1,
        metadata_count=0,
    )

    assert line_of(status, [], 5 << 20) == (
        "following shop/broker-a · 3.0 MiB, 12,000 messages, 1.2 s behind · 5.0 MiB/s · "
        "plugins: all up to date"
    )


# --------------------------------------------------------------------------- other sources, serving


def test_a_directory_is_followed_without_a_connection(tmp_path, run):
    data = log_of(tmp_path / "broker", 200)
    path = tmp_path / "store"

    outcome = run("follow", path, "--directory", tmp_path / "broker", "--once", "--json")

    assert outcome.code == 0, outcome
    assert outcome.lines[-1]["master"] == str(tmp_path / "broker")
    with reput.open(path, mode="r") as store:
        assert bytes_of(store) == data


def test_a_directory_without_a_log_is_refused(tmp_path, run):
    (tmp_path / "broker").mkdir()

    outcome = run("follow", tmp_path / "store", "--directory", tmp_path / "broker")

    assert outcome.code == ExitCode.UNAVAILABLE, outcome
    assert "commitlog has no file" in outcome.err
    assert not (tmp_path / "store").exists()


def test_metrics_without_the_client_of_prometheus_name_the_extra(tmp_path, run, monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    outcome = run("follow", tmp_path / "store", "--from", "a:1", "--metrics", "127.0.0.1:0")

    assert outcome.code == ExitCode.UNAVAILABLE, outcome
    assert "--metrics needs prometheus_client" in outcome.err
    assert "reput-tools[prometheus]: pip install './extras/tools[prometheus]'" in outcome.err
    assert not (tmp_path / "store").exists()
