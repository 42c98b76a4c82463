"""The reference: ```` ```{public-package} reput.plugin ```` lists its names, by their docstrings.

A public package has an ``__all__``. A name that several list is described in the first of them, and
the others link to it.
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

# Of packages that list the same name, the first describes it.
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


def listed(package: str) -> list[str]:
    """Names that a package lists, in its order."""
    module = importlib.import_module(package)
    return [each for each in module.__all__ if not each.startswith("__")]


def describing(package: str, name: str) -> str:
    """The package that describes a name of ``package``: itself, or an earlier one."""
    found = getattr(importlib.import_module(package), name)
    for other in _ORDER:
        if other == package or package not in _ORDER:
            break
        if getattr(importlib.import_module(other), name, None) is found and name in listed(other):
            return other
    return package


def _lines_for(package: str, name: str) -> list[str]:
    found: Any = getattr(importlib.import_module(package), name)
    path = f"{package}.{name}"
    if inspect.isclass(found):
        options = ["   :members:"]
        if found.__bases__ != (object,):
            options.append("   :show-inheritance:")
        return [f".. autoclass:: {path}", *options, ""]
    if inspect.isroutine(found):
        return [f".. autofunction:: {path}", ""]
    about = f"The module ``{found.__name__}``." if inspect.ismodule(found) else _value(found)
    return [f".. py:data:: {name}", f"   :module: {package}", "", f"   {about}", ""]


def _value(found: object) -> str:
    """A constant's value, or what it is where that is long."""
    text = repr(found)
    return f"``{text}``" if len(text) < 200 and "\n" not in text else f"A `{type(found).__name__}`."


class PublicPackage(SphinxDirective):
    """Everything that one package lists."""

    has_content = True
    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[nodes.Node]:
        """Return the descriptions, of the package's own names first."""
        package = self.arguments[0]
        module = importlib.import_module(package)
        about = inspect.cleandoc(module.__doc__ or "").partition("\n\n")[0]
        lines = [f".. py:module:: {package}", "", *about.splitlines(), ""]
        elsewhere = []
        for name in listed(package):
            place = describing(package, name)
            if place == package:
                lines += _lines_for(package, name)
            else:
                elsewhere.append(f":py:obj:`{name} <{place}.{name}>`")
        if elsewhere:
            lines += ["Also here, and described there: " + ", ".join(elsewhere) + ".", ""]
        # Docstrings are no Markdown, which the page around them is.
        text = StringList(["```{eval-rst}", *lines, "```"], source=f"the package {package}")
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
    app.add_directive("public-package", PublicPackage)
    attributes = _Attributes()
    app.connect("autodoc-process-docstring", attributes.hide, priority=100)
    app.connect("autodoc-process-docstring", attributes.show, priority=900)
    app.connect("autodoc-process-docstring", _keep_drawings, priority=950)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
