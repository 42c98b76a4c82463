"""``reput serve``: what it prints, what it refuses, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress

import pytest
import wirescript
from brokerdirectories import snapshot, unpacked
from dledgerlog import entries_in
from jsonkeys import forms_of, keys_of
from verifiedstores import checked
from wirepeer import WirePeer, message

import reput
from reput.plugin import default_plugins
from reput.record import pack_host, parse_message_id
from reput_client.remoting import Command, GroupOffset, QueueOf, RequestCode, View, sign

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

    from reput_tools.cli.root import reput as command_line

    return CliRunner().invoke(command_line, ["serve", *map(str, arguments)])


def run(*arguments):
    command = [sys.executable, "-m", "reput", "serve", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.costly
def test_a_new_store_is_made_served_and_left_whole(tmp_path):
    path = tmp_path / "store"
    with serving(path, *ANYWHERE) as process:
        with WirePeer(address_of(process.facts["broker"])) as peer:
            sender = peer.socket.getsockname()
            answer = peer.ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"x")

    broker = address_of(process.facts["broker"])
    assert answer.code == 0
    assert process.returncode == 0
    assert process.facts["broker_name"] == "broker-a"
    assert {"consumequeue", "consumer", *default_plugins()} <= set(process.facts["plugins"])
    keys = forms_of("serve")[""]
    assert keys_of([process.facts], keys) == keys.keys()
    with reput.open(path, mode="r") as store:
        (found,) = store.read("orders", 0, 0)
    assert (found.body, found.store_host, found.born_host) == (b"x", broker, sender)
    assert parse_message_id(answer.fields["msgId"]) == (pack_host(*broker), found.physical_offset)


@pytest.mark.costly
def test_a_file_of_options_stands_in_for_options_and_limits_and_configures_the_store(tmp_path):
    path, file = tmp_path / "store", tmp_path / "reput.toml"
    file.write_text(
        """
        [server]
        listen = "127.0.0.1:0"
        namesrv = "none"
        cluster = "shops"
        name = "broker-x"
        flush = "sync"
        [server.limits]
        connections = 1
        [commitlog]
        file_size = 1_048_576
        store_address = "10.1.2.3:10911"
        """
    )
    with serving(path, "--config", file, "--cluster", "given") as process:
        with WirePeer(address_of(process.facts["broker"])) as peer:
            peer.ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"x")
            with WirePeer(address_of(process.facts["broker"])) as another:
                assert another.is_closed()

    facts = process.facts
    assert (facts["cluster"], facts["broker_name"]) == ("given", "broker-x")
    assert facts["name_server"] is None
    with reput.open(path) as store:
        assert (store.config.file_size, store.config.flush) == (1 << 20, "sync")
        (found,) = store.read("orders", 0, 0)
        assert found.store_host[0] == "10.1.2.3"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("listen = 'x'", "listen: expected in a section"),
        ("[server]\nlisten = '127.0.0.1'", "expected HOST:PORT"),
        ("[server]\nport = 5", "port: no such option; known are"),
        ("[server.limits]\nsends = 5", "sends: no such limit; known are"),
        ("[server.limits]\nconnections = 0", "a number above 0 expected"),
        ("[commitlog]\nfile_size = 5", "file_size"),
        ("[server", "not valid TOML"),
    ],
)
def test_a_file_of_options_that_cannot_be_is_refused_with_a_word(tmp_path, text, said):
    file = tmp_path / "reput.toml"
    file.write_text(text)

    done = refused(tmp_path / "none", *ANYWHERE[2:], "--config", file)

    assert (done.exit_code in (2, 5), said in done.output) == (True, True), done.output
    assert not (tmp_path / "none").exists()


@pytest.mark.costly
def test_what_was_begun_is_finished_when_a_signal_comes(small):
    with serving(small, *ANYWHERE, "--flush", "sync") as process:
        with WirePeer(address_of(process.facts["broker"])) as peer:
            peer.ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"0")
            request = Command.request(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"x")
            with suppress(ConnectionError):
                for at in range(1, 200):
                    peer.send(request)
                    if at == 100:
                        process.send_signal(signal.SIGTERM)
            answers = answers_of(peer)
        assert process.wait(60) == 0  # before another signal ends it at once

    stored = [int(each.fields["queueOffset"]) for each in answers if each.code == 0]
    assert {each.code for each in answers} <= {0, 14}
    with reput.open(small, mode="r") as store:
        assert stored == [each.queue_offset for each in store.read("orders", 0, 1, 1_000)]


def answers_of(peer):
    found = []
    try:
        while True:
            found.append(peer.receive())
    except ConnectionError:
        return found


def test_a_second_signal_ends_the_process_at_once():
    program = """if True:
        import os, signal
        from reput_tools.cli.kit import GracefulStop
        with GracefulStop() as ending:
            ending.call(lambda: print("asked", flush=True))
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
            print("never")
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (128 + signal.SIGTERM, "asked\n")
    assert "ended at once" in done.stderr


def test_a_signal_before_there_is_a_server_interrupts():
    from reput_tools.cli.kit import GracefulStop

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), GracefulStop():
        os.kill(os.getpid(), signal.SIGTERM)

    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.costly
def test_a_store_that_does_not_use_groups_does_not_later(tmp_path):
    with reput.open(tmp_path, plugins={"consumequeue"}, config=SMALL) as store:
        store.put(reput.Message("orders", b"x"))

    with serving(tmp_path, *ANYWHERE) as process:
        with WirePeer(address_of(process.facts["broker"])) as peer:
            asked = QueueOf(topic="orders", queue_id=0)
            assert peer.ask(RequestCode.GET_MAX_OFFSET, asked).fields == {"offset": "1"}

    with reput.open(tmp_path) as store:
        assert "consumer" not in store.plugin_objects


def test_a_server_that_cannot_start_leaves_the_plugins_of_a_store_as_they_were(tmp_path):
    reput.open(tmp_path, plugins={"consumequeue"}, config=SMALL).close()

    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = "{}:{}".format(*taken.getsockname())
        done = run(tmp_path, "--listen", address, "--namesrv", "none")

    assert done.returncode == 5
    assert f"{address} cannot be listened on: Address already in use" in done.stderr
    assert "choose another address with --listen\n" in done.stderr
    with reput.open(tmp_path) as store:
        assert set(store.plugin_objects) == {"consumequeue"}


@pytest.mark.parametrize("option", ["--metrics", "--web"])
@pytest.mark.costly
def test_two_options_with_one_address_are_both_named(tmp_path, option):
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = "{}:{}".format(*free.getsockname())

    done = run(tmp_path, "--listen", "127.0.0.1:0", "--namesrv", address, option, address)

    assert done.returncode == 5
    assert f"{address} cannot be listened on: Address already in use" in done.stderr
    assert f"--namesrv and {option} name the same address" in done.stderr


def test_options_with_a_host_of_another_machine_are_all_named(tmp_path):
    address = "203.0.113.9:0"  # an address for documentation

    done = run(tmp_path, "--listen", address, "--namesrv", address, "--metrics", "127.0.0.1:0")

    assert done.returncode == 5
    assert done.stderr.endswith("choose another address with --listen and --namesrv\n")


@pytest.mark.costly
def test_a_store_that_another_process_writes_is_followed(tmp_path):
    with reput.open(tmp_path, plugins={"consumequeue", "consumer"}, config=SMALL) as store:
        store.put(reput.Message("orders", b"before"))
        store.flush()
        with serving(tmp_path, *ANYWHERE, "--read-only") as process:
            with WirePeer(address_of(process.facts["broker"])) as peer:
                sent = peer.ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"x")
                first = peer.ask(RequestCode.PULL_MESSAGE, wirescript.pull(0))
                held = wirescript.pull(1, hold_ms=25_000)  # longer than the peer waits
                waiting = peer.send(Command.request(RequestCode.PULL_MESSAGE, held))
                store.put(reput.Message("orders", b"meanwhile"))
                later = peer.receive()

    assert process.facts["read_only"] is True
    assert sent.code == 16
    assert b"before" in first.body
    assert (later.opaque, later.code) == (waiting.opaque, 0)
    assert b"meanwhile" in later.body


@pytest.mark.parametrize(
    ("case", "body", "group", "queue_offset"),
    [
        ("dledger/5.3.3", b"once upon a midnight dreary", "none", "0"),
        ("rocketmq-5.5.0/rocksdb-queues", b"once upon a midnight dreary", "CG1", "43"),
        ("rocketmq-5.5.0/settings-single", b"orders 3", "billing", "20"),
        ("rocketmq-5.5.0/settings-v2", b"orders 3", "billing", "20"),
    ],
)
@pytest.mark.costly
def test_a_directory_that_is_not_written_is_served_for_reading(
    case, body, group, queue_offset, tmp_path
):
    if "dledger" not in case:
        pytest.importorskip("rocksdict")  # for topics and groups
    root = unpacked(case, tmp_path)
    before = snapshot(root)

    with serving(root, *ANYWHERE, "--read-only") as process:
        with WirePeer(address_of(process.facts["broker"])) as peer:
            sent = peer.ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"x")
            pulled = peer.ask(RequestCode.PULL_MESSAGE, wirescript.pull(0))
            asked = GroupOffset(consumer_group=group, topic="orders", queue_id=0)
            offset = peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, asked)

    assert sent.code == 16
    assert (pulled.code, body in pulled.body) == (0, True)
    assert offset.fields == {"offset": queue_offset}
    assert snapshot(root) == before


@pytest.mark.costly
@pytest.mark.parametrize("case", ["4.9.7", "5.3.3-mixed", "5.5.0-killed"])
def test_a_one_node_group_of_dledger_is_served_for_writing(case, tmp_path):
    root = unpacked(f"dledger/{case}", tmp_path)
    before = entries_in(root)

    with serving(root, *ANYWHERE) as process:
        with WirePeer(address_of(process.facts["broker"])) as peer:
            sent = [
                peer.ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"%d" % number)
                for number in range(20)
            ]
            first = sent[0].fields
            asked = wirescript.pull(int(first["queueOffset"]), queue_id=int(first["queueId"]))
            pulled = peer.ask(RequestCode.PULL_MESSAGE, asked)

    assert {each.code for each in sent} == {0}
    assert (pulled.code, b"0" in pulled.body) == (0, True)
    after = entries_in(root)
    assert after[: len(before)] == before
    assert len(after) == len(before) + 20
    assert checked(root).exit_code == 0


@pytest.mark.costly
def test_a_reader_says_that_it_passes_options_of_the_store_over(small, tmp_path):
    file = tmp_path / "reput.toml"
    file.write_text("[commitlog]\nflush = 'sync'\n")
    with serving(small, *ANYWHERE, "--read-only", "--config", file) as process:
        pass

    assert "[commitlog] is for who writes the store" in process.errors


@pytest.mark.costly
def test_a_damaged_copy_is_served_for_reading_and_left_as_it_is(tmp_path):
    with reput.open(tmp_path, plugins={"consumequeue", "consumer"}, config=SMALL) as store:
        places = [store.put(reput.Message("orders", b"body-%d" % at)) for at in range(3)]
    log = next((tmp_path / "commitlog").iterdir())
    content = bytearray(log.read_bytes())
    at = content.index(b"body-1")
    content[at : at + 6] = b"XXXXXX"
    log.write_bytes(content)
    (tmp_path / "reput" / "state").chmod(0o444)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    with serving(tmp_path, *ANYWHERE, "--read-only") as process:
        with WirePeer(address_of(process.facts["broker"])) as peer:
            first = peer.ask(RequestCode.PULL_MESSAGE, wirescript.pull(0))
            last = peer.ask(RequestCode.PULL_MESSAGE, wirescript.pull(2))
            offset = View(offset=places[2].physical_offset)
            by_id = peer.ask(RequestCode.VIEW_MESSAGE_BY_ID, offset)

    assert (b"body-0" in first.body, b"XXXXXX" in first.body) == (True, False)
    assert b"body-2" in last.body
    assert b"body-2" in by_id.body
    assert process.returncode == 0
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.costly
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


@pytest.mark.costly
def test_certificates_are_files_and_who_encrypts_is_answered(small, tmp_path):
    from certificates import make_certificates

    files = make_certificates(tmp_path)
    options = ("--tls-cert", files.certificate, "--tls-key", files.key, "--tls", "enforcing")
    with serving(small, *ANYWHERE, *options) as process:
        with WirePeer(address_of(process.facts["name_server"])) as peer:
            peer.socket = files.context().wrap_socket(peer.socket, server_hostname="127.0.0.1")
            assert peer.ask(RequestCode.GET_BROKER_CLUSTER_INFO).code == 0

    assert process.facts["tls"] == "enforcing"


@pytest.mark.costly
def test_metrics_are_where_the_command_says(small):
    import urllib.request

    with serving(small, *ANYWHERE, "--metrics", "127.0.0.1:0") as process:
        url = process.facts["metrics"]
        with urllib.request.urlopen(f"{url}health", timeout=20) as answer:
            assert json.load(answer) == {"status": "ok", "reasons": []}


@pytest.mark.costly
def test_what_people_read_names_the_next_step(small):
    command = [sys.executable, "-m", "reput", "serve", str(small), *ANYWHERE]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = [process.stdout.readline() for _ in range(8)]
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)

    assert lines[0].split() == ["store", str(small)]
    assert [line.split()[0] for line in lines[1:7]] == [
        "plugins",
        "broker",
        "fast",
        "name",
        "encryption",
        "access",
    ]
    assert lines[7].startswith("Clients find it as 127.0.0.1:")
    assert "stopped after 0 requests" in errors
    assert process.returncode == 0


@pytest.mark.costly
def test_who_can_be_reached_from_elsewhere_is_warned(small):
    options = ("--listen", "0.0.0.0:0", "--namesrv", "none", "--advertise", "127.0.0.1")
    with serving(small, *options) as process:
        assert process.facts["broker"].startswith("127.0.0.1:")
        assert process.facts["name_server"] is None

    assert "0.0.0.0 is open to other machines" in process.errors


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--listen", "nowhere"), 2, "expected HOST:PORT"),
        (("--listen", "none"), 2, "nothing to serve"),
        (("--listen", "0.0.0.0:0"), 2, "name one with --advertise HOST"),
        (("--read-only", "--flush", "sync"), 2, "exclude each other"),
        (("--read-only",), 3, "the store does not exist"),
        (("--access-keys", __file__), 5, "not valid TOML"),
        (("--tls", "enforcing"), 2, "name its file with --tls-cert FILE"),
        (("--tls-ca", __file__), 2, "name its file with --tls-cert FILE"),
        (("--tls-cert", __file__), 5, "no certificate"),
        (("--metrics", "9464"), 2, "expected HOST:PORT"),
    ],
)
def test_what_cannot_be_served_is_refused_with_a_word(tmp_path, options, code, said):
    done = refused(tmp_path / "none", *options)

    assert (done.exit_code, said in done.output) == (code, True), done.output
    assert not (tmp_path / "none").exists()


def test_metrics_without_the_client_of_prometheus_name_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    done = refused(tmp_path / "none", *ANYWHERE, "--metrics", "127.0.0.1:0")

    assert done.exit_code == 5
    assert "--metrics needs prometheus_client" in done.output
    assert "reput-tools[prometheus]: pip install './extras/tools[prometheus]'" in done.output
    assert not (tmp_path / "none").exists()


def test_a_directory_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")

    done = refused(tmp_path, *ANYWHERE)

    assert done.exit_code == 3
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


@pytest.mark.costly
def test_an_output_that_takes_nothing_is_no_matter_of_addresses(small):
    command = [sys.executable, "-m", "reput", "serve", str(small), "--listen", "127.0.0.1:0"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*command, "--namesrv", "none"], stdout=full, stderr=subprocess.PIPE, text=True
        )

    assert done.returncode == 5
    assert done.stderr == "reput: standard output: No space left on device\n"
