"""Write the texts of Python sources, which Vale does not read, so that it can read them.

Vale reads docstrings and comments of a Python file. A message, an error or a help text is a string.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORDS = re.compile(r"\b[a-z]{2,}\b")
"""A string with fewer than three of these is a name, and not a text."""


def write_texts(sources: list[Path], folder: Path) -> int:
    """Write one Markdown file for each source that has texts; return the number of texts.

    A text is on the line on which its string begins, so that Vale names the line of the source.
    """
    count = 0
    for source in sources:
        lines: dict[int, list[str]] = {}
        for line, text in texts(ast.parse(source.read_text("utf-8"))):
            lines.setdefault(line, []).append(text)
            count += 1
        if lines:
            target = folder / f"{source}.md"
            target.parent.mkdir(parents=True, exist_ok=True)
            rows = [". ".join(lines.get(line, [])) for line in range(1, max(lines) + 1)]
            target.write_text("\n".join(rows) + "\n", "utf-8")
    return count


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and words of each string that is neither a docstring nor a part of another."""
    apart: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            apart.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            apart.update(id(value) for value in ast.walk(node) if value is not node)
    for node in ast.walk(tree):
        if id(node) not in apart and isinstance(node, ast.Constant | ast.JoinedStr):
            text = " ".join(shown(node).split())
            if len(WORDS.findall(text)) > 2:
                yield node.lineno, text


def shown(node: ast.Constant | ast.JoinedStr) -> str:
    """Return the text of a string; each value that a format string takes is written as X."""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            shown(value) if isinstance(value, ast.Constant) else "X" for value in node.values
        )
    return node.value if isinstance(node.value, str) else ""
