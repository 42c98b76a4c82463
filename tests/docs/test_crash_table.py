"""Every promise of the page on crash safety has a test; every mark on a test names a promise."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys

import pytest
from pages import DOCS, ROOT, text_of


@pytest.fixture(scope="module")
def crashtable():
    """The module that makes the table, which is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS / "site"))
        return importlib.import_module("crashtable")


@pytest.fixture(scope="module")
def promises(crashtable):
    return crashtable.promises_of(text_of(crashtable.PAGE))


@pytest.fixture(scope="module")
def marks(crashtable):
    return crashtable.marks()


def test_every_promise_has_a_name_of_its_own_and_a_sentence(promises):
    names = [promise.name for promise in promises]

    assert len(names) > 50
    assert sorted(names) == sorted(set(names))
    assert [each.name for each in promises if not each.section or len(each.text.split()) < 5] == []
    assert [each.name for each in promises if "<!--" in each.text] == []


def test_every_comment_that_names_a_promise_is_found(crashtable, promises):
    comments = re.findall(r"<!--\s*promise\b", text_of(crashtable.PAGE))

    assert len(comments) == len(promises)


def test_every_promise_is_shown_by_a_test(marks, promises):
    shown = {name for mark in marks for name in mark.promises}

    assert {promise.name for promise in promises} - shown == set()


def test_every_mark_names_promises_of_the_page(marks, promises):
    known = {promise.name for promise in promises}

    unknown = {
        f"{mark.path} {mark.test}": sorted(names)
        for mark in marks
        if (names := set(mark.promises) - known) or not mark.promises
    }

    assert unknown == {}


def test_every_mark_is_on_a_test(marks):
    stray = [f"{mark.path} {mark.test}" for mark in marks if not mark.is_test]

    assert stray == []


def test_a_variable_for_more_cases_is_one_that_tests_read(marks):
    sources = [*ROOT.glob("tests/**/*.py"), *ROOT.glob("extras/testing/src/**/*.py")]
    sources += ROOT.glob("plugins/*/tests/**/*.py")
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    read = set(re.findall(r"(?:environ|getenv)\b\W+(?:get\W+)?\"(REPUT_\w+)\"", text))
    read |= set(re.findall(r"_VARIABLE = \"(REPUT_\w+)\"", text))

    named = {mark.more.partition("=")[0] for mark in marks if mark.more}

    assert named
    assert named - read == set()


SOURCE = """
pytestmark = [pytest.mark.proof, pytest.mark.shows("whole", more="REPUT_SOAK=1")]

@pytest.mark.shows("one", "two")
@pytest.mark.parametrize("n", [1])
def test_a(n): ...

class TestB:
    pytestmark = pytest.mark.shows("inner")
    @pytest.mark.shows("three")
    def test_c(self): ...

@pytest.mark.shows("four")
def helper(): ...

other = pytest.mark.shows("five")
"""


def test_marks_are_found_on_modules_classes_and_functions_and_nowhere_else(crashtable):
    found = crashtable.marks_of(SOURCE, "tests/core/test_sample.py")

    assert [(each.test, each.promises, each.more, each.is_test) for each in found] == [
        ("", ("whole",), "REPUT_SOAK=1", True),
        ("test_a", ("one", "two"), "", True),
        ("TestB", ("inner",), "", True),
        ("TestB::test_c", ("three",), "", True),
        ("helper", ("four",), "", False),
        ("line 16", ("five",), "", False),
    ]


def test_marks_in_a_module_that_pytest_does_not_collect_are_stray(crashtable):
    found = crashtable.marks_of(SOURCE, "tests/support/sample.py")

    assert {each.is_test for each in found} == {False}


def test_rules_of_the_contract_are_found_by_their_decorator(crashtable):
    source = '@shows("kill")\nclass Contract:\n    @shows("cut")\n    def test_it(self): ...\n'

    found = crashtable.marks_of(source, "extras/testing/src/reput_testing/contract/sample.py")

    assert [(each.test, each.promises, each.is_test) for each in found] == [
        ("Contract", ("kill",), True),
        ("Contract::test_it", ("cut",), True),
    ]


PAGE = """## Kills

| fault | promise |
|---|---|
| A process is killed | Nothing is lost, see [there](#there). <!--promise:kill--> |

* It was closed
  in order. <!--promise:closed-->
* No promise.

A paragraph
of two lines. <!--promise:lines-->
"""


def test_a_promise_is_a_row_an_item_or_a_paragraph(crashtable):
    found = crashtable.promises_of(PAGE)

    link = "[there](crash-safety.md#there)"
    assert found == [
        ("kill", "Kills", f"A process is killed. Nothing is lost, see {link}."),
        ("closed", "Kills", "It was closed in order."),
        ("lines", "Kills", "A paragraph of two lines."),
    ]


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_the_table_has_the_command_of_each_test(crashtable, tmp_path):
    soak = "    soak: pytest -x {posargs:tests/core/test_a.py tests/fuzz}\n"
    write(tmp_path / "tox.ini", f"[testenv]\ncommands =\n{soak}[testenv:interop]\na = b\n")
    write(tmp_path / "docs" / "crash-safety.md", PAGE)
    mark = '@pytest.mark.shows("kill")\ndef test_it(): ...\n'
    for path in ("tests/core/test_a.py", "tests/interop/test_b.py", "plugins/x/tests/test_c.py"):
        write(tmp_path / path, mark)
    write(tmp_path / "tests/fuzz/test_d.py", 'pytestmark = pytest.mark.shows("kill", more="N=1")\n')
    write(tmp_path / "extras/testing/src/k.py", '@shows("kill")\nclass KillContract: ...\n')

    lines = crashtable.table(tmp_path).splitlines()

    assert lines[:4] == ["### Kills", "", "| promise | tests |", "|---|---|"]
    assert lines[4].split(" | ")[1].removesuffix(" |").split("<br>") == [
        "every plugin: `KillContract`",
        "`pytest plugins/x/tests/test_c.py::test_it`",
        "`pytest tests/core/test_a.py::test_it`; more: `tox -e soak`",
        "`pytest tests/fuzz/test_d.py`; more: `tox -e soak`, `N=1`",
        "`tox -e interop -- tests/interop/test_b.py::test_it`",
    ]


def test_the_page_has_the_place_of_the_table_and_the_program_prints_it(crashtable):
    program = [sys.executable, str(DOCS / "site" / "crashtable.py")]

    printed = subprocess.run(program, capture_output=True, text=True, check=True).stdout

    assert text_of("docs/crash-tests.md").count(crashtable.PLACE) == 1
    assert printed == crashtable.table() + "\n"
    assert "`pytest tests/core/test_killed.py`; more: `tox -e soak`" in printed
    assert "`tox -e interop -- tests/interop/" in printed
