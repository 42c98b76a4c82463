"""Tests of crash safety: promises of a page, and the tests that show them, by marks on the tests.

    python docs/site/crashtable.py

A promise is a row, an item or a paragraph of `docs/crash-safety.md` that ends with a comment
``<!--promise:NAME-->``. A test, a class of tests or a module of tests shows promises by the mark
``shows("NAME", …)`` of pytest, and a rule of the contract of plugins by the decorator of
`reput_testing.contract.promises`. All are found in the sources, and nothing is imported.

The site has the table where a page says ``<!-- crash tests -->``.
"""

from __future__ import annotations

import ast
import configparser
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
PAGE = "docs/crash-safety.md"
PLACE = "<!-- crash tests -->"

_CONTRACTS = "extras/testing/src"
_PROMISE = re.compile(r"\s*<!--promise:([\w-]+)-->")
_HEADING = re.compile(r"^#{2,} (.+)$")
_BEGINS = re.compile(r"^(?:\||\* |\d+\. |$)")  # a row, an item, or the end of a paragraph
_OWN_LINK = re.compile(r"\]\((?=#)")


class Promise(NamedTuple):
    """What a store promises."""

    name: str
    section: str
    """The heading above it."""
    text: str
    """The sentences, as Markdown for a page in the same folder."""


class Mark(NamedTuple):
    """Promises that a test shows, or all tests of a class or a module."""

    path: str
    """The file, relative to the root."""
    test: str
    """Names of class and function with colons between them; empty for a whole module."""
    promises: tuple[str, ...]
    more: str = ""
    """The environment variable for more cases, such as ``REPUT_SOAK=1``."""
    is_test: bool = True
    """False if pytest collects no test there."""


# ------------------------------------------------------------------------------- promises


def promises_of(text: str) -> list[Promise]:
    """The promises of a page, in its order."""
    found = []
    section = ""
    for block in _blocks(text):
        if heading := _HEADING.match(block):
            section = heading[1]
        if names := _PROMISE.findall(block):
            words = _OWN_LINK.sub(f"]({Path(PAGE).name}", _sentences(_PROMISE.sub("", block)))
            found += [Promise(name, section, words) for name in names]
    return found


def _blocks(text: str) -> Iterator[str]:
    block: list[str] = []
    for line in [*text.splitlines(), ""]:
        if _BEGINS.match(line) and block:
            yield " ".join(block)
            block = []
        if line:
            block.append(line.strip())


def _sentences(block: str) -> str:
    """The sentences of a block: the cells of a row, or what follows the sign of an item."""
    if block.startswith("|"):
        cells = [cell.strip() for cell in block.strip("| ").split(" | ")]
        return ". ".join(cell.removesuffix(".") for cell in cells) + "."
    return re.sub(r"^(?:\*|\d+\.) ", "", block)


# ------------------------------------------------------------------------------- marks


def marks(root: Path = ROOT) -> list[Mark]:
    """The marks of all tests and of the contract of plugins, in the order of their paths."""
    paths = [*root.glob("tests/**/*.py"), *root.glob("plugins/*/tests/**/*.py")]
    paths += root.glob(f"{_CONTRACTS}/**/*.py")
    return [
        mark
        for path in sorted(paths)
        if "shows(" in (source := path.read_text(encoding="utf-8"))
        for mark in marks_of(source, path.relative_to(root).as_posix())
    ]


def marks_of(source: str, path: str) -> list[Mark]:
    """The marks in a file, also those on what is not a test."""
    module = ast.parse(source)
    in_contract = path.startswith(_CONTRACTS)
    is_tests = in_contract or Path(path).name.startswith("test_")
    found = []
    known: set[ast.Call] = set()

    def note(test: str, nodes: list[ast.expr], is_test: bool) -> None:
        for node in nodes:
            if call := _shows(node, in_contract):
                known.add(call)
                found.append(_mark(call, path, test, is_test and is_tests))

    def visit(body: list[ast.stmt], above: tuple[str, ...]) -> None:
        for node in body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
                value = node.value
                values = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
                note("::".join(above), values, True)
            elif isinstance(node, ast.ClassDef):
                is_class = in_contract or node.name.startswith("Test")
                note("::".join((*above, node.name)), node.decorator_list, is_class)
                visit(node.body, (*above, node.name))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                is_function = node.name.startswith("test")
                note("::".join((*above, node.name)), node.decorator_list, is_function)

    visit(module.body, ())
    everywhere = [call for node in ast.walk(module) if (call := _shows(node, in_contract))]
    found += [
        _mark(call, path, f"line {call.lineno}", False) for call in everywhere if call not in known
    ]
    return found


def _shows(node: ast.AST, in_contract: bool) -> ast.Call | None:
    """The call that names promises, if a node is one."""
    if not isinstance(node, ast.Call):
        return None
    function = node.func
    if in_contract:
        is_mark = isinstance(function, ast.Name) and function.id == "shows"
    else:
        is_mark = isinstance(function, ast.Attribute) and function.attr == "shows"
    return node if is_mark else None


def _mark(call: ast.Call, path: str, test: str, is_test: bool) -> Mark:
    names = tuple(ast.literal_eval(each) for each in call.args)
    options = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
    return Mark(path, test, names, **options, is_test=is_test)


# ------------------------------------------------------------------------------- table


def table(root: Path = ROOT) -> str:
    """Return the tables of all sections: promises, and the commands that run their tests."""
    shown = marks(root)
    commands = _Commands((root / "tox.ini").read_text(encoding="utf-8"))
    lines: list[str] = []
    section = ""
    for promise in promises_of((root / PAGE).read_text(encoding="utf-8")):
        if promise.section != section:
            section = promise.section
            lines += ["", f"### {section}", "", "| promise | tests |", "|---|---|"]
        tests = [commands.of(mark) for mark in shown if promise.name in mark.promises]
        lines.append(f"| {promise.text} | {'<br>'.join(dict.fromkeys(tests))} |")
    return "\n".join(lines[1:])


class _Commands:
    """How to run the tests of a mark, by the environments of tox."""

    def __init__(self, tox: str) -> None:
        matrix = configparser.ConfigParser(interpolation=None)
        matrix.read_string(tox)
        self._own = {name.removeprefix("testenv:") for name in matrix.sections()}
        self._more: dict[str, list[str]] = {}  # environments of more cases, by file or folder
        for line in matrix["testenv"]["commands"].splitlines():
            name, _, command = line.partition(": pytest ")
            if name in ("soak", "fuzz", "zoo"):
                paths = re.findall(r"(?:plugins|tests)/[\w/.]+", command)
                for path in paths:
                    self._more.setdefault(path, []).append(f"`tox -e {name}`")

    def of(self, mark: Mark) -> str:
        """The tests, and the environment or variable of their further cases."""
        if mark.path.startswith(_CONTRACTS):
            return f"every plugin: `{mark.test.rpartition('::')[2]}`"
        folder = mark.path.split("/")[1]
        run = (
            f"tox -e {folder} --"
            if mark.path.startswith("tests/") and folder in self._own
            else "pytest"
        )
        tests = mark.path + (f"::{mark.test}" if mark.test else "")
        places = [mark.path, *map(str, Path(mark.path).parents)]
        more = [name for place in places for name in self._more.get(place, ())]
        more += [f"`{mark.more}`"] if mark.more else []
        return f"`{run} {tests}`" + (f"; more: {', '.join(more)}" if more else "")


def _fill(app: Sphinx, name: str, source: list[str]) -> None:
    if PLACE in source[0]:
        for path in {PAGE, "tox.ini", *(mark.path for mark in marks())}:
            app.env.note_dependency(ROOT / path)
        source[0] = source[0].replace(PLACE, table())


def setup(app: Sphinx) -> dict[str, bool]:
    """Register what fills the page of tests."""
    # Before links are led to what the site has.
    app.connect("source-read", _fill, priority=50)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
