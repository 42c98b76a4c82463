"""The page about streams: its tables are complete; its snippets run in `test_recipes`."""

from __future__ import annotations

from pathlib import Path

import pytest

from reput_spark.reader.stream.options import STREAM_OPTIONS
from reput_spark.writer.options import SINK_OPTIONS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark-streaming.md"
TEXT = PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("options", [STREAM_OPTIONS, SINK_OPTIONS])
def test_the_page_has_every_option(options):
    for name, meaning in options.items():
        assert f"| `{name}` | {meaning} |" in TEXT
