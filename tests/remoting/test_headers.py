"""Typed headers: every class is read from what it writes; wrong texts are named."""

from __future__ import annotations

import inspect
import typing

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reput_client.remoting
from reput_client.remoting import (
    Command,
    GroupOffset,
    HeaderError,
    Pull,
    PullAnswer,
    RequestCode,
    Send,
    SendShort,
    Unregister,
    WipedAnswer,
    read_header,
    write_header,
)

HEADERS = [
    each
    for name in reput_client.remoting.__all__
    if inspect.isclass(each := getattr(reput_client.remoting, name))
    if ".headers." in each.__module__ and attrs.has(each)
]


def values_of(hint):
    optional = [each for each in typing.get_args(hint) if each is not type(None)]
    if type(None) in typing.get_args(hint):
        return st.none() | values_of(optional[0])
    if hasattr(hint, "__metadata__"):
        limit = 1 << (hint.__metadata__[0] - 1)
        return st.integers(-limit, limit - 1)
    return {str: st.text(max_size=20), bool: st.booleans()}[hint]


def headers_of(header_type):
    hints = typing.get_type_hints(header_type, include_extras=True)
    return st.builds(
        header_type,
        **{each.name: values_of(hints[each.name]) for each in attrs.fields(header_type)},
    )


@pytest.mark.parametrize("header_type", HEADERS, ids=lambda each: each.__name__)
@given(data=st.data())
def test_what_is_written_is_read(header_type, data):
    header = data.draw(headers_of(header_type))

    fields = write_header(header)

    assert all(isinstance(text, str) for text in fields.values())
    assert read_header(header_type, fields) == header


def test_a_pull_has_the_names_of_the_protocol():
    header = Pull(
        consumer_group="g", topic="t", queue_id=1, queue_offset=2, max_msg_nums=3, sys_flag=6,
        commit_offset=4, suspend_timeout_millis=15_000, subscription="*", sub_version=5,
        expression_type="TAG",
    )  # fmt: skip

    assert write_header(header) == {
        "consumerGroup": "g",
        "topic": "t",
        "queueId": "1",
        "queueOffset": "2",
        "maxMsgNums": "3",
        "sysFlag": "6",
        "commitOffset": "4",
        "suspendTimeoutMillis": "15000",
        "subscription": "*",
        "subVersion": "5",
        "expressionType": "TAG",
    }


def test_a_send_in_letters_is_the_send_in_words():
    header = Send(
        producer_group="p", topic="t", default_topic="TBW102", default_topic_queue_nums=4,
        queue_id=-1, sys_flag=0, born_timestamp=1, flag=7, properties="a\x01b\x02", batch=True,
    )  # fmt: skip

    letters = write_header(SendShort.of(header))

    assert letters == {
        "a": "p", "b": "t", "c": "TBW102", "d": "4", "e": "-1", "f": "0", "g": "1", "h": "7",
        "i": "a\x01b\x02", "m": "true",
    }  # fmt: skip
    assert read_header(SendShort, letters).spelled_out() == header


def test_names_that_follow_no_rule_are_kept():
    assert write_header(Unregister(client_id="c")) == {"clientID": "c"}
    assert write_header(WipedAnswer(count=2)) == {"wipeTopicCount": "2"}


def test_fields_of_other_hooks_are_passed_over_and_missing_ones_take_their_default():
    fields = {"consumerGroup": "g", "topic": "t", "queueId": "0", "AccessKey": "a", "bname": "b"}

    assert read_header(GroupOffset, fields) == GroupOffset(
        consumer_group="g", topic="t", queue_id=0
    )


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"queueId": None}, "'queueId' is missing; expected an integer of 32 bits"),
        ({"queueId": "2147483648"}, "'queueId' is '2147483648'"),
        ({"queueId": "1_0"}, "'queueId' is '1_0'"),
        ({"queueId": " 1"}, "'queueId' is ' 1'"),
        ({"queueId": "١"}, "'queueId' is '١'"),
        ({"queueId": ""}, "'queueId' is ''"),
        ({"queueId": "9" * 5_000}, "expected an integer of 32 bits"),
        ({"topic": None}, "'topic' is missing; expected a text"),
    ],
)
def test_a_field_that_is_no_value_is_named(changed, said):
    fields = {"consumerGroup": "g", "topic": "t", "queueId": "0"} | changed
    command = Command(14, {name: text for name, text in fields.items() if text is not None})

    with pytest.raises(HeaderError) as caught:
        command.header(GroupOffset)

    assert said in str(caught.value)
    assert "GroupOffset" in str(caught.value)


def test_only_true_is_true():
    fields = {"consumerGroup": "g", "topic": "t", "queueId": "0"}

    found = [
        read_header(GroupOffset, fields | {"setZeroIfNotFound": text}).set_zero_if_not_found
        for text in ("true", "TRUE", "false", "1", "yes")
    ]

    assert found == [True, True, False, False, False]


def test_a_request_and_its_answer_carry_headers_and_more():
    request = Command.request(
        RequestCode.GET_MIN_OFFSET, reput_client.remoting.QueueOf(topic="t", queue_id=1), opaque=5,
        one_way=True, more={"lo": "false"},
    )  # fmt: skip
    header = PullAnswer(suggest_which_broker_id=0, next_begin_offset=1, min_offset=2, max_offset=3)
    answer = request.answer(19, header, remark="nothing", body=b"x", more={"z": "1"})

    assert request.fields == {"topic": "t", "queueId": "1", "lo": "false"}
    assert request.is_one_way
    assert (answer.opaque, answer.code, answer.remark, answer.body) == (5, 19, "nothing", b"x")
    assert answer.header(PullAnswer) == header
    assert answer.fields["z"] == "1"
