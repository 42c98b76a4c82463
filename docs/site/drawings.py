"""Drawings stand in the pages of the site themselves, so that they follow its light or dark theme.

On a forge a drawing is a file shown by `![…](images/….svg)`, which knows only whether the system
is dark. Here the same file becomes part of the page, where a reader may choose otherwise.
"""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_DARK = re.compile(r"@media \(prefers-color-scheme:dark\)\{\.drawing(\{[^}]*\})\}")
_AS_THE_PAGE = (
    r'body[data-theme="dark"] .drawing\1'
    r'@media (prefers-color-scheme:dark){body:not([data-theme="light"]) .drawing\1}'
)
_OURS = re.compile(r'^<svg [^>]*class="drawing"')


class InlineDrawings(SphinxPostTransform):
    """Puts our drawings into the page; other images stay files."""

    default_priority = 5
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        """Replace each image of the page that is a drawing of ours."""
        for image in list(self.document.findall(nodes.image)):
            path = Path(self.app.srcdir) / image["uri"]
            if path.suffix != ".svg" or not path.is_file():
                continue
            text = path.read_text(encoding="utf-8")
            if not _OURS.match(text):
                continue
            text = _DARK.sub(_AS_THE_PAGE, text, count=1)
            label = html.escape(image.get("alt", ""), quote=True)
            text = text.replace("<svg ", f'<svg aria-label="{label}" ', 1)
            inner = nodes.raw("", f'<div class="drawing-frame">{text}</div>', format="html")
            image.replace_self(inner)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register what puts drawings into pages."""
    app.add_post_transform(InlineDrawings)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
