"""The script, played with our server."""

from __future__ import annotations

from pathlib import Path

import realbroker
from sameanswers import script
from sameanswers.run import Run

import reput
from reput_server import ServerConfig, serving

CLUSTER = "reput"
HOST = "127.0.0.1"
PLUGINS = frozenset({"consumequeue", "consumer", "filter", "index", "schedule", "transaction"})


def play_with_ours(store: Path, names: int, broker: int, silent: frozenset[str] | None) -> Run:
    """Play the script with a server of a new store.

    Args:
        store: directory of the store.
        names: port of the name server.
        broker: port of the broker.
        silent: see `Run`.
    """
    log = {"file_size": 1 << 20, "store_address": f"{HOST}:{broker}"}
    store_config = {**realbroker.STORE_CONFIG, "commitlog": log}
    config = ServerConfig(listen=(HOST, broker), name_server=(HOST, names), cluster=CLUSTER)
    with (
        reput.open(store, plugins=PLUGINS, config=store_config) as opened,
        serving(opened, config),
        Run((HOST, broker), (HOST, names), silent) as run,
    ):
        script.play(run)
    return run
