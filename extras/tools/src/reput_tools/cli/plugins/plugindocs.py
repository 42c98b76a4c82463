"""What a plugin's class documents: its hooks, and the options of its configuration."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from typing import Any, NamedTuple

import attrs

from reput.plugin import Plugin, hookspecs
from reput.validators import Bounds

_KINDS = {
    "bool": "true or false",
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "str | None": "a string",
    "Sequence[str]": "a list of strings",
    "tuple[str, ...]": "a list of strings",
    "str | Mapping[str, str]": "a string or a table of strings",
}


class OptionFacts(NamedTuple):
    """One option of a section of the configuration; texts have the marks of the docstring."""

    name: str
    type: str
    default: Any
    """None if the option must be given."""
    values: str
    """The bounds or the choices, else the kind of value."""
    description: str
    """What the option does: the docstring without its last paragraph, if it has several."""
    when: str
    """When to change it: the last paragraph; empty if there is only one."""

    def plain(self) -> OptionFacts:
        """Return the same option without the marks around code."""
        texts = (plain_text(each) for each in self[-3:])
        return OptionFacts(self.name, self.type, self.default, *texts)


def plain_text(text: str) -> str:
    """Return a text without the double backquotes around code."""
    return text.replace("``", "")


def summary_of(kind: type) -> str:
    """Return the first line of the class's docstring."""
    return plain_text((inspect.getdoc(kind) or "").partition("\n")[0])


def hooks_of(kind: type[Plugin]) -> list[str]:
    """Return the hooks that the class implements, in life-cycle order."""
    marker = f"{hookspecs.PROJECT}_impl"
    known = [name for name in vars(hookspecs) if name.startswith("reput_")]
    return [name for name in known if hasattr(getattr(kind, name, None), marker)]


def options_of(config_type: type) -> list[OptionFacts]:
    """Return the options of a section, in the order in which its class declares them."""
    texts = _field_texts(config_type)
    return [
        OptionFacts(
            field.name,
            _type_name(field.type),
            _default(field),
            _values(field),
            *texts.get(field.name, ("", "")),
        )
        for field in attrs.fields(config_type)
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


def _values(field: Any) -> str:
    """Return the bounds or the choices of an option, else the kind of its value."""
    for check in _checks(field.validator):
        if isinstance(check, Bounds):
            least, most = (f"{each:,}" for each in (check.least, check.most))
            return f"{least} to {most}"
        if choices := getattr(check, "options", None):
            *others, last = (f'``"{each}"``' for each in choices)
            return f"{', '.join(others)} or {last}" if others else last
    name = _type_name(field.type)
    return _KINDS.get(name, name)


def _checks(validator: Any) -> list[Any]:
    """Return a validator, or the validators that it combines."""
    return [*getattr(validator, "_validators", (validator,))]


def _field_texts(config_type: type) -> dict[str, tuple[str, str]]:
    """Return the docstrings under the fields, which Python keeps only in the source.

    Returns:
        Two texts by field: the last paragraph is the second text if there are several.
    """
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
            paragraphs = inspect.cleandoc(following.value.value).split("\n\n")
            joined = [" ".join(each.split()) for each in paragraphs]
            *first, last = joined if len(joined) > 1 else [*joined, ""]
            texts[statement.target.id] = (" ".join(first), last)
    return texts
