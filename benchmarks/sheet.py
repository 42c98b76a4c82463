"""A table as text, and how its quantities are written."""

from __future__ import annotations

import attrs


@attrs.frozen
class Sheet:
    """One table as text."""

    title: str
    caption: str
    headings: list[str]
    cells: list[list[str]]

    def markdown(self) -> list[str]:
        """Return the lines of the table alone."""
        return [
            "| " + " | ".join(self.headings) + " |",
            "|---|" + "---:|" * (len(self.headings) - 1),
            *("| " + " | ".join(row) + " |" for row in self.cells),
        ]


def quantity(rate: float) -> str:
    """Return a rate with its three leading digits, such as ``1.24 M``."""
    if rate >= 1e6:
        return f"{rate / 1e6:.2f} M"
    if rate >= 1e4:
        return f"{rate / 1e3:.0f} k"
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2f}"


def time_text(microseconds: float) -> str:
    """Return a duration in a unit that suits it."""
    if microseconds >= 1e6:
        return f"{microseconds / 1e6:.2f} s"
    if microseconds >= 1e3:
        return f"{microseconds / 1e3:.2f} ms"
    return f"{microseconds:.1f} µs"


def print_sheet(sheet: Sheet) -> None:
    """Print ``sheet``, drawn where rich is installed."""
    try:
        from rich.console import Console
        from rich.table import Table as RichTable
    except ImportError:
        _print_plain(sheet)
        return
    drawn = RichTable(
        title=sheet.title, caption=sheet.caption, title_justify="left", caption_justify="left"
    )
    for column, heading in enumerate(sheet.headings):
        drawn.add_column(heading, justify="left" if column == 0 else "right", no_wrap=True)
    for row in sheet.cells:
        drawn.add_row(*row)
    console = Console()
    if not console.is_terminal:  # a file or a pipe has no width of its own
        console = Console(width=200)
    console.print(drawn)


def _print_plain(sheet: Sheet) -> None:
    columns = zip(sheet.headings, *sheet.cells, strict=True)
    widths = [max(map(len, column)) for column in columns]
    print(f"\n{sheet.title}")
    for row in (sheet.headings, ["-" * width for width in widths], *sheet.cells):
        first, *rest = zip(row, widths, strict=True)
        text = "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)])
        print(text.rstrip())
    if sheet.caption:
        print(sheet.caption)
