"""``reput serve --grpc``: the option is passed on, and the address is shown."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest
from grpcclient import GrpcClient

import reput
from reput_tools.cli.kit import ExitCode


@pytest.mark.costly
def test_the_command_serves_clients_of_release_5(tmp_path):
    with reput.open(tmp_path / "store", plugins=["consumequeue", "consumer"]) as store:
        store.put(reput.Message("orders", b"1"))
    words = ["serve", str(tmp_path / "store"), "--listen", "127.0.0.1:0", "--namesrv", "none"]
    words += ["--grpc", "127.0.0.1:0", "--grpc-from-beginning", "--json"]
    with subprocess.Popen(
        [sys.executable, "-m", "reput", *words], stdout=subprocess.PIPE, text=True
    ) as served:
        assert served.stdout is not None
        endpoints = json.loads(served.stdout.readline())["grpc"]
        with GrpcClient(endpoints) as me:
            me.consume("g", "orders")
            _, (message,) = me.take("g", "orders")
        served.send_signal(signal.SIGTERM)

    assert message.body == b"1"
    assert served.returncode == 0


@pytest.mark.parametrize("package", ["h2.config", "google.protobuf"])
def test_packages_that_are_not_installed_are_named_before_a_store_is_made(tmp_path, package):
    path = tmp_path / "store"
    code = f"import sys; sys.modules[{package!r}] = None; from reput.__main__ import main; main()"
    words = ["serve", str(path), "--listen", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]

    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)

    assert done.returncode == ExitCode.UNAVAILABLE
    [line] = done.stderr.splitlines()
    assert line.startswith("reput: --grpc: ")
    assert package in line
    assert "reput-server[grpc]: pip install './extras/server[grpc]' (in a checkout" in line
    assert "whl[grpc]" in line
    assert not path.exists()
