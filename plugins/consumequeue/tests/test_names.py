"""Which names of queues become directories; what light queues may be called."""

from __future__ import annotations

import pytest

import reput
from reput.errors import MessageIllegalError
from reput.record.layout import PROPERTY_LIGHT_QUEUE_OFFSETS, PROPERTY_LIGHT_QUEUES
from reput_consumequeue import ConsumeQueueConfig, ConsumeQueuePlugin
from reput_consumequeue.queue.queuenames import check_name
from reput_testing import Driver, QuickDisk, SmallLog, snapshot

SMALL = {"commitlog": {"file_size": 4096}}
GOOD = [
    "T",
    "TopicTest",
    "%RETRY%g",
    "%DLQ%g",
    "a|b-c_1",
    "t" * 127,
    "%RETRY%" + "g" * 248,
    "%DLQ%" + "g" * 250,
    "%LMQ%a",
    "%LMQ%a.b:c",
    "%LMQ%主题",
    "%LMQ%" + "n" * 250,
]
BAD = [
    *("", ".", "..", " ", "~", "*", "$HOME", "\0", "T\0", "T\n", "T ", "a b", "a.b", "a\0b"),
    *("../T", "../../x", "../../../../../../../../etc", "/etc", "a/b", "T/0", "T/../T"),
    *("T:stream", "C:\\Windows", "..\\x", "a\\b", "NUL.txt"),
    *("主题", "topic\x7f", "T\u202e", "ｔ", "é", "\ud800", "t" * 128, "%RETRY%" + "g" * 249),
    "%DLQ%" + "g" * 251,
    *("%LMQ%../x", "%LMQ%a/b", "%LMQ%a\0", "%LMQ%a\nb", "%LMQ%\udc80"),
    *("%LMQ%" + "n" * 251, "%LMQ%" + "主" * 84),
]


@pytest.mark.parametrize("name", GOOD)
def test_a_name_that_rocketmq_lets_pass_is_good(name):
    check_name(name)


@pytest.mark.parametrize("name", BAD)
def test_any_other_name_is_refused(name):
    with pytest.raises(MessageIllegalError) as caught:
        check_name(name)
    assert caught.value.field == "topic"


class _NotingDisk(QuickDisk):
    """Notes every path that is asked for."""

    def __init__(self):
        self.paths = []

    def open(self, path, *, write=False, create=False, fresh=False):
        self.paths.append(path)
        return super().open(path, write=write, create=create, fresh=fresh)

    def exists(self, path):
        self.paths.append(path)
        return super().exists(path)

    def list(self, path):
        self.paths.append(path)
        return super().list(path)


@pytest.mark.parametrize("mode", ["w", "r"])
def test_names_that_can_be_no_topic_are_never_looked_for(tmp_path, mode):
    root, disk = tmp_path / "outer" / "store", _NotingDisk()
    with reput.open(root, plugins=["consumequeue"], config=SMALL) as store:
        store.put(reput.Message("T", b""))
    (tmp_path / "outer" / "x").mkdir()

    with reput.open(root, mode, disk=disk) as store:
        before = snapshot(tmp_path)
        disk.paths.clear()
        for topic in BAD:
            with pytest.raises(MessageIllegalError):
                store.read(topic, 0, 0)
            with pytest.raises(MessageIllegalError):
                store.offset_by_time(topic, 0, 0)
        assert disk.paths == []
        assert snapshot(tmp_path) == before


def _light(names, offsets, topic="T"):
    listed = {PROPERTY_LIGHT_QUEUES: names, PROPERTY_LIGHT_QUEUE_OFFSETS: offsets}
    return reput.Message(topic, b"", properties=listed)


def _dispatched(root, log):
    plugin = ConsumeQueuePlugin(ConsumeQueueConfig(units_per_file=64))
    driver = Driver(plugin, "consumequeue", root, log, light_queues=True)
    driver.open()
    driver.catch_up()
    return driver.plugin


def _extents(plugin):
    return {
        (info.topic, info.queue_id): (info.min_queue_offset, info.max_queue_offset)
        for info in plugin.reput_queues()
    }


@pytest.mark.parametrize("topic", ["%RETRY%g", "rmq_sys_wheel_timer", "SCHEDULE_TOPIC_XXXX"])
def test_what_messages_of_system_topics_list_is_ignored(tmp_path, topic):
    plugin = _dispatched(tmp_path, SmallLog.of([_light("%LMQ%a", "0", topic)]))

    assert _extents(plugin) == {(topic, 0): (0, 1)}
    plugin.reput_close()


HIDDEN = [
    *("%RETRY%g", "%DLQ%g", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"),
    *("RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"),
]


@pytest.mark.parametrize("stated", [{}, {PROPERTY_LIGHT_QUEUE_OFFSETS: "7"}])
@pytest.mark.parametrize("topic", [*HIDDEN, "T"])
def test_a_light_queue_lists_a_message_and_none_of_its_copies(tmp_path, topic, stated):
    config = {"commitlog": {"file_size": 1 << 16, "max_light_queues": 9}}
    named = {PROPERTY_LIGHT_QUEUES: "%LMQ%a"}
    flag = 4 if topic == "T" else 0  # a prepared message is in no queue
    hidden = reput.Message(topic, b"hidden", properties={**named, **stated}, sys_flag=flag)

    def listed(store):
        store.wait_dispatched()
        return [each.body for each in store.read("%LMQ%a", 0, 0)]

    with reput.open(tmp_path, plugins=["consumequeue"], config=config) as store:
        store.put(hidden)
        store.put(reput.Message("T", b"1", properties=named))
        store.put_many([hidden, reput.Message("T", b"2", properties={**named, **stated})])
        assert listed(store) == [b"1", b"2"]
    with reput.open(tmp_path) as store:
        store.put(reput.Message("T", b"3", properties=named))
        assert listed(store) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("name", [each for each in BAD if each.startswith("%LMQ%")])
def test_a_message_for_a_light_queue_that_cannot_be_is_refused(tmp_path, name):
    config = {"commitlog": {"file_size": 1 << 16, "max_light_queues": 9}}
    message = reput.Message("T", b"", properties={PROPERTY_LIGHT_QUEUES: f"%LMQ%a,{name}"})
    with reput.open(tmp_path, plugins=["consumequeue"], config=config) as store:
        for put in (lambda: store.put(message), lambda: store.put_many([message, message])):
            with pytest.raises(MessageIllegalError):
                put()
        assert store.log.queue_offsets == {}


@pytest.mark.parametrize("offsets", ["0,0", "0,1"])
def test_a_queue_that_a_message_names_twice_lists_it_once(tmp_path, offsets):
    log = SmallLog.of([_light("%LMQ%a,%LMQ%a", offsets), _light("%LMQ%a", "1")])

    plugin = _dispatched(tmp_path, log)

    assert _extents(plugin)["%LMQ%a", 0] == (0, 2)
    plugin.reput_close()


def test_two_topics_whose_bytes_make_one_name_lose_no_unit_of_one_batch(tmp_path):
    log = SmallLog()
    for topic in [b"%LMQ%\xfe"] * 2 + [b"%LMQ%\xff"] * 3:
        log.append(reput.Message("T", b""), topic=topic)
    plugin = ConsumeQueuePlugin(ConsumeQueueConfig(units_per_file=64))
    with Driver(plugin, "consumequeue", tmp_path, log) as driver:
        driver.dispatch_range(0, 1)  # the queue has a file from here on
        driver.dispatch_range(1, 5)

        [queue] = driver.plugin.queues.made.values()
        places = queue.files.read(0, 9)["physical_offset"][: queue.max_offset].tolist()
        assert places == log.starts


def test_many_light_queues_in_one_batch_keep_the_order_of_the_log(tmp_path):
    messages, next_offsets = [], {}
    for number in range(40):
        names = [f"%LMQ%{number % 3}", f"%LMQ%{number % 5}x"]
        offsets = [next_offsets.setdefault(name, 0) for name in names]
        for name in names:
            next_offsets[name] += 1
        messages.append(_light(",".join(names), ",".join(map(str, offsets))))
    log = SmallLog.of(messages, file_size=1 << 16)

    plugin = _dispatched(tmp_path, log)

    for name, count in next_offsets.items():
        found = plugin.reput_read(name, 0, 0, 64, 1 << 20)
        offsets = [message.physical_offset for message in found]
        assert len(offsets) == count
        assert offsets == sorted(offsets)
        assert all(name in message.properties[PROPERTY_LIGHT_QUEUES] for message in found)
    plugin.reput_close()


def test_a_log_full_of_hostile_names_does_not_fill_the_memory(tmp_path, monkeypatch):
    from reput_consumequeue import plugin as module
    from reput_consumequeue.queue import queuenames

    monkeypatch.setattr(module, "NAMES_MAX", 3)
    monkeypatch.setattr(queuenames, "NAMES_MAX", 3)
    log = SmallLog()
    for number in range(9):
        log.append(reput.Message("T", b""), topic=b"../%d" % number)

    plugin = _dispatched(tmp_path / "store", log)

    refused = plugin.reput_report()["refused_topics"]
    assert sum(refused.values()) == 9
    assert len(refused) == 4
    plugin.reput_close()
