"""Who a client is, and the keys of its messages."""

from __future__ import annotations

import datetime as dt
import os

from reput_client.clientid import ClientIds, own_address
from reput_client.remoting import UniqueKeys


def test_a_peer_on_this_machine_is_reached_from_the_loopback_address() -> None:
    assert own_address("127.0.0.1:9876") == "127.0.0.1"
    assert own_address("no.such.host.invalid:1") == "127.0.0.1"


def test_client_ids_differ_but_for_members_that_broadcast() -> None:
    ids, others = ClientIds("10.0.0.1"), ClientIds("10.0.0.1")

    made = [ids.next(), ids.next(), others.next()]

    assert len(set(made)) == 3
    assert all(each.startswith(f"10.0.0.1@{os.getpid()}#") for each in made)
    assert ids.next(is_broadcasting=True) == others.next(is_broadcasting=True)
    assert ids.next(is_broadcasting=True) == "10.0.0.1@DEFAULT"


def test_a_unique_key_says_where_and_when_it_was_made() -> None:
    begin = int(dt.datetime(2024, 2, 1).timestamp() * 1000)  # noqa: DTZ001 the month is local
    now = begin + 123_456
    keys = UniqueKeys("10.1.2.3", lambda: now)

    first, second = bytes.fromhex(keys.next()), bytes.fromhex(keys.next())

    assert first[:4] == bytes([10, 1, 2, 3])
    assert int.from_bytes(first[4:6], "big") == os.getpid() & 0xFFFF
    assert int.from_bytes(first[10:14], "big") == 123_456
    assert int.from_bytes(second[14:], "big") == int.from_bytes(first[14:], "big") + 1


def test_the_time_in_a_unique_key_begins_anew_with_a_month() -> None:
    now = [int(dt.datetime(2024, 12, 31, 23, 59, 59).timestamp() * 1000)]  # noqa: DTZ001
    keys = UniqueKeys("10.1.2.3", lambda: now[0])
    before = bytes.fromhex(keys.next())

    now[0] += 2_000
    after = bytes.fromhex(keys.next())

    assert int.from_bytes(before[10:14], "big") == 31 * 86_400_000 - 1_000
    assert int.from_bytes(after[10:14], "big") == 1_000


def test_many_unique_keys_differ_and_have_32_digits() -> None:
    keys = UniqueKeys("10.1.2.3", lambda: 1_700_000_000_000)

    made = {keys.next() for _ in range(0x10000)}

    assert len(made) == 0x10000
    assert {len(each) for each in made} == {32}
    assert len(UniqueKeys("::1", lambda: 0).next()) == 56
