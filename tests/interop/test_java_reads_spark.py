"""Apache RocketMQ's store opens what Spark wrote, and goes on with it; and the other way round."""

from __future__ import annotations

from pathlib import Path

import pytest
from java_store import JavaStore
from samples import in_order, told

import reput

pytest.importorskip("pyarrow")
pytest.importorskip("reput_spark", reason="reput-spark is not installed; its own tests need Spark")

from writtenstores import rows_of, write

FILE_SIZE = 65_536


def all_of(path: Path) -> list[dict[str, object]]:
    """What reput says of all messages that queues list."""
    with reput.open(path) as store:
        store.wait_dispatched()
        assert store.losses() == []
        return [told(batch.message(row)) for batch in store.scan() for row in range(len(batch))]


def prepared(path: Path) -> Path:
    """An empty store with files of the sizes that the Java program opens."""
    config = {
        "commitlog": {"file_size": FILE_SIZE},
        "consumequeue": {"units_per_file": 100},
    }
    with reput.open(path, plugins={"consumequeue"}, config=config):
        pass
    return path


@pytest.mark.parametrize("dispatch", [True, False])
def test_java_finds_every_row_and_both_go_on(java: JavaStore, tmp_path: Path, dispatch: bool):
    path = prepared(tmp_path / "store")
    write(path, [[rows_of(0, 300)], [], [rows_of(1, 700)]], dispatch=dispatch)

    first = java.dump(path)

    assert len(first.messages) == 1_000
    assert first.unread == []
    put = java.write(path, "plain", 50)
    write(path, [[rows_of(2, 200)]], dispatch=dispatch)
    second = java.dump(path)
    assert len(put) == 50
    assert len(second.messages) == 1_250
    assert second.unread == []
    assert in_order(second.messages) == in_order(all_of(path))
