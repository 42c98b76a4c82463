"""Addresses HOST:PORT are read in one place, by all distributions."""

from __future__ import annotations

import pytest

from reput_client.remoting import AddressError, address_text, parse_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:10911", ("127.0.0.1", 10_911)),
        (" names.example:1 ", ("names.example", 1)),
        ("[::1]:65535", ("::1", 65_535)),
        ("::1:9876", ("::1", 9_876)),
    ],
)
def test_an_address_is_host_and_port(text: str, expected: tuple[str, int]) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10911",
        "host",
        "host:",
        ":1",
        "host:0",
        "host:65536",
        "host:-1",
        "n:١",
        "host:" + "1" * 9999,
    ],
)
def test_other_texts_are_refused_and_named(text: str) -> None:
    with pytest.raises(AddressError, match="is not an address; expected HOST:PORT") as caught:
        parse_address(text)

    assert isinstance(caught.value, ValueError)
    assert repr(text[:100]) in str(caught.value)
    assert len(str(caught.value)) < 200


def test_what_listens_may_ask_for_a_free_port() -> None:
    assert parse_address("[::1]:0", least_port=0) == ("::1", 0)


def test_an_address_is_written_as_it_is_read() -> None:
    assert address_text(("::1", 2)) == "[::1]:2"
    assert address_text(("127.0.0.1", 2)) == "127.0.0.1:2"
