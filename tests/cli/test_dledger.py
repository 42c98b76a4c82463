"""Commands that read, on directories of brokers that keep their log by DLedger."""

from __future__ import annotations

import gzip
import json

import pytest
from brokerdirectories import GOLDEN, snapshot, unpacked
from commands import Outcome, commands

STORES = ["4.9.7", "5.3.3", "5.3.3-mixed", "5.5.0-killed"]


def reput(*arguments: object, code: int = 0) -> Outcome:
    """Run a command that ends with an exit code."""
    with commands() as run:
        outcome = run(*map(str, arguments))
    assert outcome.code == code, outcome.err
    return outcome


@pytest.fixture(params=STORES)
def recorded(request, tmp_path):
    """Directory and messages of a recorded store, which no command may change."""
    root = unpacked(f"dledger/{request.param}", tmp_path)
    before = snapshot(root)
    with gzip.open(GOLDEN / "dledger" / request.param / "expected.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    yield root, rows
    after = snapshot(root)
    del before["."], after["."]  # a check of derived files builds some there for a moment
    assert after == before


@pytest.mark.costly
def test_commands_show_what_the_broker_showed(recorded, tmp_path):
    root, rows = recorded
    messages = [row for row in rows if row["kind"] == "message"]
    (store,) = [row for row in rows if row["kind"] == "store"]
    (ledger,) = [row for row in rows if row["kind"] == "ledger"]
    killed = store["ended"] == "killed"
    one = messages[-1]

    info = reput("info", root, "--json").json
    report = reput("report", root, "--json").json
    verified = reput("verify", root, "--json").json
    found = reput("grep", root, "-E", "^", "-t", "orders", "--json").lines
    got = reput("get", root, "--offset", one["physical_offset"], "--json").json
    read = reput("cat", root, "payments", "--json").lines

    assert info["log"]["max_physical_offset"] == ledger["end"]
    assert bool(info["problems"]) == killed
    assert report["message_count"] >= ledger["entries"]
    assert verified["healthy"]
    # The broker was killed before it wrote the items of the last message.
    assert ("index.unfinished" in verified["counts"]) == killed
    assert {"consumequeue", "index"}.isdisjoint(each["part"] for each in verified["not_checked"])
    assert killed or set(verified["counts"]) == {"store.dledger"}
    # Delayed messages came due after the broker's client had read the others.
    shown = {each.get("physical_offset") for each in [*found, *read]}
    assert {row["physical_offset"] for row in messages} <= shown
    assert len(shown) <= len(messages) + 12
    assert (got["topic"], got["physical_offset"]) == (one["topic"], one["physical_offset"])
    assert reput("diff", root, root, "--json").code == 0
    for command in ("groups", "transactions", "schedule", "losses", "plugins"):
        reput(command, root)


@pytest.mark.costly
def test_derived_files_are_those_that_the_log_gives(recorded):
    root, rows = recorded
    if any(row["kind"] == "acked" for row in rows):
        pytest.skip("a killed broker leaves derived files behind the log")

    outcome = reput("rebuild", root, "consumequeue", "index", "--check", "--json")

    assert all(not each["differences"] for each in outcome.json["plugins"])
