"""Apache RocketMQ's store opens what `reput repair` has made, and serves all that was not damaged.

A part of the zoo; all of it with ``REPUT_ZOO=all``.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from java_store import JavaStore
from zoo.cases import SEED, Case, cases
from zoo.stores import healthy, is_listed, put_down

from reput_tools.doctor.repair.repairrun import repair

pytestmark = pytest.mark.shows("repair")

ALL = list(cases())
SHARE = 8


def chosen() -> list[Case]:
    """A part of the zoo; ``REPUT_ZOO`` says how many cases, or ``all``."""
    asked = os.environ.get("REPUT_ZOO", str(SHARE))
    return ALL if asked == "all" else random.Random(SEED + 1).sample(ALL, int(asked))


def sizes(store: str, mended: Path) -> tuple[str, ...]:
    """Options that tell Java the sizes of a mended store's files.

    Where all queues were missing, nothing tells their size any more, and they have RocketMQ's.
    """
    files = [path for path in (mended / "consumequeue").rglob("*") if path.is_file()]
    queues = tuple(
        word for path in files[:1] for word in ("--cq-units", str(path.stat().st_size // 20))
    )
    if store.startswith("rocketmq"):
        return (*queues, "--index-slots", "50", "--index-max", "200")
    return ("--commitlog-size", "4096", *queues, "--index-slots", "20", "--index-max", "40")


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("ending", ["closed", "killed"])
@pytest.mark.parametrize("case", chosen(), ids=lambda case: case.name)
def test_java_serves_everything_that_was_not_damaged(
    java: JavaStore, tmp_path: Path, case: Case, ending: str
):
    if case.store.startswith("rocketmq-5") and not java.writes_record_version_2:
        pytest.skip("RocketMQ 4 does not read what RocketMQ 5 writes for long topics")
    sick, origin = case.make(), healthy(case.store)
    if sick.altered and "host" in case.name:
        pytest.skip("RocketMQ's client cannot decode the message whose host is damaged, nor say so")
    put_down(sick.files, tmp_path / "store")
    done = repair(tmp_path / "store", tmp_path / "mended")
    if ending == "killed":
        (Path(done.target) / "abort").write_text("1")

    dump = java.dump(Path(done.target), *sizes(case.store, Path(done.target)))

    served = {row["physical_offset"]: row for row in dump.messages}
    expected = {
        offset: message
        for offset, message in origin.records.items()
        if offset not in sick.harmed and is_listed(message)
    }
    missing = [offset for offset in expected if offset not in served]
    assert missing == []
    for offset, message in expected.items():
        row = served[offset]
        assert (row["topic"], row["queue_id"]) == (message.topic, message.queue_id)
        assert row["queue_offset"] == message.queue_offset
        assert row["body"] == message.body
        assert row["store_timestamp"] == message.store_timestamp
        assert row["properties"] == message.properties
