"""``reput serve --replicas``: what it prints, and what it refuses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest
from wireslave import WireSlave

from reput_server import ServerConfig, TlsConfig

ANYWHERE = ("--listen", "127.0.0.1:0", "--namesrv", "127.0.0.1:0", "--replicas", "127.0.0.1:0")


def refused(*arguments):
    from click.testing import CliRunner

    from reput_tools.cli.root import reput as command_line

    return CliRunner().invoke(command_line, ["serve", *map(str, arguments)])


@pytest.mark.costly
def test_the_port_is_printed_and_its_slave_has_all_when_the_process_has_ended(tmp_path):
    command = [sys.executable, "-m", "reput", "serve", str(tmp_path / "store"), *ANYWHERE]
    with subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, text=True) as process:
        facts = json.loads(process.stdout.readline())
        host, _, port = facts["replicas"].rpartition(":")
        with WireSlave((host, int(port))) as slave:
            slave.report(0)
            while not slave.read():
                pass
            process.send_signal(signal.SIGTERM)
            assert slave.is_closed()
        assert process.wait(60) == 0

    assert facts["sync_replicas"] == 0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--sync-replicas", 1), "--sync-replicas needs the port of replicas"),
        (("--sync-replicas", 33, "--replicas", "127.0.0.1:0"), "at most 32 replicas may connect"),
        (("--sync-replicas", -1, "--replicas", "127.0.0.1:0"), "--sync-replicas"),
        (("--read-only", "--replicas", "127.0.0.1:0"), "--read-only and --replicas exclude"),
        (("--replicas", "10912"), "is not an address"),
    ],
)
def test_options_that_contradict_each_other_are_refused(tmp_path, options, reason):
    found = refused(tmp_path / "store", *options)

    assert found.exit_code == 2
    assert reason in found.output
    assert not (tmp_path / "store").exists()


def warnings_of(capsys, **options):
    from reput_server.command.display import warn_of_open_ports

    warn_of_open_ports(ServerConfig(**options))
    return capsys.readouterr().err


def test_a_port_that_others_reach_is_warned_of_also_with_access_keys(capsys):
    keys = {"access_keys": {"key": "secret"}}
    inside, outside = ("127.0.0.1", 10_912), ("10.0.0.5", 10_912)
    certified = TlsConfig(certificate="c", key="k", client_ca="a", mode="enforcing")

    assert warnings_of(capsys, replicas=inside, **keys) == ""
    assert warnings_of(capsys, replicas=outside, tls=certified) == ""
    found = warnings_of(capsys, replicas=outside, **keys)
    assert "the protocol has no access keys" in found


def test_slaves_cannot_ask_two_ports_below_where_nobody_listens(capsys):
    found = warnings_of(capsys, replicas=("127.0.0.1", 10_912), fast_port=False)

    assert "slaves of RocketMQ ask for topics two ports below" in found
