"""The front pages: the first screen of the README, and all pages, as the lists for a forge say.

`docs/README.md`, `docs/zh/README.md` and `docs/reference/index.md` list pages, section by section.
Each section becomes a part of the navigation, in the same order; a page that no list names is shown
below "More", so that a new page is never left out. A test asks for its line in the list.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from links import on_the_site

if TYPE_CHECKING:
    from sphinx.application import Sphinx

FIRST_SCREEN_ENDS = "<!-- the first screen ends here -->"

_FIRST_SCREEN = re.compile(r"<!-- first screen: (\S+) -->")
_SECTIONS = re.compile(r"<!-- sections: (\S+) -->")
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_LINKED = re.compile(r"\]\(((?!\.\.)[^)#:]+)\.md\)")

# The page that has the contents, the list that they follow, and what further pages are called.
_LISTS = {
    "index": ("README.md", "More"),
    "reference/index": ("reference/index.md", "More"),
    "zh/index": ("zh/README.md", "更多"),
}

# What the navigation calls a page whose title says too little there.
_ENTRIES = {"zh/index": "中文文档 </zh/index>"}


class Part(NamedTuple):
    """A section of a list of pages."""

    title: str
    pages: list[str]
    """Names of documents, relative to the list."""


def parts_of(text: str) -> list[Part]:
    """The sections of a list of pages that name any.

    Returns:
        Their titles and the first page linked in each row of their tables, in order.
    """
    pieces = ["", *_HEADING.split(text)]
    parts = []
    for title, body in zip(pieces[::2], pieces[1::2], strict=True):
        rows = [line for line in body.splitlines() if line.startswith("| [")]
        found = [match[1] for row in rows if (match := _LINKED.search(row))]
        if found:
            parts.append(Part(title, list(dict.fromkeys(found))))
    return parts


def with_the_rest(parts: list[Part], names: set[str], title: str) -> list[Part]:
    """The parts of a list, and one more for the pages that it does not name.

    Args:
        parts: those of the list.
        names: every page that there is, relative to the list.
        title: of the further part.
    """
    rest = sorted(names - {page for part in parts for page in part.pages})
    return [*parts, Part(title, rest)] if rest else parts


def first_screen(text: str) -> str:
    """What a README shows first, up to the mark where that ends."""
    return text.partition(FIRST_SCREEN_ENDS)[0]


def sections(text: str) -> str:
    """A list of pages without the title and the words above its first section."""
    at = _HEADING.search(text)
    return text[at.start() :] if at else ""


def pages_beside(name: str, found: set[str]) -> set[str]:
    """The pages that a front page has to list, relative to it.

    Args:
        name: of the front page.
        found: every page of the site.
    """
    folder = name.removesuffix("index")
    below = {page.removeprefix(folder) for page in found if page.startswith(folder)}
    fronts = {other.removeprefix(folder) for other in _LISTS if other.startswith("reference")}
    inner = fronts if not folder else set()
    return {page for page in below - {"index"} if "/" not in page} | inner


def _toctree(part: Part, folder: str) -> str:
    pages = "\n".join(_ENTRIES.get(page, f"/{folder}{page}") for page in part.pages)
    caption = f":caption: {part.title}\n" if part.title else ""
    return f"\n```{{toctree}}\n:hidden:\n{caption}\n{pages}\n```\n"


def _fill(app: Sphinx, name: str, source: list[str]) -> None:
    if name not in _LISTS:
        return
    path, more = _LISTS[name]
    docs = Path(app.srcdir)
    parts = parts_of((docs / path).read_text(encoding="utf-8"))
    app.env.note_dependency(docs / path)

    def text_of(page: str) -> str:
        app.env.note_dependency(docs.parent / page)
        text = (docs.parent / page).read_text(encoding="utf-8")
        return on_the_site(text, page, docs.parent)

    text = _FIRST_SCREEN.sub(lambda mark: first_screen(text_of(mark[1])), source[0])
    text = _SECTIONS.sub(lambda mark: sections(text_of(mark[1])), text)
    if name == "index":
        parts.append(Part("中文", ["zh/index"]))
    pages = pages_beside(name, set(app.env.found_docs))
    folder = name.removesuffix("index")
    trees = [_toctree(part, folder) for part in with_the_rest(parts, pages, more)]
    source[0] = text + "".join(trees)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register what fills the front pages."""
    app.connect("source-read", _fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
