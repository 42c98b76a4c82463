"""The values that are written in the place of each member, as JSON text."""

from __future__ import annotations

from typing import Final

MISSING: Final = "(missing)"
"""Stands for a member that is left out."""

_PLAIN: Final = (
    MISSING,
    "null",
    "true",
    "false",
    "0",
    "1",
    "2",
    "7",
    "-1",
    "1.0",
    "1.5",
    "1e1",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "[]",
    "[1]",
    '["1"]',
    '["a",null]',
    "[true]",
    "[{}]",
    "{}",
    '{"a":1}',
    '{"a":"b"}',
    "abc",
)
_TEXTS: Final = (
    "",
    " ",
    "0",
    "1",
    "2",
    "7",
    "-1",
    "+1",
    " 1",
    "1 ",
    "007",
    "1.0",
    "1.5",
    "1e1",
    "1,000",
    "1_000",
    "0x1",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "null",
    "NULL",
    "true",
    "True",
    "TRUE",
    "false",
    "FALSE",
    "t",
    "T",
    "F",
    "y",
    "Y",
    "N",
    "yes",
    "on",
    "abc",
    "[1]",
    "{}",
)

VALUES: Final = (*_PLAIN, *(f'"{text}"' for text in _TEXTS))
"""What each member is written as."""

ENUMS: Final = {
    "messageModel": ("CLUSTERING", "BROADCASTING"),
    "consumeType": ("CONSUME_PASSIVELY", "CONSUME_ACTIVELY", "CONSUME_POP"),
    "consumeFromWhere": (
        "CONSUME_FROM_FIRST_OFFSET",
        "CONSUME_FROM_LAST_OFFSET",
        "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
        "CONSUME_FROM_MIN_OFFSET",
        "CONSUME_FROM_MAX_OFFSET",
        "CONSUME_FROM_TIMESTAMP",
    ),
    "topicFilterType": ("SINGLE_TAG", "MULTI_TAG"),
}

FRAME_VALUES: Final = {
    # What is one-way, a response or another request gets no answer; each such value is waited for.
    "code": ("34", '"34"', "34.0", "34.5", '"+34"', '"034"', '" 34"', "[34]", '"abc"', "true"),
    "flag": (MISSING, "null", "0", '"0"', '""', "0.0", "0.9", "4", '"4"', "false", '"abc"', "[]"),
    "opaque": (MISSING, "null", "1", '"1"', '""', "1.9", '"1,000"', "true", '"abc"', "[]"),
    "language": (
        *(MISSING, "null", "0", "1", "2", "9", "12", "13", "14", "99", "-1", '"1"', "true", "[]"),
        *('"CPP"', '"cpp"', '"GO"', '"NODE_JS"', '"DOTNET"', '"DOTNET_2"', '"RUST"', '"abc"', '""'),
    ),
    "version": (MISSING, "null", "0", '"401"', '""', "1.9", '"1,000"', "true", '"abc"', "[]"),
    "serializeTypeCurrentRPC": (MISSING, "null", "0", "1", "2", '"JSON"', '"ROCKETMQ"', '"abc"'),
    "extFields": (MISSING, "null", "{}", "[]", '""', '"abc"', "1", "[{}]", '{"a":{"b":[1]}}'),
    "remark": (MISSING, "null", '"abc"', "1", "true", "[]", "{}", "1.50"),
    "unknown": ("1", '"abc"', "[]", "{}", "null"),
}
"""For the members of a header."""


def values_of(member: str) -> tuple[str, ...]:
    """The values for a member of this name."""
    names = ENUMS.get(member, ())
    numbers = ("3", "4", "5", "6", '"5"', '"6"') if names else ()
    lower = tuple(f'"{name.lower()}"' for name in names[:1])
    return (*VALUES, *numbers, *(f'"{name}"' for name in names), *lower)
