"""The reference of options has each option of each section, and says when to change it."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final, NamedTuple

import attrs
import pytest
from pages import blocks_of, pages

import reput
from reput.errors import ConfigError
from reput.plugin import build_config, installed

ROOT: Final = Path(__file__).resolve().parents[2]
SITE: Final = ROOT / "docs" / "site"
SECTIONS: Final[dict[str, type]] = {
    "commitlog": reput.CommitLogConfig,
    "dispatch": reput.DispatchConfig,
} | {
    found.name: found.load().config_type
    for found in installed()
    if (ROOT / "plugins" / found.name).is_dir()
}


class Row(NamedTuple):
    name: str
    default: str
    values: str
    meaning: str
    when: str


@pytest.fixture(scope="module")
def reference():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SITE))
        return importlib.import_module("configreference").reference()


def text_of(reference: str, section: str) -> str:
    """Return the part of the reference about a section."""
    return f"\n{reference}".partition(f"\n## `[{section}]`\n")[2].split("\n## ")[0]


def rows(reference: str, section: str) -> dict[str, Row]:
    found = [
        Row(*re.split(r"(?<!\\) \| ", line[2:-2]))
        for line in text_of(reference, section).splitlines()
        if line.startswith("| `")
    ]
    return {row.name.strip("`"): row for row in found}


def toml_value(cell: str) -> Any:
    return tomllib.loads(f"x = {cell.strip('`')}")["x"]


def default_of(field: attrs.Attribute[Any]) -> Any:
    made = field.default
    return made.factory() if isinstance(made, type(attrs.Factory(dict))) else made


def values_of(section: str, field: attrs.Attribute[Any]) -> str:
    """What the column ``values`` has: the bounds that a refusal names, or the choices."""
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
def test_the_table_of_a_section_has_its_options_in_order_with_their_defaults(reference, section):
    fields = attrs.fields(SECTIONS[section])

    shown = [
        (name, None if row.default == "none" else toml_value(row.default))
        for name, row in rows(reference, section).items()
    ]

    assert shown == [
        (field.name, list(value) if isinstance(value := default_of(field), tuple) else value)
        for field in fields
    ]
    assert f".{SECTIONS[section].__name__}`, of the distribution" in text_of(reference, section)


@pytest.mark.parametrize(
    ("section", "option"),
    [(section, field.name) for section, kind in SECTIONS.items() for field in attrs.fields(kind)],
)
def test_an_option_has_its_values_its_meaning_and_one_sentence_that_says_when_to_change_it(
    reference, section, option
):
    row = rows(reference, section)[option]
    field = getattr(attrs.fields(SECTIONS[section]), option)

    expected = values_of(section, field)
    assert row.values == expected if expected else row.values
    assert re.match(r"[A-Z0-9`].*[.]$", row.meaning), row.meaning
    assert re.fullmatch(r"[A-Z][^.]*(\.[^ ][^.]*)*\.", row.when), row.when


@pytest.mark.costly
def test_the_site_has_the_reference_and_a_command_prints_it(reference):
    command = [sys.executable, str(SITE / "configreference.py")]

    printed = subprocess.run(command, capture_output=True, check=True).stdout.decode()

    assert printed == reference
    page = (ROOT / "docs" / "reference" / "configuration.md").read_text("utf-8")
    assert page.count("<!-- options -->") == 1


def test_the_page_names_each_section():
    page = (ROOT / "docs" / "configuration.md").read_text("utf-8")

    named = re.findall(r"^\| `(\w+)` \| .* \| \[", page, re.MULTILINE)

    assert named == [*SECTIONS]


def test_toml_on_a_page_is_a_configuration():
    checked = 0
    for page in pages():
        for block in blocks_of(page):
            if block.kind != "toml":
                continue
            for section, options in tomllib.loads(block.text).items():
                if section in SECTIONS:
                    build_config(SECTIONS[section], section, options)
                    checked += 1
    assert checked > 5
