"""Sharing queues out: RocketMQ's own examples, and what must hold for any group."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput_consumer.allocation import (
    AllocationError,
    Average,
    Circle,
    Configured,
    ConsistentHash,
    MachineRoom,
    NearbyRoom,
    share,
)
from reput_consumer.messagequeue import MessageQueue

MEMBERS = ["192.168.0.1@100", "192.168.0.2@200", "192.168.0.3@300"]


def queues(count, broker="broker-a", topic="TopicTest"):
    return [MessageQueue(topic, broker, number) for number in range(count)]


def numbers(strategy, count, members, broker="broker-a"):
    """Queue ids by member, in the order of the members."""
    return [
        [queue.queue_id for queue in share(strategy, member, queues(count, broker), members)]
        for member in members
    ]


@pytest.mark.parametrize(
    ("strategy", "broker", "count", "expected"),
    [
        (Average(), "broker-a", 8, [[0, 1, 2], [3, 4, 5], [6, 7]]),
        (Average(), "broker-a", 4, [[0, 1], [2], [3]]),
        (Average(), "broker-a", 2, [[0], [1], []]),
        (Circle(), "broker-a", 8, [[0, 3, 6], [1, 4, 7], [2, 5]]),
        (MachineRoom(["here"]), "here@broker-a", 8, [[0, 1, 6], [2, 3, 7], [4, 5]]),
        (ConsistentHash(), "broker-a", 8, [[], [0, 1, 3, 5, 6, 7], [2, 4]]),
    ],
)
def test_the_examples_of_section_4_1(strategy, broker, count, expected):
    assert numbers(strategy, count, MEMBERS, broker) == expected


def test_the_configured_queues_are_taken_whatever_the_group_is_section_4_1():
    mine = queues(3)[1:]

    assert share(Configured(mine), "unknown", queues(8), MEMBERS) == mine


@pytest.mark.parametrize(
    "strategy", [Average(), Circle(), ConsistentHash(), MachineRoom(["here"]), NearbyRoom()]
)
def test_a_member_that_the_group_does_not_list_gets_nothing_section_4_1(strategy):
    assert share(strategy, "unknown", queues(8, "here@a"), MEMBERS) == []


def test_a_room_without_members_is_shared_by_all_section_4_1():
    rooms = queues(4, "east@a") + queues(2, "north@c") + queues(2, "west@b")
    members = ["east@1", "east@2", "west@3"]

    shares = [share(NearbyRoom(), member, rooms, members) for member in members]

    assert shares == [
        [*queues(2, "east@a"), queues(1, "north@c")[0]],
        [*queues(4, "east@a")[2:], queues(2, "north@c")[1]],
        queues(2, "west@b"),
    ]


@pytest.mark.parametrize(
    ("broker", "members"), [("plain", ["east@1"]), ("east@a", ["plain", "east@1"])]
)
def test_a_room_that_is_not_known_is_an_error_that_says_whose(broker, members):
    with pytest.raises(AllocationError, match=r"'plain' is not known; use names such as room@name"):
        share(NearbyRoom(), "east@1", queues(2, broker), members)


def test_a_text_names_one_room_and_not_its_letters():
    assert MachineRoom("here").rooms == {"here"}


all_queues = st.sets(
    st.builds(
        MessageQueue,
        st.sampled_from(["orders", "payments"]),
        st.sampled_from(["r1@a", "r1@b", "r2@c", "r3@d"]),
        st.integers(0, 40),
    ),
    max_size=60,
)
all_members = st.sets(
    st.builds("{}@{}".format, st.sampled_from(["r1", "r2"]), st.integers(0, 30)),
    min_size=1,
    max_size=12,
)
sharing = st.sampled_from(
    [Average(), Circle(), ConsistentHash(), MachineRoom(["r1", "r2", "r3"]), NearbyRoom(Circle())]
)


@given(sharing, all_queues, all_members, st.randoms(use_true_random=False))
def test_each_queue_has_exactly_one_owner_in_every_members_view(strategy, found, members, random):
    owned = []
    for member in members:
        seen, others = list(found), list(members)
        random.shuffle(seen)  # no two members are told in the same order
        random.shuffle(others)
        owned += share(strategy, member, seen, others)

    assert sorted(owned) == sorted(found)


@given(all_queues, all_members, all_members)
def test_consistent_hashing_moves_queues_only_from_those_who_leave_and_to_those_who_come(
    found, before, after
):
    strategy = ConsistentHash()
    owner_before = {q: m for m in before for q in share(strategy, m, found, before)}
    owner_after = {q: m for m in after for q in share(strategy, m, found, after)}

    for queue in found:
        if owner_before[queue] != owner_after[queue]:
            assert owner_before[queue] not in after or owner_after[queue] not in before
