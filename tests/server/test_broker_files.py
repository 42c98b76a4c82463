"""What a server refuses, so that a broker can still open the directory later."""

from __future__ import annotations

import pytest
from brokerdirectories import HARMLESS, RECORDED, filled, snapshot, unpacked
from commands import Outcome, commands

from reput_server.brokersettings import refuse_hidden_settings
from reput_server.errors import ServerError


def reput(*arguments: object) -> Outcome:
    """Run a command."""
    with commands() as run:
        return run(*arguments)


@pytest.mark.parametrize("case", RECORDED.values())
def test_a_directory_that_is_not_written_is_not_served(case, tmp_path):
    root = unpacked(case, tmp_path)
    before = snapshot(root)

    outcome = reput("serve", str(root), "--listen", "127.0.0.1:0")

    assert outcome.code != 0
    assert "nothing was changed" in outcome.err
    assert snapshot(root) == before


def test_a_directory_with_settings_in_rocksdb_is_not_served(tmp_path):
    root = filled(tmp_path / "store")
    HARMLESS["settings in RocksDB"](root)
    before = snapshot(root)

    with pytest.raises(ServerError, match="config/rdb/CURRENT"):
        refuse_hidden_settings(str(root))

    assert snapshot(root) == before
    refuse_hidden_settings(str(tmp_path / "new"))  # a directory that is to be created


def test_a_group_of_several_nodes_is_not_served_and_a_log_of_entries_has_no_replicas(tmp_path):
    root = unpacked("dledger/5.3.3", tmp_path)
    listen = ("--listen", "127.0.0.1:0")

    replicas = reput("serve", str(root), *listen, "--replicas", "127.0.0.1:0")
    (root / "dledger-n0" / "currterm").write_text("voteLeader=n1\ncurrTerm=1\n")
    before = snapshot(root)
    several = reput("serve", str(root), *listen)

    assert (replicas.code != 0, "heads of entries" in replicas.err) == (True, True)
    assert (several.code != 0, "its group has several nodes" in several.err) == (True, True)
    assert snapshot(root) == before
