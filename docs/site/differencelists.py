"""Differences from RocketMQ as lists: ``python docs/site/differencelists.py`` prints them.

The site has them where a page says ``<!-- differences from a broker -->`` or
``<!-- differences from the proxy -->``. They are the rules of the tests that send the same requests
to RocketMQ and to this server, so a list has what a test allows, and nothing else. The rules are
found in the sources, and nothing is imported.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

SUPPORT = Path(__file__).resolve().parents[2] / "tests" / "support"


def groups(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the docstring of each group of rules, and what each rule allows."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    for node, text in pairwise(body):
        if isinstance(node, ast.Assign) and isinstance(text, ast.Expr):
            calls = node.value.elts if isinstance(node.value, ast.Tuple) else []
            rules = [call.args[0] for call in calls if isinstance(call, ast.Call)]
            yield ast.literal_eval(text.value), [ast.literal_eval(rule) for rule in rules]


def differences(path: Path) -> str:
    """Return a paragraph and a list for each group."""
    return "\n\n".join(
        "\n".join([f"{title.rstrip('.')}:\n", *(f"* {rule}" for rule in rules)])
        for title, rules in groups(path)
    )


MARKS = {
    "<!-- differences from a broker -->": partial(differences, SUPPORT / "sameanswers/allowed.py"),
    "<!-- differences from the proxy -->": partial(differences, SUPPORT / "samecalls/allowed.py"),
}

if __name__ == "__main__":
    sys.stdout.write("\n\n".join(text() for text in MARKS.values()) + "\n")
