"""``reput serve``: what it prints, what it refuses, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from wirepeer import WirePeer, message

import reput
from reput_remoting import Command, QueueOf, RequestCode, sign

ANYWHERE = ("--listen", "127.0.0.1:0", "--namesrv", "127.0.0.1:0")


SMALL = {"commitlog": {"file_size": 1 << 20}, "consumequeue": {"units_per_file": 1_000}}


@pytest.fixture
def small(tmp_path):
    """A store whose files are made quickly."""
    path = tmp_path / "store"
    reput.open(path, plugins={"consumequeue", "consumer"}, config=SMALL).close()
    return path


@contextmanager
def serving(path, *options):
    """A process that serves; what it has printed, once it listens."""
    command = [sys.executable, "-m", "reput", "serve", str(path), *options, "--json"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    process.facts = json.loads(line)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.errors = process.communicate(timeout=60)[1]


def address_of(text):
    host, _, port = text.rpartition(":")
    return host, int(port)


def refused(*arguments):
    """What the command says in this process, for what ends before anything listens."""
    from click.testing import CliRunner

    from reput_cli.root import reput as command_line

    return CliRunner().invoke(command_line, ["serve", *map(str, arguments)])


def run(*arguments):
    command = [sys.executable, "-m", "reput", "serve", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_new_store_is_made_served_and_left_whole(tmp_path):
    path = tmp_path / "store"
    with serving(path, *ANYWHERE) as process:
        with WirePeer(address_of(process.facts["broker"])) as peer:
            answer = peer.ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"x")

    assert answer.code == 0
    assert process.returncode == 0
    assert process.facts["broker_name"] == "broker-a"
    assert {"consumequeue", "consumer"} <= set(process.facts["plugins"])
    with reput.open(path, mode="r") as store:
        assert [each.body for each in store.read("orders", 0, 0)] == [b"x"]


def test_a_store_that_does_not_use_groups_does_not_later(tmp_path):
    with reput.open(tmp_path, plugins={"consumequeue"}, config=SMALL) as store:
        store.put(reput.Message("orders", b"x"))

    with serving(tmp_path, *ANYWHERE) as process:
        with WirePeer(address_of(process.facts["broker"])) as peer:
            asked = QueueOf(topic="orders", queue_id=0)
            assert peer.ask(RequestCode.GET_MAX_OFFSET, asked).fields == {"offset": "1"}

    with reput.open(tmp_path) as store:
        assert "consumer" not in store.plugin_objects


def test_a_store_that_another_process_writes_is_served_for_reading(tmp_path):
    with reput.open(tmp_path, plugins={"consumequeue", "consumer"}, config=SMALL) as store:
        store.put(reput.Message("orders", b"x"))
        store.flush()
        with serving(tmp_path, *ANYWHERE, "--read-only") as process:
            with WirePeer(address_of(process.facts["broker"])) as peer:
                answer = peer.ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"x")

    assert process.facts["read_only"] is True
    assert answer.code == 16


def test_keys_in_a_file_are_asked_for(small, tmp_path):
    keys = tmp_path / "keys.toml"
    keys.write_text('me = "secret"\n')
    with serving(small, *ANYWHERE, "--access-keys", keys) as process:
        with WirePeer(address_of(process.facts["broker"])) as peer:
            request = Command.request(RequestCode.GET_MAX_OFFSET, QueueOf(topic="t", queue_id=0))
            peer.send(request)
            without = peer.receive()
            peer.send(sign(request, "me", "secret"))

            assert (without.code, peer.receive().code) == (16, 0)


def test_certificates_are_files_and_who_encrypts_is_answered(small, tmp_path):
    from certificates import make_certificates

    files = make_certificates(tmp_path)
    options = ("--tls-cert", files.certificate, "--tls-key", files.key, "--tls", "enforcing")
    with serving(small, *ANYWHERE, *options) as process:
        with WirePeer(address_of(process.facts["name_server"])) as peer:
            peer.socket = files.context().wrap_socket(peer.socket, server_hostname="127.0.0.1")
            assert peer.ask(RequestCode.GET_BROKER_CLUSTER_INFO).code == 0

    assert process.facts["tls"] == "enforcing"


def test_what_people_read_names_the_next_step(small):
    command = [sys.executable, "-m", "reput", "serve", str(small), *ANYWHERE]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = [process.stdout.readline() for _ in range(7)]
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)

    assert lines[0].split() == ["store", str(small)]
    assert [line.split()[0] for line in lines[1:6]] == [
        "plugins",
        "broker",
        "name",
        "encryption",
        "access",
    ]
    assert lines[6].startswith("Clients find it as 127.0.0.1:")
    assert "stopped after 0 requests" in errors
    assert process.returncode == 0


def test_who_can_be_reached_from_elsewhere_is_warned(small):
    options = ("--listen", "0.0.0.0:0", "--namesrv", "none", "--advertise", "127.0.0.1")
    with serving(small, *options) as process:
        assert process.facts["broker"].startswith("127.0.0.1:")
        assert process.facts["name_server"] is None

    assert "0.0.0.0 is reached from other machines" in process.errors


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--listen", "nowhere"), 2, "expected HOST:PORT"),
        (("--listen", "none"), 2, "nothing to serve"),
        (("--listen", "0.0.0.0:0"), 2, "name one with --advertise HOST"),
        (("--read-only", "--flush", "sync"), 2, "exclude each other"),
        (("--read-only",), 3, "no store"),
        (("--access-keys", __file__), 5, "no TOML"),
        (("--tls", "enforcing"), 2, "name its file with --tls-cert FILE"),
        (("--tls-ca", __file__), 2, "name its file with --tls-cert FILE"),
        (("--tls-cert", __file__), 5, "no certificate"),
    ],
)
def test_what_cannot_be_served_is_refused_with_a_word(tmp_path, options, code, said):
    done = refused(tmp_path / "none", *options)

    assert (done.exit_code, said in done.output) == (code, True), done.output
    assert not (tmp_path / "none").exists()


def test_a_directory_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")

    done = refused(tmp_path, *ANYWHERE)

    assert done.exit_code == 5
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_port_that_is_taken_is_named_with_what_to_do(small):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = "{}:{}".format(*taken.getsockname())
        done = run(small, "--listen", address, "--namesrv", "none")

    assert done.returncode == 5
    assert "choose other addresses with --listen" in done.stderr
