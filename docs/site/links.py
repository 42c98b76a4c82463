"""Links that lead out of `docs/`: to a page of the site where there is one, to text where not.

On a forge `../examples/` is a folder to look into. The site has no address of a repository to lead
to; such a link becomes the text of it, with the path as a tooltip. Files are copied beside the site
by MyST, and stay links.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!\w+:|#)([^)#\s]*)(#[^)\s]*)?\)")
_IMAGE = re.compile(r"(!\[[^\]]*\])\((?!\w+:|/)([^)\s]+)\)")
_FENCE = re.compile(r"(^(?:```|~~~).*?^(?:```|~~~)[ \t]*$)", re.MULTILINE | re.DOTALL)
_FRONT_PAGES = {
    "docs/README.md": "index.md",
    "README.md": "index.md",
    "docs/zh/README.md": "zh/index.md",
    "README.zh.md": "zh/index.md",
}


def on_the_site(text: str, page: str, root: Path) -> str:
    """A page's text whose links lead to what the site has.

    Args:
        text: Markdown, as it stands in the repository.
        page: its path, relative to the repository's root.
        root: the repository's root.
    """
    here = posixpath.dirname(page)

    def mend(link: re.Match[str]) -> str:
        shown, target, anchor = link[1], link[2], link[3] or ""
        path = posixpath.normpath(posixpath.join(here, target))
        if path in _FRONT_PAGES:
            return f"[{shown}](/{_FRONT_PAGES[path]})"
        if path.startswith("docs/") and path.endswith(".md"):
            return f"[{shown}](/{path.removeprefix('docs/')}{anchor})"
        if (root / path).is_file() and not path.endswith(".md"):
            return link[0]
        return f'[{shown}]{{.repository title="{path}"}}' if target else link[0]

    def move(image: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(here, image[2]))
        return f"{image[1]}(/{path.removeprefix('docs/')})"

    pieces = _FENCE.split(text)
    return "".join(
        piece if number % 2 else _IMAGE.sub(move, _LINK.sub(mend, piece))
        for number, piece in enumerate(pieces)
    )


def _mend_page(app: Sphinx, name: str, source: list[str]) -> None:
    source[0] = on_the_site(source[0], f"docs/{name}.md", Path(app.srcdir).parent)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register what mends links."""
    # Before the front pages are filled with what stands elsewhere.
    app.connect("source-read", _mend_page, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
