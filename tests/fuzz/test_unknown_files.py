"""Unknown files and options in recorded stores: refused by name, or left as they are.

``REPUT_FUZZ_EXAMPLES`` is the number of cases; ``REPUT_FUZZ_CASE`` is the one case to repeat.
"""

from __future__ import annotations

import functools
import json
import os
import random
import tempfile
from pathlib import Path

import pytest
from brokerdirectories import snapshot, unpacked
from click.testing import CliRunner

import reput
from reput.files import is_system_name
from reput.storefiles import is_known_name
from reput_testing.crashes.powercuts import command_for
from reput_tools.cli.root import reput as program

CASE_VARIABLE = "REPUT_FUZZ_CASE"
STORES = (
    "rocketmq-5.5.0/default",
    "rocketmq-5.3.3/retry",
    "rocketmq-5.5.0/settings-v2",
    "rocketmq-5.5.0/rocksdb-queues",
    "rocketmq-4.8.0/v6",
    "rocketmq-5.5.0/batch-queues",
    "dledger/5.3.3-mixed",
)
NAMES = (
    *("CURRENT", "LOCK", "IDENTITY", "MANIFEST-000005", "OPTIONS-000007", "000004.log"),
    *("consumequeue_rocksdb", "consumequeue_rocksdb2", "consumequeue.bak", "ConsumeQueue"),
    *("batchconsumequeue", "batchconsumequeue2", "BATCHCONSUMEQUEUE", "batchconsumequeue."),
    *("dledger", "dledger-x", "dledger-", "DLedger-n0", "dledger-n0.bak", "xdledger-n0"),
    *("rocksdbstore2", "RocksDBStore", "rocksdbstore.", "rocksdb", "timer_rocksdb", "popstore"),
    *("timerwheel.17", "timerwheel.x", "timerwheel.017", "timerwheel2", "timerwheel.", "timerlog2"),
    *("commitlog2", "CommitLog", "commitlog.", "index2", "Index", "checkpoint2", "checkpoint.bak"),
    *("broker.conf", "plain_acl.yml", "abort.bak", "brokerIdentity", "epochFileCheckpoint"),
    *("reput2", "reput.bak", "lock2", "tieredstore", "liteStore", "config2", "transaction2"),
    *("orders", "rmq_sys_later", "%RETRY%x", "0", "00000000000000000000", "00000000000000000007"),
    *("x" * 255, "é" * 60, "消息", "a b", "a\nb", "-rf", ".hidden", "~", "a.tmp", "b.new"),
    os.fsdecode(b"not\xff\xfetext"),
)
SNAPSHOTS = ("timerwheel.17", "timerwheel.017")
CONFIG_NAMES = ("rdb", "rdb2", "metadata", "metadata2", "topics2", "topics", "Topics.json")
CONFIG_KNOWN = ("rdb", "metadata", "topics")
CONFIG_FILES = ("liteTopics.json", "topics.json.old", "later.json", "timercheck2", "broker.conf")
BELOW = ("CURRENT", "LOCK", "000012.sst", "000004.log", "data/0", "index/0", "currterm", "0/0")
CONF = b"brokerName=a\nstoreType=laterStore\nenableLater=true\nmappedFileSizeCommitLog=17\n"
CONTENTS = (b"", b"x", CONF, b'{"table":{},"later":1}', bytes(4096), b"\xda\xa3\x20\xa7" * 300)
READERS = ("info", "report", "groups", "schedule", "transactions", "losses")
CODES = {0, 1, 3, 5, 6, 7, 8}
"""Exit codes that `docs/cli.md` has for commands that are neither wrong nor interrupted."""


def chosen():
    if one := os.environ.get(CASE_VARIABLE):
        return [int(one)]
    return range(int(os.environ.get("REPUT_FUZZ_EXAMPLES") or 7))


def _put(path, chance):
    """Put a file, a directory or a link down; False if something is there."""
    if os.path.lexists(path) or not path.parent.is_dir():
        return False
    kind = chance.choice(("file", "file", "folder", "filled", "filled", "link"))
    if kind == "file":
        path.write_bytes(chance.choice(CONTENTS))
    elif kind == "link":
        outside = path.parents[len(path.parents) - 2]
        path.symlink_to(chance.choice((outside, "checkpoint", "commitlog", "nowhere", "..")))
    else:
        path.mkdir()
        for _ in range(chance.randrange(1, 4) if kind == "filled" else 0):
            below = path / chance.choice((*BELOW, *NAMES[:20]))
            below.parent.mkdir(parents=True, exist_ok=True)
            if not below.exists():
                below.write_bytes(chance.choice(CONTENTS))
    return True


def _add_options(path, chance):
    """Give topics attributes that no release knows, and the file a table."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return
    topics = found["topicConfigTable"]
    for name in chance.sample(sorted(topics), min(2, len(topics))):
        kind = chance.choice(("later.kind", "queue.later", "+message.later", "lite.later"))
        topics[name].setdefault("attributes", {})[kind] = chance.choice(("1", "", "BatchCQ2"))
        topics[name]["laterField"] = chance.choice((7, "x", None, [1], {"a": 1}))
    found["laterTable"] = {"a": 1}
    path.write_text(json.dumps(found))


def _options(root):
    """What `_add_options` gave."""
    try:
        found = json.loads((root / "config/topics.json").read_text())
    except (OSError, ValueError):
        return None
    topics = found["topicConfigTable"].items()
    rows = {
        name: (row["attributes"], row["laterField"]) for name, row in topics if "laterField" in row
    }
    return found.get("laterTable"), rows


def _run(*arguments, given=""):
    done = CliRunner().invoke(program, list(map(str, arguments)), input=given)
    assert done.exit_code in CODES, f"{arguments[0]}: {done.exit_code}: {done.output}"
    return done


def _verified(root):
    """Severity of each finding of `verify`, by its kind and file."""
    found = json.loads(_run("verify", root, "--json", "--jobs", "1").stdout)["findings"]
    return {(each["kind"], each["file"]): each["severity"] for each in found}


def _count(root):
    with reput.open(root, "r", plugins=[]) as store:
        return sum(len(batch) for batch in store.scan())


@functools.cache
def _as_recorded(store):
    """Of a store that nobody changed: messages, findings, and the exit code of a write."""
    with tempfile.TemporaryDirectory() as folder:
        root = unpacked(store, Path(folder))
        count, findings = _count(root), _verified(root)
        return count, findings, _run("put", root, "orders", given="one more\n").exit_code


@pytest.mark.parametrize("number", chosen())
@pytest.mark.costly
def test_what_is_unknown_is_refused_by_name_or_stays(tmp_path, number):
    chance = random.Random(f"unknown files {number}")
    again = f"the same case again: {command_for(CASE_VARIABLE, str(number))}"
    store = STORES[number % len(STORES)]
    root = unpacked(store, tmp_path)
    recorded = snapshot(root)
    count, findings, refusal = _as_recorded(store)
    count_added, added = chance.randrange(1, 4), []
    for name in chance.sample(NAMES, len(NAMES)):  # one of these names may be there already
        if len(added) < count_added and _put(root / name, chance):
            added.append(name)
    if chance.random() < 0.5 and (root / "config").is_dir():
        name = f"config/{chance.choice((*CONFIG_NAMES, *CONFIG_FILES))}"
        added += [name] if _put(root / name, chance) else []
    if chance.random() < 0.3:
        _add_options(root / "config/topics.json", chance)
    options, before = _options(root), snapshot(root)
    again = f"{store}, {added}, {options}; {again}"
    assert added, again
    assert before != recorded, again

    assert _count(root) == count, again
    found = _verified(root)
    _run(chance.choice(READERS), root)
    assert snapshot(root) == before, again
    _require_named(root, added, found.items() - findings.items(), again)

    done = _run("put", root, "orders", given="one more\n")

    now = snapshot(root)
    if done.exit_code:
        assert now == before, f"{done.output} {again}"
        is_named = any(name in done.output for name in added)
        assert refusal or is_named, f"{done.output} {again}"
        return
    assert not refusal, again
    foreign = [path for path in before if any(_is_below(path, name) for name in added)]
    # A writer may replace a snapshot of the timer wheel by the wheel's file.
    foreign = [path for path in foreign if path in now or path not in SNAPSHOTS]
    assert {path: now.get(path) for path in foreign} == {path: before[path] for path in foreign}
    assert _options(root) == options, again
    assert _count(root) == count + 1, again
    if chance.random() < 0.3:
        _require_named(root, added, _verified(root).items() - findings.items(), again)


def _require_named(root, added, findings, again):
    """`verify` names what is unknown by a notice; only of links it warns."""
    worse = {(kind, file) for (kind, file), severity in findings if severity != "notice"}
    links = {file for kind, file in worse if kind == "store.unsafe" and (root / file).is_symlink()}
    assert worse == {("store.unsafe", file) for file in links}, f"{findings} {again}"
    unknown = {
        name
        for name in added
        if name.removeprefix("config/") not in CONFIG_KNOWN and not is_system_name(name)
        if "/" in name or not is_known_name(name)
    }
    assert unknown <= {file for (_, file), _ in findings}, f"{findings} {again}"


def _is_below(path, name):
    return path == name or path.startswith(f"{name}/")
