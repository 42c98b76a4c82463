"""The list of commands has each installed command with its options, and a clone can print it."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys

import click
import pytest
from pages import DOCS, anchors_of, text_of

from reput_tools.cli.kit.jsonkeys import below, json_option
from reput_tools.cli.root import reput as program

SITE = DOCS / "site"
PAGE = "docs/reference/commands.md"


@pytest.fixture(scope="module")
def site():
    """Gives a module of the site, which is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SITE))
        yield importlib.import_module


@pytest.fixture(scope="module")
def reference(site):
    return site("commandreference").reference()


def section_of(reference, name):
    return reference.split(f"\n## `reput {name}`\n", 1)[1].split("\n## ", 1)[0]


def commands_below(name, command):
    yield name, command
    context = click.Context(command)
    for each in getattr(command, "list_commands", lambda _: [])(context):
        yield from commands_below(f"{name} {each}", command.get_command(context, each))


def test_every_command_has_a_section_with_each_of_its_options(reference):
    context = click.Context(program)
    for top in program.list_commands(context):
        for name, command in commands_below(top, program.get_command(context, top).load()):
            section = section_of(reference, name)
            rows = re.findall(r"^\| `(-[^`]*)` \|", section, re.MULTILINE)
            common = section.partition("\nAlso ")[2].partition("\n")[0]
            shown = {word.rstrip(",") for cell in rows for word in cell.split()}
            shown |= set(re.findall(r"`(--[\w-]+)`", common))
            for option in command.params:
                if isinstance(option, click.Option) and not option.hidden:
                    assert set(option.opts) <= shown, name


def test_the_first_table_leads_to_each_section(reference):
    rows = re.findall(r"^\| \[`(reput [^`]+)`\]\(#([\w-]+)\) \|", reference, re.MULTILINE)
    sections = re.findall(r"^## `(.+)`$", reference, re.MULTILINE)

    assert [title for title, _ in rows] == sections
    assert {anchor for _, anchor in rows} <= anchors_of(PAGE)
    assert len(rows) > 30


def test_the_site_has_the_list_and_a_command_prints_it(reference):
    command = [sys.executable, str(SITE / "commandreference.py")]

    printed = subprocess.run(command, capture_output=True, check=True).stdout.decode()

    assert printed == reference
    assert text_of(PAGE).count("<!-- commands -->") == 1


def test_a_command_is_shown_with_what_it_declares(site):
    @click.command(epilog="\b\nExamples:\n  reput words STORE\n")
    @click.option("-n", "--count", metavar="N", default=3, show_default=True, help="Most | words.")
    @json_option("one document", {"path": "a path"} | below("words[]", {"word": "a `word`"}))
    def words(count, as_json):
        """Count the words.

        With --count it
        ends.
        """

    module = site("commandreference")

    text = module.text_of(module.Entry("words", words, "reput-words"))

    assert text == (
        "## `reput words`\n\n```text\nreput words [OPTIONS]\n```\n\nCount the words.\n\n"
        "With `--count` it ends.\n\n| option | does |\n| --- | --- |\n"
        "| `-n, --count N` | Most \\| words.  \\[default: 3\\] |\n\nAlso `--json`, `--help`.\n\n"
        "**JSON:** one document.\n\n| key | is |\n| --- | --- |\n| `path` | a path |\n"
        "| `words[].word` | a `word` |\n\n```console\n$ reput words STORE\n```\n"
    )


def test_texts_for_a_terminal_become_markdown(site):
    inline = site("markdowntext").inline

    assert inline("a ``b | c`` and `d`, --last or -n") == "a `b \\| c` and `d`, `--last` or `-n`"
    assert inline("x_y <z> [1]") == "x\\_y \\<z\\> \\[1\\]"
    assert inline("from -90s to @ and -1h") == "from -90s to @ and -1h"
