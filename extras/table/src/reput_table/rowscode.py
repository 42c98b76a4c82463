"""The mark of the code that makes a table's rows: it shows a change without a new ``version``.

The mark is a checksum of the syntax trees of `TablePlugin.rows` and of the functions, methods and
properties of the plugin's own package that ``rows`` names, directly or through another of these.
Comments, docstrings, annotations and line breaks are not in the trees, and what Python versions
name differently is left out. Constants of a module, code of other packages, and what a function
itself imports are not looked at.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import logging
import zlib
from collections.abc import Iterator
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final

logger = logging.getLogger(__name__)

_NOT_CODE: Final = ("ctx", "kind", "type_comment", "type_params", "annotation", "returns")
"""Fields of nodes that do not change what a function returns, or that not all versions have."""
_WRAPPERS_MAX: Final = 100
"""Decorators of one function; more are functions that name each other as what they wrap."""


def code_mark(kind: type) -> int:
    """Return the mark of a plugin's class, from 1 to 2³¹ - 1; 0 if the source is not known."""
    try:
        return _mark_of(kind)
    except Exception:  # what a plugin names may raise anything; without a mark the plugin works
        logger.debug("the code of rows() is not known class=%s", kind.__name__, exc_info=True)
        return 0


def _mark_of(kind: type) -> int:
    first = _function_in(inspect.getattr_static(kind, "rows"))
    if not _is_a(first, FunctionType):
        return 0
    package = _package_of(first)
    trees: dict[FunctionType, str] = {}
    found = [first]
    while found:
        function = found.pop()
        if function in trees:
            continue
        try:
            trees[function], nodes = _tree_of(function)
        except (OSError, TypeError, SyntaxError):  # the line of a lambda need not be a statement
            return 0
        named = map(_function_in, _named_in(nodes, _names_of(function), kind))
        functions = [each for each in named if _is_a(each, FunctionType)]
        found += [each for each in functions if _package_of(each) == package]
    ordered = sorted((each.__qualname__, each.__module__, tree) for each, tree in trees.items())
    text = "\n".join(tree for _, _, tree in ordered)
    return zlib.crc32(text.encode()) & 0x7FFF_FFFF or 1


@functools.lru_cache(maxsize=64)
def _tree_of(function: FunctionType) -> tuple[str, list[ast.Name | ast.Attribute]]:
    """Return a function's tree as a text, and the nodes in it that name something."""
    source = inspect.getsource(function)
    tree = ast.parse(f"if 1:\n{source}" if source[0].isspace() else source)
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute)]
    return _canonical(tree), nodes


def _package_of(function: FunctionType) -> str:
    return (function.__module__ or "").partition(".")[0]


def _names_of(function: FunctionType) -> dict[str, Any]:
    """Return what a function can name: of its module, and of the functions around it."""
    names = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # nothing is in the cell
            names[name] = cell.cell_contents
    return names


def _function_in(found: Any) -> Any:
    """Return the function that a decorator was given; another object as it is.

    Only the object's type and what is stored in it are asked: a proxy may have every attribute,
    or import a module for one.
    """
    if _is_a(found, property):
        found = found.fget
    elif _is_a(found, functools.cached_property, functools.partial, functools.partialmethod):
        found = found.func
    if _is_a(found, classmethod, staticmethod, MethodType):
        found = found.__func__
    for _ in range(_WRAPPERS_MAX):
        if not callable(found) or inspect.getattr_static(found, "__wrapped__", None) is None:
            break
        found = found.__wrapped__
    return found


def _is_a(found: Any, *kinds: type) -> bool:
    """Return whether an object is of a type; `isinstance` also asks a proxy what it stands for."""
    return issubclass(type(found), kinds)


def _named_in(
    nodes: list[ast.Name | ast.Attribute], names: dict[str, Any], kind: type
) -> Iterator[Any]:
    for node in nodes:
        if isinstance(node, ast.Attribute) and _is_super(node.value):
            yield from (vars(each).get(node.attr) for each in kind.__mro__[1:])
        else:
            yield _attribute(node, names, kind)


def _is_super(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"
    )


def _attribute(node: ast.expr, names: dict[str, Any], kind: type) -> Any:
    """Return what a name, or names with dots between them, means.

    An attribute of what the module does not know, as ``self``, is taken for the plugin's.
    """
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if not isinstance(node, ast.Attribute):
        return None
    owner = _attribute(node.value, names, kind)
    if _is_a(owner, ModuleType):
        return vars(owner).get(node.attr)
    if owner is not None:
        kind = owner if _is_a(owner, type) else type(owner)
    return inspect.getattr_static(kind, node.attr, None)


def _canonical(node: Any) -> str:
    if isinstance(node, list):
        return f"[{','.join(map(_canonical, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = {
        name: value
        for name, value in ast.iter_fields(node)
        if name not in _NOT_CODE and value is not None and value != []
    }
    if isinstance(node, ast.FunctionDef) and ast.get_docstring(node, clean=False) is not None:
        fields["body"] = node.body[1:]
    if isinstance(node, ast.JoinedStr):
        fields["values"] = _joined(node.values)
    values = ",".join(f"{name}={_canonical(value)}" for name, value in fields.items())
    return f"{type(node).__name__}({values})"


def _joined(values: list[ast.expr]) -> list[Any]:
    """Return the parts of an f-string, with the texts between two values as one."""
    found: list[Any] = []
    for value in values:
        if not isinstance(value, ast.Constant):
            found.append(value)
        elif found and isinstance(found[-1], str):
            found[-1] += str(value.value)
        elif value.value:
            found.append(str(value.value))
    return found
