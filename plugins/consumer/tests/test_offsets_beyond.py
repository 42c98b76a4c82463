"""Offsets that lie beyond the log when a store is opened, as a broker can leave them."""

from __future__ import annotations

import logging
import shutil

import pytest
from groupstores import Steps, bodies

from reput_tools.brokerfiles import decode

pytestmark = pytest.mark.shows("offsets-beyond")

FIRST = ["1", "2", "3"]
LATER = ["4", "5", "6", "7"]


def left_behind(at: Steps, offset: int, key: str = "orders@g") -> None:
    """Open a store whose file counts more messages than its log has."""
    at.store.close()
    path = at.root / "config" / "consumerOffset.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'{{"offsetTable":{{"{key}":{{0:{offset}}}}}}}')
    at.open()


def in_file(at: Steps, key: str = "orders@g") -> dict[str, int]:
    path = at.root / "config" / "consumerOffset.json"
    table = decode(path.read_bytes())["offsetTable"]
    return {str(queue_id): offset for queue_id, offset in table.get(key, {}).items()}


def test_an_offset_beyond_the_log_is_lowered_at_opening_and_reported(at, caplog):
    at.put(*FIRST)

    with caplog.at_level(logging.WARNING):
        left_behind(at, 7)

    assert in_file(at) == {"0": 3}
    assert "group=g queue=orders/0 offset=7 lowered_to=3" in caplog.text
    at.put(*LATER)
    with at.consumer() as consumer:
        assert bodies(consumer) == LATER


def test_a_kill_right_after_the_first_puts_leaves_it_lowered(at, tmp_path):
    at.put(*FIRST)
    left_behind(at, 5)
    at.put(*LATER)
    # A copy of an open store is what a kill leaves.
    killed = shutil.copytree(at.root, tmp_path / "killed")

    later = Steps(killed)
    later.open()

    with later.consumer() as consumer:
        assert bodies(consumer) == LATER
    later.store.close()


def test_a_queue_that_the_log_has_lost_as_a_whole_is_read_from_its_beginning(at):
    left_behind(at, 2)
    at.put(*LATER)

    with at.consumer(start="latest") as consumer:
        assert bodies(consumer) == LATER


@pytest.mark.parametrize("key", ["orders@CID_RMQ_SYS_TRANS", "%LMQ%a@%LMQ%a"])
def test_offsets_that_others_keep_are_left_alone(at, key):
    left_behind(at, 9, key)

    at.store.work()

    assert in_file(at, key) == {"0": 9}


@pytest.mark.parametrize("offset", [0, 2, 3])
def test_offsets_within_the_log_change_nothing(at, offset, caplog):
    at.put(*FIRST)
    left_behind(at, offset)
    before = (at.root / "config" / "consumerOffset.json").read_bytes()

    with caplog.at_level(logging.WARNING):
        at.put(*LATER)
        at.work_for(60_000)

    assert (at.root / "config" / "consumerOffset.json").read_bytes() == before
    assert caplog.text == ""


def test_a_queue_whose_files_are_gone_is_believed_to_end_where_the_log_says(at):
    at.put(*FIRST)
    at.store.close()
    shutil.rmtree(at.root / "consumequeue")
    at.open()

    left_behind(at, 3)

    assert in_file(at) == {"0": 3}


def test_a_plugin_that_is_added_to_an_open_store_lowers_them_too(at):
    at.put(*FIRST)
    at.store.remove_plugin("consumer")
    path = at.root / "config" / "consumerOffset.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text('{"offsetTable":{"orders@g":{0:7}}}')

    at.store.add_plugin("consumer")

    assert in_file(at) == {"0": 3}


def test_a_group_with_a_negative_offset_only_is_deleted_like_others(at):
    left_behind(at, -1)

    assert at.plugin.groups() == ["g"]
    assert at.plugin.delete_group("g")
    assert (at.plugin.groups(), in_file(at)) == ([], {})


def test_the_offset_of_the_other_file_counts_where_one_is_negative(at):
    at.put(*FIRST)
    at.store.close()
    names = "consumerOffset.json", "lmqConsumerOffset.json"
    for name, offset in zip(names, (2, -1), strict=True):
        path = at.root / "config" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'{{"offsetTable":{{"orders@g":{{0:{offset}}}}}}}')
    at.open()

    assert at.plugin.progress("g").ignored_offsets == {}
    with at.consumer(start="latest") as consumer:
        assert bodies(consumer) == ["3"]
