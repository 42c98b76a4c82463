"""What is given to a command is stored, used, or refused with the reason: never dropped."""

from __future__ import annotations

import json

import pytest
from commands import cli_runner

import reput
from reput_tools.cli.root import reput as command_line

pytestmark = pytest.mark.shows("commands")

SMALL = {"commitlog": {"file_size": 1 << 16}}


def _run(*arguments, given=b""):
    return cli_runner().invoke(command_line, [str(each) for each in arguments], input=given)


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "store"
    with reput.open(path, plugins=[], config=SMALL) as opened:
        opened.put(reput.Message("orders", b"one", tags="paid", keys="k"))
    return path


def _bodies(path):
    return _run("cat", path, "orders", "--scan", "--format", "%s").stdout_bytes.split()


@pytest.mark.parametrize(
    "options",
    [
        ("--property", "KEYS=abc", "--key", "d"),
        ("--property", "TAGS=abc", "--tag", "d"),
        ("--property", "a=1", "--property", "a=2"),
        ("--property", "a="),
        ("--property", "=a"),
        ("--tag", ""),
        ("--key", ""),
        ("--key", " "),
    ],
)
def test_an_option_of_put_that_would_be_dropped_is_refused(store, options):
    done = _run("put", store, "orders", *options, given=b"two\n")

    assert (done.exit_code, _bodies(store)) == (2, [b"one"])
    assert done.stderr.startswith("reput: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("cat", "orders", "--scan", "--tag", ""),
        ("cat", "orders", "--scan", "--tag", " || "),
        ("cat", "orders", "--scan", "--where", ""),
        ("cat", "orders", "--scan", "--no-newline"),
        ("cat", "orders", "--scan", "--follow"),
        ("cat", "orders", "--json", "--format", "%s"),
        ("cat", "orders", "--body", "raw", "--format", "%s"),
        ("cat", "orders", "--body", "raw", "--json"),
        ("cat", "orders", "--format", "%z"),
        ("cat", "orders", "--from", "yesterday"),
        ("cat", "orders", "--queue", "-1"),
        ("grep", "orders", "--tag", ""),
        ("grep", "orders", "--key", ""),
        ("grep", "orders", "--where", " "),
        ("get",),
        ("get", ""),
        ("get", "7F00000100002A9F0000000000000000", "--offset", "0"),
        ("get", "k", "--topic", ""),
        ("get", "--offset", "0", "--topic", "orders"),
        ("get", "--offset", "0", "--json", "--body", "raw"),
        ("cat", "orders", "--last", "2", "--count", "2"),
        ("cat", "orders", "--follow", "--until", "-1h"),
        ("cat", "orders", "--topic", "orders", "--tag", "a"),
        ("cat",),
        ("grep",),
        ("grep", "text", "-E", "-F"),
        ("grep", "text", "--total", "-C", "1"),
    ],
)
def test_an_option_that_would_select_nothing_or_say_nothing_is_refused(store, arguments):
    command, *others = arguments

    done = _run(command, store, *others)

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("reput: ")


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ({"sys_flag": 4}, "sys_flag"),
        ({"sys_flag": 12}, "sys_flag"),
        ({"tags": "a", "properties": {"TAGS": "b"}}, "tags"),
        ({"keys": ["a"], "properties": {"KEYS": "b"}}, "keys"),
        ({"keys": ["a b"]}, "keys"),
        ({"keys": [""]}, "keys"),
        ({"properties": {"a": ""}}, "property 'a'"),
        ({"properties": {"": "a"}}, "property ''"),
        ({"properties": {"a": None}}, "property 'a'"),
        ({"unknown": 1}, "unknown"),
        ({"flag": 1 << 31}, "flag"),
        ({"queue_id": -1}, "queue_id"),
        ('{"tags": "a", "tags": "b"}', "tags"),
        ('{"properties": {"a": "1", "a": "2"}}', "'a'"),
    ],
)
def test_a_line_of_json_that_would_lose_something_is_refused(store, line, names):
    text = line if isinstance(line, str) else json.dumps(line)

    done = _run("put", store, "orders", "--json-lines", given=text.encode() + b"\n")

    assert (done.exit_code, _bodies(store)) == (6, [b"one"])
    assert done.stderr.startswith("reput: line 1: ")
    assert names in done.stderr


def test_what_cat_prints_can_be_put_again_and_is_the_same_in_all_that_users_set(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    messages = [
        reput.Message("orders", b"plain"),
        reput.Message("orders", "käse ∑".encode(), 3, "paid", ["k1", "k2"], {"region": "eu"}),
        reput.Message("orders", b"\x00\xff", keys="a  b", flag=-7, sys_flag=1),
        reput.Message("orders", b"", born_host=("::1", 9), born_timestamp=5, reconsume_times=2),
        reput.Message("orders", b"x", properties={"odd": "v\x01w", "WAIT": "false"}),
        reput.Message("orders", b"end", sys_flag=8, properties={"UNIQ_KEY": "u"}),
    ]
    with reput.open(first, plugins=[], config=SMALL) as opened:
        opened.put_many(messages)

    printed = _run("cat", first, "orders", "--scan", "--json").stdout_bytes
    with reput.open(second, plugins=[], config=SMALL):
        pass
    copied = _run("put", second, "orders", "--json-lines", given=printed)
    again = _run("cat", second, "orders", "--scan", "--json").stdout_bytes

    assert copied.exit_code == 0, copied.stderr
    before, after = ([json.loads(line) for line in text.splitlines()] for text in (printed, again))
    taken = ("body", "tags", "keys", "properties", "queue_id", "flag", "born_timestamp")
    taken += ("born_host", "reconsume_times", "body_encoding", "compression")
    for name in taken:
        assert [each[name] for each in after] == [each[name] for each in before], name
    assert [each["sys_flag"] & ~0x38 for each in after] == [0, 0, 1, 0, 0, 0]
    assert "not taken over, as the store gives it: msg_id, physical_offset" in copied.stderr
    assert "1 of the messages ended a transaction" in copied.stderr


def test_lines_that_stand_for_lost_messages_are_counted(store):
    given = b'{"hole": true, "physical_offset": 0}\n{"body": "two"}\n'

    done = _run("put", store, "orders", "--json-lines", given=given)

    assert (done.exit_code, _bodies(store)) == (0, [b"one", b"two"])
    assert "1 of the lines described lost messages" in done.stderr
