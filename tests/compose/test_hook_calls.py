"""Each hook that the sources call exists, and has the arguments that the call gives.

A type checker does not see this: hooks are attributes that the table of a plugin's hooks gets while
it is made (`reput.plugin.PluginHooks`), and names that methods take as texts.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import reput_tools.offline.hookspecs
from reput.plugin import hookspecs

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(
    path
    for pattern in ("core/src", "plugins/*/src", "extras/*/src")
    for folder in ROOT.glob(pattern)
    for path in folder.rglob("*.py")
)
STORE = {
    name.removeprefix("reput_"): frozenset(inspect.signature(spec).parameters)
    for name, spec in vars(hookspecs).items()
    if name.startswith("reput_")
}
OFFLINE = {
    name: frozenset(inspect.signature(spec).parameters)
    for name, spec in vars(reput_tools.offline.hookspecs).items()
    if name.startswith("reput_tools_")
}
KNOWN = {**STORE, **{f"reput_{name}": given for name, given in STORE.items()}, **OFFLINE}
BY_NAME = ("having", "usable", "_having", "no_answer")  # methods that take a hook's name first
WITH_PREFIX = ("request", "_call", "_make", "_checked")  # methods that take it second, with prefix
WORDS = re.compile(
    rf"""\b(_?hooks|{"|".join(BY_NAME)})\b|["']reput_"""
)  # no file uses a hook without
OF_TABLES = ("takes", "ranks", "items", "values", "get", "of", "keys")  # no hooks
OF_PUTS = ("interest", "names", "all", "cover", "changed", "of")  # `_Hooks`, another class


def is_table(node: ast.expr) -> bool:
    """Whether an expression is a plugin's table of hooks: ``x.hooks``, or ``x.hooks[…]``."""
    if isinstance(node, ast.Subscript):
        return is_table(node.value)
    return (isinstance(node, ast.Name) and node.id in ("hooks", "_hooks")) or (
        isinstance(node, ast.Attribute) and node.attr in ("hooks", "_hooks")
    )


def hook_of(node: ast.AST) -> str | None:
    """The name of the hook that an expression gives, if it is an attribute of a table."""
    if isinstance(node, ast.Attribute) and is_table(node.value):
        return None if node.attr in (*OF_TABLES, *OF_PUTS) else node.attr
    return None


def listed_of(node: ast.AST) -> str | None:
    """The name of the hook in ``plugins.having("read")`` and its kin."""
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    if not is_call or node.func.attr not in BY_NAME or not node.args:
        return None
    first = node.args[0]
    return first.value if isinstance(first, ast.Constant) else None


def functions_in(nodes: list[ast.AST]) -> dict[str, str]:
    """Variables that hold a hook's function, with the hook's name."""
    found = {}
    for node in nodes:
        if isinstance(node, ast.For | ast.comprehension) and isinstance(node.target, ast.Tuple):
            hook, last = listed_of(node.iter), node.target.elts[-1]
        elif isinstance(node, ast.Assign | ast.NamedExpr):
            hook = hook_of(node.value)
            last = node.targets[0] if isinstance(node, ast.Assign) else node.target
        else:
            continue
        if hook is not None and isinstance(last, ast.Name):
            found[last.id] = hook
    return found


def calls_in(tree: ast.AST) -> Iterator[tuple[int, str, frozenset[str]]]:
    """Each use of a hook's name: line, name, and keyword arguments of a call (else none)."""
    nodes = list(ast.walk(tree))
    for node in nodes:
        if (hook := hook_of(node) or listed_of(node)) is not None:
            yield node.lineno, hook, frozenset()
        if not isinstance(node, ast.Call):
            continue
        called = getattr(node.func, "attr", getattr(node.func, "id", None))
        if called in WITH_PREFIX and len(node.args) > 1:
            second = node.args[1]
            if isinstance(second, ast.Constant) and str(second.value).startswith("reput_"):
                yield node.lineno, second.value, frozenset()
        if (hook := hook_of(node.func)) is not None:
            yield node.lineno, hook, frozenset(word.arg for word in node.keywords if word.arg)
    for scope in nodes:
        if isinstance(scope, ast.FunctionDef) and (
            functions := functions_in(inside := list(ast.walk(scope)))
        ):
            for node in inside:
                called = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
                if called in functions:
                    words = frozenset(word.arg for word in node.keywords if word.arg)
                    yield node.lineno, functions[called], words


def wrong_in(source: str, known: Mapping[str, frozenset[str]] = KNOWN) -> list[str]:
    """What is wrong with the hooks that a source names."""
    return [
        f"line {line}: {hook}({', '.join(sorted(words))})"
        for line, hook, words in sorted(set(calls_in(ast.parse(source))), key=str)
        if hook not in known or not words <= known[hook]
    ]


def test_hooks_that_are_called_exist_with_these_arguments() -> None:
    wrong = {
        str(path.relative_to(ROOT)): found
        for path in FILES
        if WORDS.search(text := path.read_text(encoding="utf-8")) and (found := wrong_in(text))
    }

    assert wrong == {}


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("hooks.open(context=c)", []),
        ("hooks.opne(context=c)", ["line 1: opne()", "line 1: opne(context)"]),
        ("each.hooks.dispatch(batch=b)", []),
        ("each.hooks.dispatch(batches=b)", ["line 1: dispatch(batches)"]),
        ("plugins.hooks[name].raedy", ["line 1: raedy()"]),
        ("active.usable('raed')", ["line 1: raed()"]),
        ("calls.request(name, 'reput_clsoe', hook)", ["line 1: reput_clsoe()"]),
        ("hooks.reput_tools_shards(place=c)", ["line 1: reput_tools_shards(place)"]),
        (
            "def f():\n for name, read in active.usable('read'):\n  read(subject=1)",
            ["line 3: read(subject)"],
        ),
        (
            "def f():\n hook = plugins.hooks[name].ready\n hook(offsets=1)",
            ["line 3: ready(offsets)"],
        ),
    ],
)
def test_a_misspelt_hook_or_argument_is_found(source: str, wrong: list[str]) -> None:
    assert wrong_in(source) == wrong


def test_the_calls_of_a_store_are_found() -> None:
    found = {
        hook.removeprefix("reput_")
        for path in FILES
        if path.is_relative_to(ROOT / "core")
        and WORDS.search(text := path.read_text(encoding="utf-8"))
        for _, hook, _ in calls_in(ast.parse(text))
    }

    assert found == set(STORE)
