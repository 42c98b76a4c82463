"""SVG drawings: boxes, texts and arrows in a few named colours, readable in light and dark.

A drawing has a title and a description for those who do not see it, a background of its own, and
colours that follow the system; where it stands inside of a page, that page's style may set them.
"""

from __future__ import annotations

from xml.sax.saxutils import escape

import attrs

_LIGHT = {
    "paper": "#ffffff",
    "ink": "#1f2328",
    "soft": "#57606a",
    "line": "#6e7781",
    "plain-fill": "#f6f8fa",
    "log-fill": "#ddf4ff",
    "log-line": "#0969da",
    "plugin-fill": "#dafbe1",
    "plugin-line": "#1a7f37",
    "mark-fill": "#fff8c5",
    "mark-line": "#9a6700",
    "spark-fill": "#fbefff",
    "spark-line": "#8250df",
}
_DARK = {
    "paper": "#0d1117",
    "ink": "#e6edf3",
    "soft": "#9da7b3",
    "line": "#8b949e",
    "plain-fill": "#1c2128",
    "log-fill": "#10294a",
    "log-line": "#58a6ff",
    "plugin-fill": "#12301e",
    "plugin-line": "#3fb950",
    "mark-fill": "#382a09",
    "mark-line": "#d29922",
    "spark-fill": "#2a1b47",
    "spark-line": "#b78bff",
}
KINDS = ("plain", "log", "plugin", "mark", "spark")
_FONT = "system-ui, 'Segoe UI', 'Noto Sans', 'Noto Sans CJK SC', 'PingFang SC', sans-serif"
_MONO = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


def _style() -> str:
    kinds = "".join(
        f".drawing .{kind}{{fill:var(--{kind}-fill);"
        f"stroke:var(--{'line' if kind == 'plain' else kind + '-line'})}}"
        for kind in KINDS
    )
    ends = "".join(
        f".drawing .head-{kind}{{fill:var(--{'line' if kind == 'plain' else kind + '-line'})}}"
        f".drawing .way-{kind}{{fill:none;stroke-width:1.6;"
        f"stroke:var(--{'line' if kind == 'plain' else kind + '-line'})}}"
        for kind in KINDS
    )
    return (
        f".drawing{{{_variables(_LIGHT)}font-family:{_FONT}}}"
        f"@media (prefers-color-scheme:dark){{.drawing{{{_variables(_DARK)}}}}}"
        ".drawing .paper{fill:var(--paper)}"
        ".drawing text{fill:var(--ink)}.drawing text.soft{fill:var(--soft)}"
        f".drawing text.mono{{font-family:{_MONO}}}.drawing text.strong{{font-weight:600}}"
        f".drawing rect{{stroke-width:1.2}}{kinds}{ends}"
        ".drawing .dashed{stroke-dasharray:5 4}"
    )


@attrs.define(eq=False)
class Drawing:
    """One drawing, made from the background up."""

    name: str
    """Part of the ids inside, which have to differ between drawings of one page."""
    width: int
    height: int
    title: str
    description: str
    _parts: list[str] = attrs.field(factory=list, init=False)

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        kind: str = "plain",
        radius: float = 6,
    ) -> None:
        """A rectangle; ``x`` and ``y`` are its upper left corner, in pixels."""
        self._parts.append(
            f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
            f'rx="{radius:g}"/>'
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        style: str = "",
        size: float = 14,
        anchor: str = "middle",
    ) -> None:
        """One line of text; ``y`` is its base line."""
        self._parts.append(
            f'<text class="{style}" x="{x:g}" y="{y:g}" font-size="{size:g}" '
            f'text-anchor="{anchor}">{escape(text)}</text>'
        )

    def labelled(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        lines: tuple[str, ...],
        kind: str = "plain",
        size: float = 14,
        style: str = "strong",
    ) -> None:
        """A box with lines of text: the first one strong, the others smaller below it."""
        self.box(x, y, width, height, kind)
        step = size + 4
        first = y + height / 2 - step * (len(lines) - 1) / 2 + size * 0.35
        for number, line in enumerate(lines):
            wanted = size if number == 0 else size - 2.5
            self.text(
                x + width / 2,
                first + number * step,
                line,
                style if number == 0 else "soft",
                min(wanted, round((width - 8) / ((0.7 if number == 0 else 0.6) * len(line)), 1)),
            )

    def way(
        self,
        points: list[tuple[float, float]],
        kind: str = "plain",
        *,
        head: bool = True,
        dashed: bool = False,
    ) -> None:
        """A line through points, with an arrow's head at its end."""
        path = "M" + " L".join(f"{x:g} {y:g}" for x, y in points)
        end = f' marker-end="url(#{self.name}-{kind})"' if head else ""
        style = f"way-{kind} dashed" if dashed else f"way-{kind}"
        self._parts.append(f'<path class="{style}" d="{path}"{end}/>')

    def curve(self, path: str, kind: str = "plain", *, head: bool = True) -> None:
        """A path in SVG's own words, with an arrow's head at its end."""
        end = f' marker-end="url(#{self.name}-{kind})"' if head else ""
        self._parts.append(f'<path class="way-{kind}" d="{path}"{end}/>')

    def slice(self, path: str, kind: str) -> None:
        """A filled shape, by a path in SVG's own words."""
        self._parts.append(f'<path class="{kind}" d="{path}"/>')

    def svg(self) -> str:
        """The drawing as the text of an SVG file."""
        markers = "".join(
            f'<marker id="{self.name}-{kind}" viewBox="0 0 10 10" refX="9" refY="5" '
            'markerWidth="7" markerHeight="7" orient="auto">'
            f'<path class="head-{kind}" d="M0 0 L10 5 L0 10 z"/></marker>'
            for kind in KINDS
        )
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="drawing" role="img" '
            f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" aria-labelledby="{self.name}-title {self.name}-about">'
        )
        return "\n".join(
            [
                head,
                f'<title id="{self.name}-title">{escape(self.title)}</title>',
                f'<desc id="{self.name}-about">{escape(self.description)}</desc>',
                f"<style>{_style()}</style>",
                f"<defs>{markers}</defs>",
                f'<rect class="paper" width="{self.width}" height="{self.height}" rx="8"/>',
                *self._parts,
                "</svg>\n",
            ]
        )
