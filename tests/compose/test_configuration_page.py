"""docs/configuration.md lists each option of each section, and says when to change it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Final, NamedTuple

import attrs
import pytest

import reput
from reput.errors import ConfigError
from reput.plugin import build_config, installed

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"


def text_of(section: str) -> str:
    """Return the part of the page about a section."""
    return PAGE.read_text("utf-8").partition(f"\n## `[{section}]`\n")[2].split("\n## ")[0]


SECTIONS: Final[dict[str, type]] = {
    "commitlog": reput.CommitLogConfig,
    "dispatch": reput.DispatchConfig,
} | {
    found.name: found.load().config_type
    for found in installed()
    if (PAGE.parents[1] / "plugins" / found.name).is_dir()
    and attrs.fields(found.load().config_type)
}


class Row(NamedTuple):
    name: str
    default: str
    values: str
    meaning: str
    when: str


def rows(section: str) -> dict[str, Row]:
    found = [
        Row(*re.split(r"(?<!\\) \| ", line[2:-2]))
        for line in text_of(section).splitlines()
        if line.startswith("| `")
    ]
    return {row.name.strip("`"): row for row in found}


def toml_value(cell: str) -> Any:
    return tomllib.loads(f"x = {cell.strip('`')}")["x"]


def default_of(field: attrs.Attribute[Any]) -> Any:
    made = field.default
    return made.factory() if isinstance(made, type(attrs.Factory(dict))) else made


def values_of(section: str, field: attrs.Attribute[Any]) -> str:
    """What the column ``values`` begins with: the bounds that a refusal names, or the choices."""
    if str(field.type) == "bool":
        return "true or false"
    try:
        build_config(SECTIONS[section], section, {field.name: -(10**30)})
    except ConfigError as error:
        number = re.search(r"number from (\S+) to (\S+) expected", error.reason)
        if number:
            return " to ".join(
                f"{int(each):,}" if each.isdigit() else each for each in number.groups()
            )
        choices = re.search(r"must be in \((.*?)\)", error.reason)
        if choices:
            texts = re.findall(r"'([^']*)'", choices[1])
            return ", ".join(f'`"{text}"`' for text in texts[:-1]) + f' or `"{texts[-1]}"`'
    return ""


@pytest.mark.parametrize("section", SECTIONS)
def test_the_table_of_a_section_has_its_options_in_order_with_their_defaults(section):
    fields = attrs.fields(SECTIONS[section])

    shown = [
        (name, None if row.default == "none" else toml_value(row.default))
        for name, row in rows(section).items()
    ]

    assert shown == [
        (field.name, list(value) if isinstance(value := default_of(field), tuple) else value)
        for field in fields
    ]


@pytest.mark.parametrize(
    ("section", "option"),
    [(section, field.name) for section, kind in SECTIONS.items() for field in attrs.fields(kind)],
)
def test_an_option_has_its_bounds_or_choices_and_one_sentence_that_says_when_to_change_it(
    section, option
):
    row = rows(section)[option]
    field = getattr(attrs.fields(SECTIONS[section]), option)

    assert row.values
    assert row.values.startswith(values_of(section, field))
    assert re.fullmatch(r"[A-Z][^.]*(\.[^ ][^.]*)*\.", row.when), row.when
