"""Access keys, versions, and what the package promises as a whole."""

from __future__ import annotations

import pytest

from reput_client.remoting import (
    VERSION,
    Command,
    RequestCode,
    is_signed_with,
    sign,
    version_name,
    version_number,
)


def test_a_signature_is_the_one_of_the_specification():
    signed = sign(Command(10, {"topic": "TopicTest"}, b"hello"), "RocketMQ", "12345678")

    assert signed.fields["AccessKey"] == "RocketMQ"
    assert signed.fields["Signature"] == "IlhJmDi56c1+sdRGdQLyYHpYz4g="


def test_who_has_the_key_is_believed_and_nobody_else():
    signed = sign(Command(10, {"topic": "T", "ä": "1", "𝄞": "2"}, b"x"), "me", "secret", "token")
    other = Command(10, {**signed.fields, "topic": "U"}, b"x")

    assert is_signed_with(signed, "secret")
    assert not is_signed_with(signed, "another")
    assert not is_signed_with(other, "secret")
    assert not is_signed_with(Command(10, {"topic": "T"}), "secret")
    assert not is_signed_with(Command(10, {"Signature": "ä"}), "secret")


def test_a_signature_covers_neither_the_request_code_nor_names_nor_where_values_end():
    signed = sign(Command(10, {"a": "1", "b": "23"}, b"x"), "me", "secret")
    split = {**signed.fields, "a": "12", "b": "3"}
    renamed = {"c" if name == "b" else name: text for name, text in signed.fields.items()}

    assert is_signed_with(Command(11, signed.fields, b"x"), "secret")
    assert is_signed_with(Command(10, split, b"x"), "secret")
    assert is_signed_with(Command(10, renamed, b"x"), "secret")


def test_a_field_that_older_clients_add_behind_the_signature_does_not_matter():
    signed = sign(Command(12, {"key": "k"}), "me", "secret")

    later = Command(12, {**signed.fields, "_UNIQUE_KEY_QUERY": "true"})

    assert is_signed_with(later, "secret")
    assert is_signed_with(sign(later, "me", "secret"), "secret")


@pytest.mark.parametrize(
    ("release", "number", "name"),
    [
        ((4, 8, 0), 373, "V4_8_0"),
        ((4, 9, 4), 401, "V4_9_4"),
        ((5, 1, 4), 441, "V5_1_4"),
        ((5, 3, 3), 479, "V5_3_3"),
    ],
)
def test_releases_have_the_numbers_of_the_protocol(release, number, name):
    assert version_number(*release) == number
    assert version_name(number) == name
    assert version_name(number - 1) == version_name(number) + "_SNAPSHOT"


def test_numbers_that_no_release_has_are_named_all_the_same():
    assert VERSION == 479
    assert version_name(700) == "HIGHER_VERSION"
    assert version_name(28) == "V3 (28)"
    with pytest.raises(ValueError, match=r"3\.9\.9 is not a release"):
        version_number(3, 9, 9)


def test_codes_have_the_numbers_of_the_specification():
    assert RequestCode.GET_ROUTEINFO_BY_TOPIC == 105
    assert RequestCode.SEND_BATCH_MESSAGE == 320
    assert len(RequestCode) == len({int(code) for code in RequestCode})
