"""`CutCell`: a cell of a table of rich that shows both ends of a word that is too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from rich.measure import Measurement
from rich.text import Text

from reput_tools.cli.kit.terminaltable import lines_of, width_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, ConsoleOptions

__all__ = ["CutCell"]

_LEAST = 8
"""Columns of the terminal that a cell keeps where others can be narrower."""


@attrs.frozen
class CutCell:
    """A text without line breaks."""

    text: str

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Return the least and the whole width."""
        width = min(width_of(self.text), options.max_width)
        return Measurement(min(width, _LEAST), width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Yield the lines."""
        yield Text("\n".join(lines_of(self.text, options.max_width)), no_wrap=True)
