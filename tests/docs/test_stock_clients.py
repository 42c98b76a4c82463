"""The tables of stock clients are computed from their tests; the page explains what fails."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pages import DOCS, ROOT, text_of

CLIENTS = ROOT / "tests" / "interop" / "clients"
PAGE = "docs/stock-clients.md"


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that fills the page, which is not installed."""
    monkeypatch.syspath_prepend(str(DOCS / "site"))
    return importlib.import_module("clienttables")


def constant(file: str, name: str) -> Any:
    """The value of a constant of a test module."""
    module = ast.parse((CLIENTS / file).read_text(encoding="utf-8"))
    (value,) = (
        each.value
        for each in module.body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == name
    )
    return ast.literal_eval(value)


def test_a_row_says_which_clients_work_which_fail_and_which_have_no_such_function(
    tables: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "test_some.py").write_text(
        'ALL = "java node"\n\n'
        '@pytest.mark.scenario("Tags", ALL, no="go")\n'
        "def test_tags(): ...\n\n"
        '@pytest.mark.scenario("Pop", "java-5.3.3", theirs="java")\n'
        "@pytest.mark.timeout(5)\n"
        "def test_pop(): ...\n\n"
        '@pytest.mark.scenario5("Push", ALL)\n'
        "def test_push(): ...\n"
    )
    names = ["java-4.9.8", "java-5.3.3", "go", "node"]

    found = list(tables.scenarios("scenario", tmp_path))

    assert tables.rows_of(found, names) == [
        ["Tags", "yes", "yes", "no", "yes"],
        ["Pop", "–", "yes", "–", "–"],
    ]
    assert [each.theirs for each in found] == [(), ("java",)]


def test_two_tests_with_one_title_are_refused(tables: ModuleType, tmp_path: Path) -> None:
    test = '@pytest.mark.scenario("Tags", "java")\ndef test_tags(): ...\n'
    (tmp_path / "test_one.py").write_text(test)
    (tmp_path / "test_two.py").write_text(test)

    with pytest.raises(ValueError, match=r"test_two\.py.*'Tags'"):
        list(tables.scenarios("scenario", tmp_path))


@pytest.mark.parametrize(("mark", "least"), [("scenario", 30), ("scenario5", 20)])
def test_the_tests_name_only_clients_that_they_have(
    tables: ModuleType, mark: str, least: int
) -> None:
    folder = CLIENTS / "stock" / ("kinds.py" if mark == "scenario" else "fives.py")
    source = folder.read_text(encoding="utf-8")
    known = {*re.findall(r'Kind\(\s*"(\w+)"', source), *(["java"] if mark == "scenario" else [])}
    known |= {f"java-{version}" for version in re.findall(r'_java\("([\d.]+)"\)', source)}

    found = list(tables.scenarios(mark))

    assert len(found) > least
    assert {name for each in found for name in each.works + each.fails + each.theirs} <= known


def test_the_page_has_a_place_for_each_table(tables: ModuleType) -> None:
    text = text_of(PAGE)

    assert {mark: text.count(f"\n{mark}\n") for mark in tables.MARKS} == dict.fromkeys(
        tables.MARKS, 1
    )


def test_the_page_explains_each_function_that_does_not_work(tables: ModuleType) -> None:
    limits = text_of(PAGE).partition("\n## Limits\n")[2]
    rows = [line.strip("| ").partition(" | ")[0] for line in limits.splitlines() if "|" in line]
    failing = {
        ("release 5, " if name.endswith("5") else "") + name.rstrip("5").replace("-", " ").title()
        for word in ("scenario", "scenario5")
        for each in tables.scenarios(word)
        for name in each.fails
    }

    missing = [
        name for name in failing if not any(row.lower().startswith(name.lower()) for row in rows)
    ]

    assert failing
    assert missing == []


def test_every_command_of_the_admin_tool_is_listed() -> None:
    section = text_of(PAGE).partition("\n## The admin tool\n\n")[2]
    listed = re.findall(r"`(\w+)`[,.]", section.partition("\n\n")[0].partition(": ")[2])

    commands = dict.fromkeys(line.split()[0] for line, _ in constant("test_admin.py", "COMMANDS"))

    assert listed == list(commands)


def test_every_program_is_listed() -> None:
    text = " ".join(text_of(PAGE).split())
    sentence = text.partition("This works with: ")[2].partition(";")[0]

    assert sentence.split(", ") == list(constant("test_programs.py", "PROGRAMS"))
