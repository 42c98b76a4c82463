"""reput opens what Apache RocketMQ's store wrote."""

from __future__ import annotations

import itertools
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from java_store import (
    COMMITLOG_SIZE,
    INDEXED,
    ITEMS_PER_FILE,
    SLOTS_PER_FILE,
    UNITS_PER_FILE,
    JavaStore,
    Row,
)
from realbroker import RocketMQ
from samples import (
    CASES,
    LIGHT_QUEUES,
    LIGHT_QUEUES_CASE,
    consume_queue_files,
    expected,
    in_order,
    queues_of,
    read_all,
    without_record_crc,
)

import reput
from reput_server import ServerConfig, serving
from reput_tools.cli.root import reput as program
from reput_tools.doctor import Severity, verify

COUNT = 700
PLUGINS = ["consumequeue", "consumer", "index"]
CONFIG = {
    "commitlog": {"file_size": COMMITLOG_SIZE},
    "consumequeue": {"units_per_file": UNITS_PER_FILE},
}
MODES = ("plain", "batch", "v6", "v2", "record-crc")
ENDINGS = {"closed": (), "killed": ("--kill",)}
ONLY_JAVA = ("status", "tags", "tags_code")

Stored = tuple[Path, list[Row]]
_stored: dict[tuple[str, str, str], Stored] = {}


@pytest.fixture(params=itertools.product(MODES, ENDINGS), ids=lambda param: "-".join(param))
def stored(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    java: JavaStore,
) -> Stored:
    """A store that Java wrote and what it answered, queue after queue."""
    mode, ending = request.param
    key = java.version, mode, ending
    if mode == "v2" and not java.writes_record_version_2:
        pytest.skip(f"RocketMQ {java.version} writes no records of version 2")
    if mode == "record-crc" and not java.checks_record_crc:
        pytest.skip(f"RocketMQ {java.version} knows no checksum of whole records")
    if key not in _stored:
        path = tmp_path_factory.mktemp("written") / "store"
        options = ["--record-crc"] if mode == "record-crc" else []
        plain = "plain" if mode == "record-crc" else mode
        rows = java.write(path, plain, COUNT, *options, *ENDINGS[ending])
        _stored[key] = path, in_order(rows)
    path, rows = _stored[key]
    return Path(shutil.copytree(path, tmp_path / "store")), rows


def open_store(path: Path, mode: str) -> reput.Store:
    return reput.open(path, mode=mode, plugins={"consumequeue"}, config=CONFIG)


def messages_of(rows: list[Row]) -> list[Row]:
    return [{name: row[name] for name in row if name not in ONLY_JAVA} for row in rows]


def files_of(path: Path) -> dict[str, bytes]:
    """Every file below ``path``."""
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in files}


@pytest.mark.parametrize("mode", ["r", "w"])
def test_reput_returns_every_message_that_java_stored(stored: Stored, mode: str):
    path, rows = stored

    with open_store(path, mode) as store:
        found = read_all(store)
        queues = {(queue.topic, queue.queue_id): queue.max_queue_offset for queue in store.queues()}

    assert in_order(without_record_crc(found)) == messages_of(rows)
    for row in rows:
        assert row["queue_offset"] < queues[row["topic"], row["queue_id"]]


def test_reput_leaves_what_java_wrote_as_it_is(stored: Stored):
    path, _ = stored
    before = files_of(path)

    open_store(path, "w").close()

    after = files_of(path)
    for name, data in before.items():
        if name.startswith(("commitlog/", "consumequeue/")):
            # What Java allocated ahead goes when a killed store is mended, as Java does it.
            assert after.get(name, b"") == (data if name in after else data.strip(b"\0"))


def test_reput_derives_the_same_consume_queues(stored: Stored):
    path, _ = stored
    theirs = consume_queue_files(path)
    shutil.rmtree(path / "consumequeue")

    open_store(path, "w").close()

    assert consume_queue_files(path) == theirs


def test_light_queues_are_the_same_to_reput(java: JavaStore, tmp_path: Path):
    path, case = tmp_path / "store", LIGHT_QUEUES_CASE
    java.write(path, "plain", COUNT, "--light-queues")
    theirs = consume_queue_files(path)
    queues = java.dump(path, "--light-queues").queues
    shutil.rmtree(path / "consumequeue")

    with case.open(path) as store:
        assert set(LIGHT_QUEUES) < {topic for topic, _ in queues}
        assert queues_of(store) == queues

    assert consume_queue_files(path) == theirs


def test_reput_derives_what_java_had_not_before_it_was_killed(java: JavaStore, tmp_path: Path):
    path = tmp_path / "store"
    rows = in_order(java.write(path, "plain", COUNT, "--kill", "--undispatched"))

    with open_store(path, "w") as store:
        assert in_order(read_all(store)) == messages_of(rows)


def test_java_reads_its_store_again_after_reput_wrote_to_it(java: JavaStore, stored: Stored):
    path, rows = stored
    case = CASES["one-at-a-time"]
    with open_store(path, "w") as store:
        more = [put[1].physical_offset for put in case.write(store, COUNT, seed=2)]

    dump = java.dump(path)

    theirs = [row["physical_offset"] for row in rows]
    assert sorted(row["physical_offset"] for row in dump.messages) == sorted([*theirs, *more])
    assert dump.unread == []


def test_java_misses_nothing_that_was_put_while_nobody_kept_its_queues(
    java: JavaStore, tmp_path: Path
):
    path, case = tmp_path / "store", CASES["one-at-a-time"]
    rows = java.write(path, "plain", COUNT)
    log_only = {"commitlog": case.config["commitlog"]}
    with reput.open(path, mode="w", plugins=set(), config=log_only) as store:
        more = [expected(case, *put) for put in case.write(store, COUNT, seed=2)]

    dump = java.dump(path)

    assert in_order(dump.messages) == in_order([*messages_of(rows), *more])


def test_a_replica_and_a_server_have_every_message_of_java(
    java: JavaStore, fetch_release: Callable[[str], RocketMQ], tmp_path: Path
):
    """Stock clients of 4.9.7 are the newest of 4.9 that Maven has whole."""
    path, replica = tmp_path / "store", tmp_path / "replica"
    rows = java.write(path, "plain", COUNT, *INDEXED)

    followed = CliRunner().invoke(
        program, ["follow", str(replica), "--directory", str(path), "--once"]
    )

    assert followed.exit_code == 0
    assert [each for each in verify(path).findings if each.severity > Severity.NOTICE] == []
    with open_store(replica, "r") as store:
        assert in_order(read_all(store)) == messages_of(in_order(rows))
    extents = Counter(row["queue_id"] for row in rows if row["topic"] == "orders")
    keyed = {
        (row["queue_id"], row["queue_offset"])
        for row in rows
        if row["topic"] == "orders" and "key-33" in row["properties"].get("KEYS", "").split()
    }
    anywhere = ServerConfig(listen=("127.0.0.1", 0), name_server=("127.0.0.1", 0))
    index = {"slots_per_file": SLOTS_PER_FILE, "items_per_file": ITEMS_PER_FILE}
    with (
        reput.open(path, plugins=PLUGINS, config={**CONFIG, "index": index}) as store,
        serving(store, anywhere) as server,
        fetch_release("4.9.7").peer(tmp_path / "peer", "{}:{}".format(*server.name_server)) as peer,
    ):
        # A push consumer of Java fails at the empty bodies that the store has.
        sent = peer.send([{"topic": "bills", "body": f"{at}"} for at in range(8)])
        peer.listen("one", "billing", "bills", start="first")
        taken = peer.taken("one", 8)
        peer.stop("one")
        status = peer.admin("topicStatus", "-t", "orders").splitlines()
        found = peer.admin("queryMsgByKey", "-t", "orders", "-k", "key-33").splitlines()
    assert sorted(row["body"] for row in taken) == [f"{at}" for at in range(8)]
    lines = [line.split() for line in status if line.startswith("broker-a")]
    assert {int(line[1]): int(line[3]) for line in lines} == extents
    lines = [line.split() for line in found if line and line[0].isalnum()]
    assert keyed
    assert {(int(line[1]), int(line[2])) for line in lines} == keyed
    places = [
        (row["queue_id"], row["queue_offset"])
        for row in java.dump(path).messages
        if row["topic"] == "bills"
    ]
    assert sorted(places) == sorted((row["queue_id"], row["queue_offset"]) for row in sent)
