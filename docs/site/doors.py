"""The reference: ```` ```{door} reput.plugin ```` lists what a door offers, by its docstrings.

A door is a package whose ``__all__`` is public. Names that a door only passes on are described at
the first door of the list that offers them, and linked from there.
"""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# Which door describes a name that several offer: the first.
_ORDER = (
    "reput.plugin",
    "reput.record",
    "reput.files",
    "reput.log",
    "reput.storefiles",
    "reput.errors",
    "reput",
)

_ATTRIBUTES = ("attribute", "data", "property")


def offered(name: str) -> list[str]:
    """Names that a door offers, in the door's order."""
    door = importlib.import_module(name)
    return [each for each in door.__all__ if not each.startswith("__")]


def home_of(door: str, name: str) -> str:
    """The door that describes what ``door`` offers by a name: itself, or an earlier one."""
    found = getattr(importlib.import_module(door), name)
    for other in _ORDER:
        if other == door or door not in _ORDER:
            break
        if getattr(importlib.import_module(other), name, None) is found and name in offered(other):
            return other
    return door


def _lines_for(door: str, name: str) -> list[str]:
    found: Any = getattr(importlib.import_module(door), name)
    path = f"{door}.{name}"
    if inspect.isclass(found):
        options = ["   :members:"]
        if found.__bases__ != (object,):
            options.append("   :show-inheritance:")
        return [f".. autoclass:: {path}", *options, ""]
    if inspect.isroutine(found):
        return [f".. autofunction:: {path}", ""]
    about = f"The module ``{found.__name__}``." if inspect.ismodule(found) else _value(found)
    return [f".. py:data:: {name}", f"   :module: {door}", "", f"   {about}", ""]


def _value(found: object) -> str:
    """A constant's value, or what it is where that is long."""
    text = repr(found)
    return f"``{text}``" if len(text) < 200 and "\n" not in text else f"A `{type(found).__name__}`."


class Door(SphinxDirective):
    """Everything that one door offers."""

    has_content = True
    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[nodes.Node]:
        """Return the descriptions, of a door's own names first."""
        door = self.arguments[0]
        names = offered(door)
        module = importlib.import_module(door)
        about = inspect.cleandoc(module.__doc__ or "").partition("\n\n")[0]
        lines = [f".. py:module:: {door}", "", *about.splitlines(), ""]
        passed_on = []
        for name in names:
            home = home_of(door, name)
            if home == door:
                lines += _lines_for(door, name)
            else:
                passed_on.append(f":py:obj:`{name} <{home}.{name}>`")
        if passed_on:
            lines += ["Also here, and described there: " + ", ".join(passed_on) + ".", ""]
        # Docstrings are no Markdown, which the page around them is.
        text = StringList(["```{eval-rst}", *lines, "```"], source=f"the door {door}")
        node = nodes.container()
        self.state.nested_parse(text, self.content_offset, node)
        return node.children


def _keep_drawings(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Make indented drawings and code of docstrings literal, as readers of the source see them."""
    kept: list[str] = []
    inside = False
    for line in lines:
        begins = line.startswith("    ") and not line.lstrip().startswith((":", "* ", "- "))
        if begins and not inside and kept and not kept[-1].strip():
            above = next((text for text in reversed(kept) if text.strip()), "")
            if not above.startswith((" ", ":", "..")) and not above.endswith("::"):
                kept += ["::", ""]
            inside = True
        elif line.strip() and not line.startswith(" "):
            inside = False
        kept.append(line)
    lines[:] = kept


class _Attributes:
    """Docstrings of attributes, kept as they are: before a colon Napoleon expects a type."""

    def __init__(self) -> None:
        self._kept: list[str] = []

    def hide(
        self, app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
    ) -> None:
        self._kept = list(lines) if what in _ATTRIBUTES else []
        if self._kept:
            lines[:] = [""]

    def show(
        self, app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
    ) -> None:
        if self._kept:
            lines[:] = self._kept


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("door", Door)
    attributes = _Attributes()
    app.connect("autodoc-process-docstring", attributes.hide, priority=100)
    app.connect("autodoc-process-docstring", attributes.show, priority=900)
    app.connect("autodoc-process-docstring", _keep_drawings, priority=950)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
