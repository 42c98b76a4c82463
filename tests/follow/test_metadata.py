"""A broker's topics, groups and offsets, as files of the store that follows it."""

from __future__ import annotations

import json

import pytest
from fakemaster import FakeMaster
from followers import WAIT, ended, followed

from reput_server.follow import State, open_replica
from reput_tools.brokerfiles import decode

TOPICS = {
    "dataVersion": {"counter": 3, "stateVersion": 0, "timestamp": 1_700_000_000_000},
    "topicConfigTable": {"topic-0": {"perm": 6, "readQueueNums": 2, "topicName": "topic-0"}},
}
GROUPS = {
    "dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": 1_700_000_000_000},
    "subscriptionGroupTable": {"billing": {"groupName": "billing", "retryMaxTimes": 16}},
}
OFFSETS = b'{"offsetTable":{"topic-0@billing":{0:150,1:60}}}'


@pytest.fixture
def master(log):
    with FakeMaster(log) as master:
        master.answers |= {
            21: json.dumps(TOPICS).encode(),
            201: json.dumps(GROUPS).encode(),
            43: OFFSETS,
            45: b'{"offsetTable":{1:4,3:9}}',
        }
        yield master


def wait_saved(follower, count=1):
    with follower._shared.changed:
        assert follower._shared.changed.wait_for(
            lambda: follower._shared.metadata_count >= count, WAIT
        )


def document(path, name):
    return decode((path / "config" / name).read_bytes())


def test_files_are_those_of_a_slave(tmp_path, master, quick):
    path = tmp_path / "store"
    with followed(path, master, quick(metadata=True)) as (_, follower):
        wait_saved(follower)

    assert document(path, "topics.json") == TOPICS
    assert document(path, "subscriptionGroup.json") == GROUPS
    assert document(path, "consumerOffset.json") == {
        "offsetTable": {"topic-0@billing": {"0": 150, "1": 60}}
    }
    assert b"{0:150,1:60" in (path / "config" / "consumerOffset.json").read_bytes()
    assert document(path, "delayOffset.json")["offsetTable"] == {"1": 4, "3": 9}


def test_groups_and_their_lag_are_known_without_the_broker(tmp_path, master, quick):
    import reput

    path = tmp_path / "store"
    with followed(path, master, quick(metadata=True)) as (_, follower):
        assert follower.wait_caught_up(WAIT)
        wait_saved(follower)
    with reput.open(path, mode="r", plugins=["consumequeue", "consumer"]) as store:
        groups = store.plugin("consumer")
        progress = groups.progress("billing")

        assert groups.groups() == ["billing"]
        assert {each.queue_id: each.lag for each in progress.queues} == {0: 50, 1: 140}


def test_what_changes_is_saved_again(tmp_path, master, quick):
    path = tmp_path / "store"
    with followed(path, master, quick(metadata=True)) as (_, follower):
        wait_saved(follower)
        master.answers[43] = b'{"offsetTable":{"topic-0@billing":{0:151}}}'
        wait_saved(follower, follower.status().metadata_count + 2)

        found = document(path, "consumerOffset.json")
    assert found["offsetTable"] == {"topic-0@billing": {"0": 151}}


@pytest.mark.parametrize("answer", [3, b"[]", b"{nothing", b'{"offsetTable":7}'])
def test_an_answer_that_cannot_be_used_leaves_the_files(tmp_path, master, quick, answer):
    path = tmp_path / "store"
    with followed(path, master, quick(metadata=True)) as (_, follower):
        wait_saved(follower)
        master.answers[43] = answer
        count = len(master.asked)
        while master.asked[count:].count(43) < 2:
            assert follower.wait_caught_up(WAIT)

        assert follower.status().state is State.FOLLOWING
    assert document(path, "consumerOffset.json") == decode(OFFSETS)


def test_a_broker_without_delayed_messages_has_no_offsets_of_them(tmp_path, master, quick):
    path = tmp_path / "store"
    master.answers[45] = 1
    with followed(path, master, quick(metadata=True)) as (_, follower):
        wait_saved(follower)

    assert sorted(each.name for each in (path / "config").iterdir()) == [
        "consumerOffset.json",
        "subscriptionGroup.json",
        "topics.json",
    ]


def test_a_store_whose_plugin_keeps_these_files_is_refused(tmp_path, master, quick):
    from reput_server.follow import following

    path = tmp_path / "store"
    config = quick(metadata=True)
    plugins = ["consumequeue", "consumer"]
    with (
        open_replica(path, master.address, config, plugins=plugins) as store,
        following(store, master.address, config) as follower,
    ):
        error = ended(follower)

    assert error.state is State.REFUSED
    assert "the plugin consumer keeps topics" in error.reason
