"""Files of the broker: what it writes is read, and what is written has its form to the byte."""

from __future__ import annotations

import json
import logging
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.files import Disk
from reput_consumer.messagequeue import MessageQueue
from reput_consumer.metadata import localoffsets
from reput_consumer.metadata.consumeroffsets import ConsumerOffsets
from reput_consumer.metadata.deletedtopics import DeletedTopics
from reput_consumer.metadata.localoffsets import LocalOffsets
from reput_consumer.metadata.requestmodes import RequestMode, RequestModes
from reput_consumer.metadata.startjournal import StartJournal
from reput_consumer.metadata.subscriptiongroups import GroupSettings, SubscriptionGroups
from reput_consumer.metadata.topicsettings import Topics, TopicSettings
from reput_consumer.names import checked_group, checked_topic
from reput_testing import SimulatedDisk
from reput_tools.brokerfiles import BrokerDocument, UnreadableDocumentError, decode

OFFSETS = """{
	"dataVersion":{
		"counter":1,
		"stateVersion":0,
		"timestamp":1700000000000
	},
	"groupTopicMap":{
		"GroupA":["Other","TopicTest"]
	},
	"offsetTable":{
		"TopicTest@GroupA":{0:12,1:10,2:0,3:7
		},
		"Other@GroupA":{0:1
		}
	}
}"""
OFFSETS_OF_4_8 = """{
	"offsetTable":{
		"TopicTest@GroupA":{0:12,1:10
		},
		"TopicTest@GroupB":{0:3
		}
	}
}"""
GROUPS = """{
	"dataVersion":{
		"counter":1,
		"stateVersion":0,
		"timestamp":1700000000000
	},
	"forbiddenTable":{},
	"subscriptionGroupTable":{
		"GroupA":{
			"attributes":{},
			"brokerId":0,
			"consumeBroadcastEnable":true,
			"consumeEnable":true,
			"consumeFromMinEnable":true,
			"consumeMessageOrderly":false,
			"consumeTimeoutMinute":15,
			"groupName":"GroupA",
			"groupRetryPolicy":{
				"type":"CUSTOMIZED"
			},
			"groupSysFlag":0,
			"notifyConsumerIdsChangedEnable":true,
			"retryMaxTimes":16,
			"retryQueueNums":1,
			"whichBrokerWhenConsumeSlowly":1
		}
	}
}"""
TOPICS = """{
	"dataVersion":{
		"counter":1,
		"stateVersion":0,
		"timestamp":1700000000000
	},
	"topicConfigTable":{
		"TopicTest":{
			"attributes":{
				"cleanup.policy":"COMPACTION"
			},
			"order":false,
			"perm":6,
			"readQueueNums":4,
			"topicFilterType":"SINGLE_TAG",
			"topicName":"TopicTest",
			"topicSysFlag":0,
			"writeQueueNums":4
		}
	}
}"""
LOCAL = """{
	"offsetTable":{{
		"brokerName":"broker-a",
		"queueId":0,
		"topic":"T"
	}:12
	}
}"""


def document(directory, name, disk=None):
    return BrokerDocument(str(directory), name, disk or Disk(), lambda: 1_700_000_000_000)


def offsets_in(directory, disk=None):
    found = ConsumerOffsets(
        document(directory, "consumerOffset.json", disk),
        document(directory, "lmqConsumerOffset.json", disk),
        StartJournal(str(directory / "starts"), disk or Disk()),
    )
    found.load()
    return found


def at(topic, *offsets):
    return {(topic, queue_id): offset for queue_id, offset in enumerate(offsets)}


# ------------------------------------------------------------------ metadata-files.md, section 3


def test_offsets_are_written_as_section_3_shows(tmp_path):
    offsets = offsets_in(tmp_path)
    offsets.commit("GroupA", at("TopicTest", 12, 10, 0, 7) | at("Other", 1))

    offsets.save()

    text = (tmp_path / "consumerOffset.json").read_text()
    assert text in (OFFSETS, _entries_swapped(OFFSETS))  # the order of a table means nothing


def _entries_swapped(text):
    first = '\t\t"TopicTest@GroupA":{0:12,1:10,2:0,3:7\n\t\t}'
    second = '\t\t"Other@GroupA":{0:1\n\t\t}'
    return text.replace(f"{first},\n{second}", f"{second},\n{first}")


def test_groups_are_written_as_section_3_shows(tmp_path):
    topics = Topics(document(tmp_path, "topics.json"))
    groups = SubscriptionGroups(document(tmp_path, "subscriptionGroup.json"), topics)
    groups.load()

    assert groups.ensure("GroupA") == GroupSettings(group="GroupA")

    assert (tmp_path / "subscriptionGroup.json").read_text() == GROUPS
    assert topics.get("%RETRY%GroupA").read_queue_nums == 1  # as after a heartbeat


def test_values_of_other_types_are_converted_as_brokers_do_and_impossible_ones_are_not(tmp_path):
    topics = Topics(document(tmp_path, "topics.json"))
    (tmp_path / "topics.json").write_text(
        '{"topicConfigTable":{"A":{"readQueueNums":-5,"own":[1]},"B":{"perm":null,"order":1},'
        '"C":{"read_queue_nums":"3","WriteQueueNums":2.0}}}'
    )
    topics.load()

    assert topics.get("A") == TopicSettings(topic="A")
    assert topics.get("B") == TopicSettings(topic="B", order=True)
    assert topics.get("C") == TopicSettings(topic="C", read_queue_nums=3, write_queue_nums=2)

    topics.put(TopicSettings(topic="A", read_queue_nums=8))
    topics.put(TopicSettings(topic="C", read_queue_nums=5, write_queue_nums=2))
    written = json.loads((tmp_path / "topics.json").read_text())["topicConfigTable"]
    assert (written["A"]["own"], written["A"]["readQueueNums"]) == ([1], 8)
    assert {name: value for name, value in written["C"].items() if "ueue" in name} == {
        "readQueueNums": 5,
        "writeQueueNums": 2,
    }


@pytest.mark.parametrize("entry", ["7", "[]", '{"perm":"rw"}', '{"order":"maybe"}', '{"perm":{}}'])
def test_entries_that_brokers_cannot_read_make_the_file_unreadable(tmp_path, entry):
    data = f'{{"topicConfigTable":{{"A":{{"perm":4}},"B":{entry}}}}}'
    (tmp_path / "topics.json").write_text(data)
    topics = Topics(document(tmp_path, "topics.json"))
    topics.load()

    with pytest.raises(UnreadableDocumentError, match="'B'"):
        topics.put(TopicSettings(topic="C"))
    with pytest.raises(UnreadableDocumentError):
        topics.require()

    assert (tmp_path / "topics.json").read_text() == data


@pytest.mark.parametrize("name", ["", "a/b", "a.b", "g" * 256, "../x"])
def test_a_group_or_topic_whose_name_no_broker_takes_is_refused(name, tmp_path):
    topics = Topics(document(tmp_path, "topics.json"))
    groups = SubscriptionGroups(document(tmp_path, "subscriptionGroup.json"), topics)

    with pytest.raises(ValueError, match="group"):
        groups.put_many([GroupSettings(group="first"), GroupSettings(group=name)])
    with pytest.raises(ValueError, match="topic"):
        topics.put_many([TopicSettings(topic="first"), TopicSettings(topic=name)])
    with pytest.raises(ValueError, match="topic"):
        topics.put_soon(TopicSettings(topic=name))
    topics.cover({name: 1})

    assert groups.names() == topics.names() == []
    assert list(tmp_path.iterdir()) == []


def test_an_entry_of_a_name_that_no_broker_takes_can_be_changed(tmp_path):
    (tmp_path / "topics.json").write_text('{"topicConfigTable":{"a.b":{"perm":6}}}')
    topics = Topics(document(tmp_path, "topics.json"))
    topics.load()

    topics.put(TopicSettings(topic="a.b", perm=4))

    assert topics.get("a.b").perm == 4


@pytest.fixture
def covered(tmp_path):
    """Offsets of groups, and the topics that are made for them."""
    topics = Topics(document(tmp_path, "topics.json"))
    offsets = offsets_in(tmp_path)
    offsets.cover = topics.cover
    return offsets, topics


def test_topics_of_which_groups_have_offsets_are_there_for_brokers(covered):
    offsets, topics = covered
    offsets.commit("GroupA", at("TopicTest", 12, 10, 0, 7) | at("Other", 1))

    offsets.save()

    assert topics.get("TopicTest") == TopicSettings(topic="TopicTest")  # of four queues
    assert topics.get("Other").write_queue_nums == 1


def test_a_topic_grows_with_what_is_read_and_keeps_all_else(covered):
    offsets, topics = covered
    topics.put(TopicSettings(topic="T", read_queue_nums=1, write_queue_nums=3, perm=4, order=True))
    offsets.commit("GroupA", at("T", 1, 1))

    offsets.save()

    assert topics.get("T") == TopicSettings(
        topic="T", read_queue_nums=2, write_queue_nums=3, perm=4, order=True
    )


def test_queues_that_an_operator_has_taken_away_come_back_only_for_messages_in_them(covered):
    offsets, topics = covered
    offsets.commit("GroupA", at("T", 1, 1, 1))
    offsets.save()
    topics.put(TopicSettings(topic="T", read_queue_nums=2, write_queue_nums=2))

    offsets.commit("GroupA", at("T", 2, 2, 1))
    offsets.save()
    assert topics.get("T").read_queue_nums == 2

    offsets.commit("GroupA", at("T", 2, 2, 2))
    offsets.save()
    assert topics.get("T").read_queue_nums == 3


@pytest.mark.parametrize("found", [{("T", 2): 1}, {("%LMQ%light", 0): 1}, {("T", 70_000): 1}])
def test_topics_that_no_broker_has_so_are_not_made(covered, found):
    offsets, topics = covered
    offsets.commit("GroupA", found)

    offsets.save()

    assert topics.names() == []


def test_offsets_wait_where_their_topics_cannot_be_written(covered, monkeypatch):
    offsets, topics = covered
    offsets.commit("GroupA", at("T", 1))

    def fail(many):
        raise OSError("no room")

    with monkeypatch.context() as broken:
        broken.setattr(Topics, "put_many", lambda self, many: fail(many))
        with pytest.raises(OSError, match="no room"):
            offsets.save()

    assert not offsets.is_saved
    assert offsets.save()
    assert topics.get("T").read_queue_nums == 1


def test_topics_are_written_as_section_3_shows(tmp_path):
    topics = Topics(document(tmp_path, "topics.json"))
    topics.load()

    topics.ensure(TopicSettings(topic="TopicTest", attributes={"cleanup.policy": "COMPACTION"}))

    assert (tmp_path / "topics.json").read_text() == TOPICS
    assert topics.get("TopicTest").attributes == {"cleanup.policy": "COMPACTION"}


@pytest.mark.parametrize("text", [OFFSETS, OFFSETS_OF_4_8])
def test_offsets_of_both_releases_are_read(tmp_path, text):
    (tmp_path / "consumerOffset.json").write_text(text)

    offsets = offsets_in(tmp_path)

    assert offsets.get("GroupA", "TopicTest", 1) == 10
    assert offsets.get("GroupA", "TopicTest", 9) is None


def test_a_change_keeps_what_others_have_written_meanwhile(tmp_path):
    (tmp_path / "consumerOffset.json").write_text(OFFSETS_OF_4_8)
    offsets = offsets_in(tmp_path)
    later = OFFSETS_OF_4_8.replace("{0:3", "{0:4").replace('{\n\t"', '{\n\t"x":[1],\n\t"', 1)
    (tmp_path / "consumerOffset.json").write_text(later)

    offsets.commit("GroupA", at("TopicTest", 13))
    offsets.save()

    again = offsets_in(tmp_path)
    assert again.of_group("GroupA") == at("TopicTest", 13, 10)
    assert again.of_group("GroupB") == at("TopicTest", 4)
    assert again.document.read()["x"] == [1]


def test_smaller_offsets_are_accepted_and_equal_ones_write_nothing_section_3(tmp_path):
    offsets = offsets_in(tmp_path)
    offsets.commit("g", at("t", 9))

    assert [offsets.save(), offsets.save()] == [True, False]
    offsets.commit("g", at("t", 9))
    assert offsets.is_saved
    offsets.commit("g", at("t", 3))
    assert offsets.save()
    assert offsets_in(tmp_path).get("g", "t", 0) == 3


def test_names_of_more_than_two_parts_are_kept_and_not_looked_at_section_7(tmp_path):
    odd = '{"offsetTable":{"a@b@c":{0:1},"plain":{0:2},"t@g":{0:3,-1:4,1:-5}}}'
    (tmp_path / "consumerOffset.json").write_text(odd)

    offsets = offsets_in(tmp_path)
    offsets.commit("h", at("t", 1))
    offsets.save()

    assert offsets.groups() == ["g", "h"]
    assert offsets.of_group("g") == at("t", 3)
    assert set(offsets.document.read()["offsetTable"]) == {"a@b@c", "plain", "t@g", "t@h"}


# ------------------------------------------------------------------ brokers with light queues


def light_table(directory):
    return decode((directory / "lmqConsumerOffset.json").read_bytes())["offsetTable"]


@pytest.mark.parametrize(
    ("times", "expected"), [((5, 9), 95), ((9, 5), 10), ((None, 9), 95), ((9, None), 95)]
)
def test_the_newer_of_both_files_counts(tmp_path, times, expected):
    files = zip(["consumerOffset.json", "lmqConsumerOffset.json"], (10, 95), times, strict=True)
    for number, (name, offset, time_of) in enumerate(files):
        version = "" if time_of is None else f'"dataVersion":{{"timestamp":{time_of}}},'
        (tmp_path / name).write_text(f'{{{version}"offsetTable":{{"t@g":{{0:{offset}}}}}}}')
        os.utime(tmp_path / name, (1_000 + number, 1_000 + number))

    assert offsets_in(tmp_path).get("g", "t", 0) == expected


def test_what_only_the_older_file_knows_counts_too(tmp_path):
    (tmp_path / "consumerOffset.json").write_text(
        '{"dataVersion":{"timestamp":5},"offsetTable":{"t@g":{0:1,1:2},"t@old":{0:3}}}'
    )
    (tmp_path / "lmqConsumerOffset.json").write_text(
        '{"dataVersion":{"timestamp":9},"offsetTable":{"t@g":{0:7}}}'
    )

    offsets = offsets_in(tmp_path)

    assert offsets.of_group("g") == at("t", 7, 2)
    assert offsets.of_group("old") == at("t", 3)


def test_a_change_is_written_to_both_files_with_all_that_one_of_them_lacks(tmp_path):
    (tmp_path / "consumerOffset.json").write_text(
        '{"dataVersion":{"timestamp":5},"offsetTable":{"t@g":{0:1},"t@h":{0:3}}}'
    )
    (tmp_path / "lmqConsumerOffset.json").write_text(
        '{"dataVersion":{"timestamp":9},"lmqOffsetTable":{"%LMQ%q@%LMQ%g":5},'
        '"offsetTable":{"t@g":{0:95}}}'
    )
    offsets = offsets_in(tmp_path)

    offsets.commit("g", at("t", 96))
    offsets.commit("%LMQ%g", at("%LMQ%q", 6))
    offsets.save()

    plain = decode((tmp_path / "consumerOffset.json").read_bytes())["offsetTable"]
    assert (plain["t@g"], plain["t@h"], plain["%LMQ%q@%LMQ%g"]) == ({"0": 96}, {"0": 3}, {"0": 6})
    assert light_table(tmp_path) == {"t@g": {"0": 96}, "t@h": {"0": 3}}
    light = decode((tmp_path / "lmqConsumerOffset.json").read_bytes())
    assert light["lmqOffsetTable"] == {"%LMQ%q@%LMQ%g": 6}
    assert offsets_in(tmp_path).by_group() == offsets.by_group()


def test_what_is_forgotten_is_taken_out_of_both_files(tmp_path):
    for name in ("consumerOffset.json", "lmqConsumerOffset.json"):
        (tmp_path / name).write_text('{"offsetTable":{"t@g":{0:1},"t@h":{0:3}}}')
    offsets = offsets_in(tmp_path)

    offsets.forget_group("h")
    offsets.save()

    assert offsets_in(tmp_path).groups() == ["g"]
    assert light_table(tmp_path) == {"t@g": {"0": 1}}


def test_a_store_without_light_queues_gets_no_file_for_them(tmp_path):
    offsets = offsets_in(tmp_path)
    offsets.commit("g", at("t", 1))

    offsets.save()

    assert not (tmp_path / "lmqConsumerOffset.json").exists()


# ------------------------------------------------------------------ damage and power cuts


@pytest.mark.parametrize("torn", [b"", b"{", OFFSETS.encode()[:90], b"\0" * 50, b"[]", b"\xff"])
def test_a_torn_file_falls_back_to_its_backup_with_a_word_in_the_log(tmp_path, torn, caplog):
    (tmp_path / "consumerOffset.json").write_bytes(torn)
    (tmp_path / "consumerOffset.json.bak").write_text(OFFSETS_OF_4_8)

    with caplog.at_level(logging.WARNING):
        offsets = offsets_in(tmp_path)

    assert offsets.get("GroupA", "TopicTest", 0) == 12
    assert "consumerOffset.json: " in caplog.text


def test_a_torn_file_does_not_become_the_backup(tmp_path):
    (tmp_path / "consumerOffset.json").write_bytes(b"{")
    (tmp_path / "consumerOffset.json.bak").write_text(OFFSETS_OF_4_8)
    offsets = offsets_in(tmp_path)

    offsets.commit("GroupA", at("TopicTest", 13))
    offsets.save()

    assert (tmp_path / "consumerOffset.json.bak").read_text() == OFFSETS_OF_4_8
    assert offsets_in(tmp_path).of_group("GroupA") == at("TopicTest", 13, 10)


@pytest.mark.parametrize("backup", [None, OFFSETS_OF_4_8[:40]])
def test_offsets_that_cannot_be_read_are_kept_and_others_can_be_saved(tmp_path, backup, caplog):
    torn = OFFSETS.encode()[:-30]
    (tmp_path / "consumerOffset.json").write_bytes(torn)
    if backup is not None:
        (tmp_path / "consumerOffset.json.bak").write_text(backup)
    offsets = offsets_in(tmp_path)

    offsets.commit("new", at("t", 1))
    offsets.save()
    offsets.commit("new", at("t", 2))
    offsets.save()

    copies = {name: (tmp_path / name).read_text() for name in offsets.document.copies}
    expected = {"consumerOffset.json.unreadable": torn.decode()}
    if backup is not None:
        expected["consumerOffset.json.bak.unreadable"] = backup
    assert copies == expected
    again = offsets_in(tmp_path)
    assert (again.of_group("new"), again.is_incomplete) == (at("t", 2), True)
    assert "offsets of groups were lost: consumerOffset.json" in caplog.text


def test_a_file_that_is_damaged_meanwhile_gets_all_offsets_that_are_known_here(tmp_path):
    offsets = offsets_in(tmp_path)
    for group in ("a", "b"):
        offsets.commit(group, at("t", 1))
        offsets.save()
    (tmp_path / "consumerOffset.json").write_bytes(b"{")

    offsets.commit("c", at("t", 1))
    offsets.save()

    assert offsets_in(tmp_path).groups() == ["a", "b", "c"]
    assert (tmp_path / "consumerOffset.json.unreadable").read_bytes() == b"{"


@given(st.integers(0, len(OFFSETS) - 1), st.binary(min_size=1, max_size=4))
def test_no_damage_raises_or_makes_an_offset_that_no_queue_has(tmp_path_factory, place, garbage):
    directory = tmp_path_factory.getbasetemp() / "damaged"
    directory.mkdir(exist_ok=True)
    data = OFFSETS.encode()
    damaged = data[:place] + garbage + data[place + len(garbage) :]
    (directory / "consumerOffset.json").write_bytes(damaged)

    offsets = offsets_in(directory)

    for group in offsets.groups():
        assert all(0 <= offset < 1 << 63 for offset in offsets.of_group(group).values())


def test_a_deeply_nested_file_is_damaged_and_no_crash(tmp_path):
    (tmp_path / "consumerOffset.json").write_bytes(b'{"offsetTable":' + b"[" * 100_000)

    assert offsets_in(tmp_path).groups() == []


def test_what_was_saved_survives_a_power_cut_at_every_operation(tmp_path):
    saved = [0]
    (tmp_path / "store").mkdir()
    disk = SimulatedDisk(tmp_path / "store", lambda: saved[-1])
    offsets = offsets_in(tmp_path / "store" / "config", disk)

    for offset in (1, 2, 3):
        offsets.commit("g", at("t", offset))
        offsets.save()
        saved.append(offset)

    points = [*disk.points, disk.now()]
    for number, point in enumerate(points):
        for other, state in enumerate(point.states()):
            state.materialize(tmp_path / f"cut {number} {other}")
            found = offsets_in(tmp_path / f"cut {number} {other}" / "config").get("g", "t", 0) or 0
            assert found >= point.note
    assert points[-1].note == 3


# ------------------------------------------------------------------ others


@pytest.mark.parametrize(
    ("given", "message"),
    [("", "at least one"), ("a/b", "letters"), ("..", "letters"), ("x" * 249, "249 characters")],
)
def test_names_that_no_broker_takes_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        checked_group(given)


def test_topics_of_a_group_may_be_longer_than_others():
    assert checked_topic("%RETRY%" + "g" * 248)
    with pytest.raises(ValueError, match="128 characters; at most 127"):
        checked_topic("t" * 128)
    with pytest.raises(TypeError):
        checked_topic(None)


def test_local_offsets_have_the_form_of_section_6(tmp_path):
    local = LocalOffsets(str(tmp_path), "10.0.0.1@DEFAULT", "g")

    local.save({MessageQueue("T", "broker-a", 0): 12})

    path = tmp_path / ".rocketmq_offsets" / "10.0.0.1@DEFAULT" / "g" / "offsets.json"
    assert path.read_text() == LOCAL
    assert LocalOffsets(str(tmp_path), "10.0.0.1@DEFAULT", "g").load() == {
        MessageQueue("T", "broker-a", 0): 12
    }


@pytest.mark.parametrize("name", ["", "..", "a/b", "x" * 256, "\u00fc" * 128, "\udc80" * 86])
def test_local_offsets_refuse_what_no_directory_is_called(tmp_path, name):
    for names in ((name, "g"), ("c", name)):
        with pytest.raises(ValueError, match="at most 255 bytes"):
            LocalOffsets(str(tmp_path), *names)


def test_local_offsets_of_other_queues_are_kept_and_a_torn_file_falls_back_section_6(tmp_path):
    one, other = (MessageQueue("T", "broker-a", number) for number in (0, 1))
    local = LocalOffsets(str(tmp_path), "c", "g")
    local.save({one: 1})
    local.save({other: 2})
    path = tmp_path / ".rocketmq_offsets" / "c" / "g" / "offsets.json"

    assert LocalOffsets(str(tmp_path), "c", "g").load() == {one: 1, other: 2}
    path.write_bytes(path.read_bytes()[:-9])
    assert LocalOffsets(str(tmp_path), "c", "g").load() == {one: 1}


@given(
    st.dictionaries(
        st.builds(MessageQueue, st.text(max_size=9), st.text(max_size=9), st.integers(0, 99)),
        st.integers(0, 1 << 60),
    )
)
def test_local_offsets_come_back(offsets):
    assert localoffsets.decode(localoffsets.encode(offsets)) == offsets


def test_local_offsets_are_read_as_clients_do_and_what_cannot_be_read_is_kept(tmp_path):
    path = tmp_path / ".rocketmq_offsets" / "c" / "g" / "offsets.json"
    path.parent.mkdir(parents=True)
    queue = MessageQueue("T", "broker-a", 0)
    path.write_bytes(b"\xef\xbb\xbf" + LOCAL.replace('"', "'").replace("12", "12,").encode())
    assert LocalOffsets(str(tmp_path), "c", "g").load() == {queue: 12}

    path.write_text(LOCAL[:-20])
    local = LocalOffsets(str(tmp_path), "c", "g")
    assert local.load() == {}
    local.save({queue: 1})

    assert LocalOffsets(str(tmp_path), "c", "g").load() == {queue: 1}
    assert (path.parent / "offsets.json.unreadable").read_text() == LOCAL[:-20]


def test_a_negative_local_offset_counts_as_none(caplog):
    queues = [MessageQueue("T", "broker-a", number) for number in (0, 1)]

    found = localoffsets.decode(localoffsets.encode({queues[0]: 12, queues[1]: -1}))

    assert found == {queues[0]: 12}
    assert "queue=T/1 offset=-1" in caplog.text


@given(st.text(alphabet='{}":,[]tT0-\\ \n', max_size=60))
def test_what_is_no_file_of_local_offsets_is_a_value_error(text):
    try:
        found = localoffsets.decode(text.encode())
    except ValueError:
        return
    assert found == {}


# ------------------------------------------------------------------ lost while the store is open


def modes_in(directory) -> RequestModes:
    found = RequestModes(document(directory, "messageRequestMode.json"))
    found.load()
    return found


def notes_in(directory) -> DeletedTopics:
    found = DeletedTopics(document(directory, "deletedTopics.json"))
    found.load()
    return found


def lose(path, *, how):
    """Take a file from a store that has it open; ``how`` is what stands there then."""
    if how is None:
        path.with_name(f"{path.name}.bak").unlink(missing_ok=True)
        path.unlink()
    else:
        path.write_text(how)


LOST = pytest.mark.parametrize(
    "how", [None, "", '{"messageRequest', "[]"], ids=["removed", "empty", "torn", "list"]
)


@LOST
def test_a_mode_is_added_to_those_that_are_known_where_the_file_was_lost(tmp_path, how):
    modes, pops = modes_in(tmp_path), RequestMode(pops=True, share_queues=2)
    for group in "abc":
        modes.put("T", group, pops)

    lose(tmp_path / "messageRequestMode.json", how=how)
    modes.put("T", "d", pops)

    assert [group for group in "abcd" if modes_in(tmp_path).get("T", group) == pops] == [*"abcd"]
    lose(tmp_path / "messageRequestMode.json", how=how)
    modes.forget(group="b")
    assert [group for group in "abcd" if modes_in(tmp_path).get("T", group) == pops] == [*"acd"]


@LOST
def test_a_deleted_topic_stays_deleted_where_the_file_of_the_notes_was_lost(tmp_path, how):
    notes = notes_in(tmp_path)
    for topic in "abc":
        notes.note(topic, {0: 7}, 1_000)

    lose(tmp_path / "deletedTopics.json", how=how)
    notes.note("d", {0: 7}, 2_000)

    found = notes_in(tmp_path)
    assert [found.floor(topic, 0) for topic in "abcd"] == [7, 7, 7, 7]
    assert found.positions == {"a": 1_000, "b": 1_000, "c": 1_000, "d": 2_000}
    lose(tmp_path / "deletedTopics.json", how=how)
    notes.forget({"b"})
    assert notes_in(tmp_path).names() == ["a", "c", "d"]


def test_a_negative_offset_is_shown_until_the_file_is_written_without_it(tmp_path):
    path = tmp_path / "consumerOffset.json"
    path.write_text('{"offsetTable":{"T@g":{0:-1,1:2},"U@g":{0:-5}}}')
    offsets = offsets_in(tmp_path)
    offsets.commit("g", {("T", 1): 3})
    assert offsets.ignored_of_group("g") == {("T", 0): -1, ("U", 0): -5}

    offsets.save()

    assert offsets.ignored_of_group("g") == {("U", 0): -5}
    assert offsets_in(tmp_path).ignored_of_group("g") == offsets.ignored_of_group("g")
