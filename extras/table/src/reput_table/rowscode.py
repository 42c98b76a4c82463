"""The mark of the code that makes a table's rows: it shows a change without a new ``version``.

The mark is a checksum of the syntax trees of `TablePlugin.rows` and of the functions and methods of
the plugin's own package that ``rows`` names, directly or through another of these. Comments,
docstrings, annotations and line breaks are not in the trees, and what Python versions name
differently is left out. Constants of the module, and code of other packages, are not looked at.
"""

from __future__ import annotations

import ast
import inspect
import zlib
from collections.abc import Iterator
from types import FunctionType
from typing import Any, Final

__all__ = ["code_mark"]

_NOT_CODE: Final = ("ctx", "kind", "type_comment", "type_params", "annotation", "returns")
"""Fields of nodes that do not change what a function returns, or that not all versions have."""


def code_mark(kind: type) -> int:
    """Return the mark of a plugin's class, from 1 to 2³¹ - 1; 0 if the source is not known."""
    first = inspect.getattr_static(kind, "rows")
    if not isinstance(first, FunctionType):
        return 0
    package = first.__module__.partition(".")[0]
    trees: dict[str, str] = {}
    found = [first]
    while found:
        function = found.pop()
        if function.__qualname__ in trees:
            continue
        try:
            source = inspect.getsource(function)
            tree = ast.parse(f"if 1:\n{source}" if source[0].isspace() else source)
        except (OSError, TypeError, SyntaxError):  # the line of a lambda need not be a statement
            return 0
        trees[function.__qualname__] = _canonical(tree)
        found += _named_in(tree, function, kind, package)
    text = "\n".join(tree for _, tree in sorted(trees.items()))
    return zlib.crc32(text.encode()) & 0x7FFF_FFFF or 1


def _named_in(
    tree: ast.AST, function: FunctionType, kind: type, package: str
) -> Iterator[FunctionType]:
    for node in ast.walk(tree):
        found: Any = None
        if isinstance(node, ast.Name):
            found = function.__globals__.get(node.id)
        elif isinstance(node, ast.Attribute):
            found = inspect.getattr_static(kind, node.attr, None)
        found = getattr(found, "__func__", found)  # of a static or a class method
        if isinstance(found, FunctionType) and found.__module__.partition(".")[0] == package:
            yield found


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
