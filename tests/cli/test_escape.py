from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from reput_tools.cli.kit.escape import escape_text, hex_dump, json_safe, readable

ANYTHING = st.text(st.characters(codec=None))


def test_what_prints_stays_as_it_is() -> None:
    text = "plain, São Paulo, 深圳, नमस्ते, 👩‍🚀"

    assert escape_text(text) == text


def test_control_characters_become_visible() -> None:
    assert escape_text("a\x1b[31mb\x07\n\t\x9b\x7f") == "a\\x1b[31mb\\x07\\n\\t\\x9b\\x7f"


def test_characters_that_turn_the_direction_of_text_become_visible() -> None:
    assert escape_text("exe.\u202etxt") == "exe.\\u202etxt"


def test_bytes_that_are_not_utf8_become_visible() -> None:
    assert readable(b"ok \xff\xfe") == "ok \\xff\\xfe"


@given(ANYTHING)
def test_escaped_text_never_holds_what_a_terminal_obeys(text: str) -> None:
    escaped = escape_text(text)

    assert all(each.isprintable() or each in "\u200c\u200d" for each in escaped)


@given(st.text())
def test_a_json_document_means_the_same_when_made_safe(text: str) -> None:
    document = json.dumps({"body": text}, ensure_ascii=False, indent=2)

    safe = json_safe(document)

    assert json.loads(safe) == {"body": text}
    assert all(each.isprintable() or each in "\u200c\u200d\n" for each in safe)


def test_a_hex_dump_has_positions_bytes_and_characters() -> None:
    lines = hex_dump(b"RocketMQ\x00\xff and more", limit=18)

    assert lines == [
        "00000000  52 6f 63 6b 65 74 4d 51  00 ff 20 61 6e 64 20 6d  RocketMQ.. and m",
        "00000010  6f 72                                             or",
    ]
