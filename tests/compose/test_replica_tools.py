"""Commands and tools on a replica: they show the role, keep it, and store nothing of their own."""

from __future__ import annotations

import pytest
from commands import commands

import reput
from reput_server.follow import ReplicaFeed
from reput_testing import snapshot
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.doctor.repair.repairrun import repair

MASTER = "broker-a at 10.0.0.7:10911"


@pytest.fixture
def run():
    with commands() as each:
        yield each


@pytest.fixture
def replica(tmp_path):
    with reput.open(tmp_path / "master", plugins=()) as store:
        for number in range(20):
            store.put(reput.Message("orders", b"x" * 100, number % 2))
        data = store.log.files.read(0, store.log.max_physical_offset)
    with reput.open(tmp_path / "replica", plugins=["consumequeue", "index"], master=MASTER) as it:
        ReplicaFeed(it).feed(0, data)
    return tmp_path / "replica"


def role_of(path):
    with reput.open(path, "r", plugins=()) as store:
        return store.role, store.master


def test_info_shows_the_role_and_the_master(run, replica):
    outcome = run("info", replica, "--json")
    assert (outcome.json["role"], outcome.json["master"]) == ("replica", MASTER)
    assert f"replica of {MASTER}" in run("info", replica).out


@pytest.mark.costly
def test_a_message_is_refused_with_the_masters_name(run, replica):
    before = snapshot(replica / "commitlog")
    outcome = run("put", replica, "orders", stdin="x\n")
    assert outcome.code != ExitCode.OK
    assert MASTER in outcome.err
    assert "reput promote" in outcome.err
    assert snapshot(replica / "commitlog") == before


def test_removing_a_plugin_keeps_the_role(run, replica):
    assert run("plugins", replica, "--remove", "index", "--yes").code == ExitCode.OK
    assert role_of(replica) == ("replica", MASTER)


def test_a_repaired_copy_keeps_the_role(tmp_path, replica):
    log = replica / "commitlog" / f"{0:020d}"
    with open(log, "r+b") as file:
        file.seek(file.read(1 << 14).index(b"x" * 100))
        file.write(b"y")
    repair(replica, tmp_path / "repaired")
    assert role_of(tmp_path / "repaired") == ("replica", MASTER)
