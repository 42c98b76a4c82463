"""``reput cat --pretty`` shows JSON as it is written, with indents."""

from __future__ import annotations

import json

import pytest

import reput
from reput_tools.cli.messages.jsonindent import indented, json_text


@pytest.fixture
def shown(tmp_path, run):
    """Return a function that returns the lines of a body below its message."""

    def show(body):
        with reput.open(tmp_path / "store", plugins=[]) as store:
            store.put(reput.Message("orders", body))
        outcome = run("cat", tmp_path / "store", "orders", "--scan", "--pretty")
        assert outcome.code == 0
        return [line.removeprefix("  ") for line in outcome.out.splitlines()[1:]]

    return show


def test_names_numbers_and_escapes_stay_as_they_are_written(shown):
    assert shown(b'{"a":1,"a":2,"n":1.10,"big":1e999,"\\u0041[,]\\"":[{ },[\n]]}') == [
        "{",
        '  "a": 1,',
        '  "a": 2,',
        '  "n": 1.10,',
        '  "big": 1e999,',
        '  "\\u0041[,]\\"": [',
        "    {},",
        "    []",
        "  ]",
        "}",
    ]


@pytest.mark.parametrize(
    "body", ['{"a": NaN}', '{"a": 1,}', '"text"', "[" * 100_000 + "]" * 100_000, "[1]]"]
)
def test_what_is_no_json_document_stays_on_one_line(shown, body):
    assert shown(body.encode()) == [body]


@pytest.mark.parametrize("separators", [(",", ":"), (" ,\n", " :\t")])
def test_lines_are_those_of_the_standard_library(separators):
    document = {"a": [1, {"b": None, "c": [[], {}, [True]]}], "d": "x\\", "e": 'é"]'}
    text = json_text(json.dumps(document, separators=separators).encode())

    assert "\n".join(indented(text)) == json.dumps(document, indent=2)


def test_deep_values_are_indented_no_further_than_32_steps():
    lines = list(indented("[" * 900 + "1,1" + "]" * 900))

    assert max(map(len, lines)) == 32 * 2 + len("1,")
    assert lines[901].lstrip() == "1"
