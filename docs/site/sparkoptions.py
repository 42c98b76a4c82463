"""Options of Spark's reads and streams: ``python docs/site/sparkoptions.py`` prints the tables.

The site has a table where a page says ``<!-- options of reads -->`` or the like. Its rows are those
by which `reput_spark` checks options, so an option is described once. Spark need not be installed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from markdowntext import code, table

sys.path.append(str(Path(__file__).resolve().parents[2] / "extras" / "spark" / "src"))

from reput_spark.reader.options import OPTIONS
from reput_spark.reader.stream.options import STREAM_OPTIONS
from reput_spark.writer.options import SINK_OPTIONS


def options(found: Mapping[str, str]) -> str:
    """Return a table with a row for each option; the meanings are Markdown."""
    rows = ((code(name), meaning) for name, meaning in found.items())
    return table(("option", "meaning"), rows).rstrip()


MARKS = {
    "<!-- options of reads -->": partial(options, OPTIONS),
    "<!-- options of a stream out of a log -->": partial(options, STREAM_OPTIONS),
    "<!-- options of a stream into a store -->": partial(options, SINK_OPTIONS),
}

if __name__ == "__main__":
    sys.stdout.write("\n\n".join(text() for text in MARKS.values()) + "\n")
