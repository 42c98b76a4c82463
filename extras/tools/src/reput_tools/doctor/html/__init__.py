"""Self-contained HTML pages: a shell, tables and plots as SVG; nothing is loaded, no script runs.

All text is escaped here: topics, groups and keys are bytes from other programs. Plots are plain SVG
whose colours are variables of the page, so that they follow the reader's light or dark theme; the
small libraries for SVG write fixed colours into each shape, or load a script.
"""

from __future__ import annotations

from reput_tools.doctor.html.components import Cell as Cell
from reput_tools.doctor.html.components import Head as Head
from reput_tools.doctor.html.components import facts as facts
from reput_tools.doctor.html.components import note as note
from reput_tools.doctor.html.components import section as section
from reput_tools.doctor.html.components import subheading as subheading
from reput_tools.doctor.html.components import table as table
from reput_tools.doctor.html.components import tiles as tiles
from reput_tools.doctor.html.components import verdicts as verdicts
from reput_tools.doctor.html.pagetemplate import page as page
from reput_tools.doctor.html.plots import SERIES_MAX as SERIES_MAX
from reput_tools.doctor.html.plots import bars as bars
from reput_tools.doctor.html.plots import column_places as column_places
from reput_tools.doctor.html.plots import columns as columns

__all__ = [
    "SERIES_MAX",
    "Cell",
    "Head",
    "bars",
    "column_places",
    "columns",
    "facts",
    "note",
    "page",
    "section",
    "subheading",
    "table",
    "tiles",
    "verdicts",
]
