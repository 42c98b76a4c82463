"""How the site is built of `docs/`: ``make docs``, or ``python docs/site/build.py dist/site``.

The pages are plain Markdown that reads well on a forge. What only the site has is added while it is
built: the extensions in this folder say what, and why.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

project = "reput"
author = "The reput authors"
project_copyright = "The reput authors"
release = tomllib.loads((ROOT / "core" / "pyproject.toml").read_text("utf-8"))["project"]["version"]
version = release

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "contents",
    "crashtable",
    "drawings",
    "links",
    "publicpackages",
    "twolanguages",
]
root_doc = "index"
# Front pages for a forge, which the site has in another form; and what is not a page.
exclude_patterns = ["README.md", "zh/README.md", "site", "notebooks", "**/.ipynb_checkpoints"]

# ---------------------------------------------------------------------------------------- pages

myst_enable_extensions = ["colon_fence", "attrs_inline"]
# As many as any page links to, with the names that a forge gives them.
myst_heading_anchors = 4
# Pages of one long list, such as the hooks, have no second level above their third.
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
highlight_language = "text"

# ------------------------------------------------------------------------------------ reference

# In docstrings `name` is a name: a link where there is one, code everywhere else.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
napoleon_numpy_docstring = False
napoleon_use_rtype = False
add_module_names = False
toc_object_entries_show_parents = "hide"

# ----------------------------------------------------------------------------------------- html

html_theme = "furo"
html_title = f"reput {release}"
html_favicon = "_static/icon.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
html_search_language = "en-zh"
# Nothing is fetched from elsewhere: no fonts, no scripts, no address of a repository.
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}


# ------------------------------------------------------------------------------ generated texts

sys.path.append(str(ROOT / "packaging"))

import clienttables  # noqa: E402
import columntable  # noqa: E402
import commandreference  # noqa: E402
import configreference  # noqa: E402
import differencelists  # noqa: E402
import distributions  # noqa: E402
import metrictables  # noqa: E402
import releasetable  # noqa: E402
import sparkoptions  # noqa: E402

_GENERATED = {
    distributions.MARK: distributions.table,
    commandreference.MARK: commandreference.reference,
    configreference.MARK: configreference.reference,
    releasetable.MARK: releasetable.releases,
    **clienttables.MARKS,
    **columntable.MARKS,
    **differencelists.MARKS,
    **metrictables.MARKS,
    **sparkoptions.MARKS,
}


def setup(app: Any) -> None:
    """Fill pages with what is computed from descriptions, classes and commands."""

    def fill(_: Any, __: str, source: list[str]) -> None:
        for mark, text in _GENERATED.items():
            if mark in source[0]:
                source[0] = source[0].replace(mark, text())

    app.connect("source-read", fill)
