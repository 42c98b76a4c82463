"""What a plugin's class documents: its hooks, and the options of its configuration."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from typing import Any, NamedTuple

import attrs

from reput.plugin import Plugin, hookspecs

__all__ = ["OptionFacts", "hooks_of", "options_of", "summary_of"]


class OptionFacts(NamedTuple):
    """One option of a plugin's section."""

    name: str
    type: str
    default: Any
    """None if the option must be given."""
    description: str


def summary_of(kind: type) -> str:
    """Return the first line of the class's docstring."""
    return (inspect.getdoc(kind) or "").partition("\n")[0].replace("``", "")


def hooks_of(kind: type[Plugin]) -> list[str]:
    """Return the hooks that the class implements, in life-cycle order."""
    marker = f"{hookspecs.PROJECT}_impl"
    known = [name for name in vars(hookspecs) if name.startswith("reput_")]
    return [name for name in known if hasattr(getattr(kind, name, None), marker)]


def options_of(kind: type[Plugin]) -> list[OptionFacts]:
    """Return the options of the plugin's section, in the order in which they are declared."""
    texts = _field_texts(kind.config_type)
    return [
        OptionFacts(field.name, _type_name(field.type), _default(field), texts.get(field.name, ""))
        for field in attrs.fields(kind.config_type)
    ]


def _default(field: Any) -> Any:
    default = field.default
    if default is attrs.NOTHING:
        return None
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
        return default.factory() if not default.takes_self else None
    return default


def _type_name(kind: Any) -> str:
    return kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))


def _field_texts(config_type: type) -> dict[str, str]:
    """Return the docstrings under the fields, which Python keeps only in the source."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(config_type)))
    except (OSError, TypeError, SyntaxError):
        return {}  # made at run time, or installed without its source
    body = tree.body[0].body if tree.body and isinstance(tree.body[0], ast.ClassDef) else []
    texts = {}
    for statement, following in itertools.pairwise(body):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
            and isinstance(following.value.value, str)
        ):
            text = " ".join(following.value.value.split())
            texts[statement.target.id] = text.replace("``", "")
    return texts
