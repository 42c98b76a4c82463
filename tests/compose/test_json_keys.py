"""What a command prints with ``--json`` has the keys that the command declares, and no others."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from brokerdirectories import unpacked
from commands import commands
from damaged_logs import killed
from jsonkeys import commands_with_json, forms_of, keys_of

import reput
from reput.record import Message
from reput_consumer import Selector
from reput_schedule import delayed

PLUGINS = ["consumequeue", "consumer", "index", "integrity", "retention"]
FILE_SIZE = 1 << 14
LOG = {"commitlog": {"file_size": FILE_SIZE}}
CONFIG = {
    **LOG,
    "consumequeue": {"units_per_file": 1_000},
    "index": {"slots_per_file": 100, "items_per_file": 1_000},
    "retention": {"max_bytes": FILE_SIZE},
}
ELSEWHERE = {"browse", "serve", "follow", "promote", "plugins check", "convert"}
"""Commands whose own tests compare their keys: they need a broker, its files, or their time."""


class Failing(reput.Plugin):
    """Takes no message."""

    name = "failing"

    @reput.hookimpl
    def reput_dispatch(self, batch):
        raise ValueError("no")


@pytest.fixture(scope="module")
def run():
    with commands() as run:
        yield run


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A closed store with something of everything."""
    path = tmp_path_factory.mktemp("original") / "store"
    with reput.open(path, plugins=PLUGINS, config=CONFIG) as store:
        for number in range(90):
            store.put(Message("orders", b"x" * 200, number % 2, tags="paid", keys=[f"k{number}"]))
        store.wait_dispatched()
        with store.consumer("billing", "orders", start="earliest", idle=0, explicit=True) as member:
            for number, message in enumerate(member):
                message.retry(-1) if number == 0 else message.ack()
                if number == 5:
                    break
    return path


@pytest.fixture
def store(original, tmp_path):
    """A copy that a test may change."""
    return shutil.copytree(original, tmp_path / "store")


def place_of(path, number=-5):
    """Where an order is in the log."""
    with reput.open(path, "r", plugins=[]) as store:
        orders = [
            int(batch.physical_offset[row])
            for batch in store.scan()
            for row in range(len(batch))
            if batch.message(row).topic == "orders"
        ]
    return orders[number]


BODY, QUEUE_ID = 100, 15  # bytes of a record


def flip(path, place, byte=BODY):
    """Change one byte of a record; return where the record is."""
    base = place - place % FILE_SIZE
    with open(path / "commitlog" / f"{base:020d}", "r+b") as file:
        file.seek(place + byte - base)
        (value,) = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([value ^ 0x40]))
    return place


def lose(path):
    """Have a message lost and recorded so, and a problem; return where the message was."""
    place = flip(path, place_of(path))
    killed(path)
    with reput.open(path):
        pass
    (path / "checkpoint").write_bytes(b"garbled")
    return place


def hold(run, path):
    """Have a suspended plugin hold back files that are to be removed."""
    run("suspend", path, "index")
    with reput.open(path) as store:
        store.put_many([Message("orders", b"x" * 200)] * 240)


def lines(outcome):
    return [json.loads(line) for line in outcome.raw.splitlines()]


PROBLEM = "A problem of the store, before all messages"


def cat(run, store, tmp_path):
    lose(store)
    found = lines(run("cat", store, "orders", "--json"))
    lost = [each for each in found if "hole" in each]
    return {
        "": [each for each in found if "topic" in each and each not in lost],
        "A message that the log has lost, in its place": lost,
        PROBLEM: [each for each in found if "topic" not in each],
    }


def get(run, store, tmp_path):
    place = lose(store)
    return {
        "": [run("get", store, "--offset", place_of(store, 0), "--json").json],
        "A message that the log has lost": [run("get", store, "--offset", place, "--json").json],
    }


def grep(run, store, tmp_path):
    (store / "checkpoint").write_bytes(b"garbled")
    found = lines(run("grep", store, "xx", "-t", "orders", "-C", "1", "--json"))
    return {
        "": [each for each in found if "topic" in each],
        PROBLEM: [each for each in found if "topic" not in each],
        "With `--total`, one document": [run("grep", store, "xx", "--total", "--json").json],
    }


def info(run, store, tmp_path):
    hold(run, store)
    valid = run("info", store, "--state", "--json").json
    flip(store, place_of(store))
    return {"": [valid, run("info", store, "--scan", "--json").json]}


def clean(run, store, tmp_path):
    hold(run, store)
    return {"": [run("clean", store, "--dry-run", "--json").json]}


def losses(run, store, tmp_path):
    lose(store)
    return {"": [run("losses", store, "--json").json]}


def plugins(run, store, tmp_path):
    return {
        "Without PATH": [run("plugins", "--json").json],
        "With PATH": [run("plugins", store, "--json").json],
        "With `--remove`": [run("plugins", store, "--remove", "index", "--yes", "--json").json],
    }


def dead_letters(run, store, tmp_path):
    path = tmp_path / "failing"
    config = {"dispatch": {"on_error": "skip", "retry_count": 0}}
    with reput.open(path, plugins=[Failing()], config=config) as opened:
        opened.put(Message("orders", b"one"))
        opened.wait_dispatched()
    return {"": [run("dead-letters", path, "failing", "--json").json]}


def groups(run, store, tmp_path):
    now, file = 1_700_000_000_000, Path(store, "config", "consumerOffset.json")
    table = '"offsetTable":{'
    file.write_text(file.read_text().replace(table, f'{table}"other@billing":{{0:-1}},'))
    with reput.open(store, threads=False, clock=lambda: now) as opened:
        with opened.consumer("billing", "orders", idle=0) as member:
            member.next(0)
            port = opened.plugin("consumer").port
            port.join("billing", "remote", {"orders": Selector()}, lambda: None)
            now += 6_000  # members are saved every few seconds
            opened.work()
            return {"": [run("groups", store, "--json", "--rate", "0.1").json]}


def compact(run, store, tmp_path):
    path = tmp_path / "compacted"
    config = {**LOG, "compaction": {"topics": ["prices"]}}
    with reput.open(path, plugins=["consumequeue", "compaction"], config=config) as opened:
        opened.put_many([Message("prices", b"1", keys=key) for key in "aba"])
    return {"": [run("compact", path, "--json").json]}


def schedule(run, store, tmp_path):
    path = tmp_path / "scheduled"
    with reput.open(path, plugins=["consumequeue", "schedule"], config=LOG) as opened:
        opened.put(delayed(Message("orders", b"later"), level=17))
        opened.put(delayed(Message("orders", b"later"), delay_ms=86_400_000))
    return {"": [run("schedule", path, "--json").json]}


def transactions(run, store, tmp_path):
    store = tmp_path / "transactions"
    with reput.open(store, plugins=["consumequeue", "transaction"], config=LOG) as opened:
        for _ in range(2):
            opened.plugin("transaction").prepare(Message("orders", b"half", keys="h"), group="shop")
    listed = run("transactions", store, "--json").json
    one, other = [each["id"] for each in listed["transactions"]]
    ended = run("transactions", store, "--commit", one, "--roll-back", other, "--yes", "--json")
    return {"": [listed], "With `--commit` or `--roll-back`": [ended.json]}


def scrub(run, store, tmp_path):
    flip(store, place_of(store))
    found = lines(run("scrub", store, "--rate", "0", "--json"))
    return {
        "A finding": [each for each in found if "finding" in each],
        "The end of a round": [each for each in found if "round" in each],
    }


def repair(run, store, tmp_path):
    flip(store, place_of(store))
    flip(store, place_of(store, 20), QUEUE_ID)
    (last,) = sorted((store / "commitlog").iterdir())[-1:]
    last.rename(last.with_name("1" + last.name[1:]))
    dry = run("repair", store, "--dry-run", "--json").json
    done = run("repair", store, tmp_path / "repaired", "--json").json
    run("repair", store, "--in-place", "--json")
    node = unpacked("dledger/5.5.0-killed", tmp_path / "node")
    return {
        "": [done],
        "If DLedger keeps the log": [run("repair", node, tmp_path / "plain", "--json").json],
        "With `--dry-run`": [dry],
        "With `--undo`": [run("repair", store, "--undo", "--json").json],
    }


def verify(run, store, tmp_path):
    flip(store, place_of(store))
    found = [run("verify", store, "--json").json]
    with reput.open(store):
        found.append(run("verify", store, "--json").json)
    return {"": found}


def report(run, store, tmp_path):
    (store / "checkpoint").write_bytes(b"garbled")
    return {"": [run("report", store, "--json").json]}


def imported(run, store, tmp_path):
    run("export", store, tmp_path / "files")
    return {"": [run("import", tmp_path / "files", tmp_path / "new", "--json").json]}


def altered(run, store, tmp_path):
    run("topics", "create", store, "new")
    return {"": [run("topics", "alter", store, "new", "--perm", "r", "--json").json]}


def words(*call):
    """Return the case of a command that prints one document."""
    return lambda run, store, tmp_path: {
        "": [run(*(each.format(store=store, tmp=tmp_path) for each in call), "--json").json]
    }


CASES = {
    "backfill": words("backfill", "{store}", "filter"),
    "cat": cat,
    "clean": clean,
    "compact": compact,
    "consume": lambda run, store, tmp_path: {
        "": lines(run("consume", store, "audit", "orders", "--count", "1", "--json"))
    },
    "dead-letters": dead_letters,
    "demo": words("demo", "--directory", "{tmp}/demo", "--count", "100"),
    "diff": words("diff", "{store}", "{store}"),
    "dlq ls": lambda run, store, tmp_path: {
        "": lines(run("dlq", "ls", store, "billing", "--json"))
    },
    "dlq resend": words("dlq", "resend", "{store}", "billing", "--all", "--yes"),
    "fill": words("fill", "{store}"),
    "export": words("export", "{store}", "{tmp}/files"),
    "get": get,
    "grep": grep,
    "groups": groups,
    "import": imported,
    "info": info,
    "losses": losses,
    "metrics": words("metrics", "{store}"),
    "plugins": plugins,
    "plugins new": words("plugins", "new", "words", "--directory", "{tmp}/words"),
    "put": words("put", "{store}", "orders", "one"),
    "rebuild": words("rebuild", "{store}", "index", "--check", "--jobs", "1"),
    "repair": repair,
    "report": report,
    "reset-offset": words("reset-offset", "{store}", "billing", "orders", "--to", "latest", "-y"),
    "resume": words("resume", "{store}", "index"),
    "schedule": schedule,
    "scrub": scrub,
    "suspend": words("suspend", "{store}", "index"),
    "topics alter": altered,
    "topics create": words("topics", "create", "{store}", "new"),
    "topics delete": words("topics", "delete", "{store}", "orders", "--yes"),
    "transactions": transactions,
    "verify": verify,
}


@pytest.mark.parametrize("command", CASES)
def test_the_output_of_a_command_has_the_declared_keys(command, run, store, tmp_path):
    documents = CASES[command](run, store, tmp_path)

    forms = forms_of(command)
    assert documents.keys() == forms.keys()
    for form, keys in forms.items():
        found = keys_of(documents[form], keys)
        assert (found - keys.keys(), keys.keys() - found) == (set(), set()), form


def test_every_command_with_json_declares_its_keys():
    ours = {name: option for name, option in commands_with_json().items() if "spark" not in name}

    assert {name for name, option in ours.items() if not option.forms} == set()
    assert ours.keys() == CASES.keys() | ELSEWHERE
