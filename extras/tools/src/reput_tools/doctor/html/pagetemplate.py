"""The shell of a page: head, style for light and dark, title, content, foot."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from reput_tools.doctor.html.text import html_text

_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)
"""Even if a text were taken for HTML, it could load nothing and run nothing."""

_STYLE: Final = """
:root { color-scheme: light dark;
  --ground: #fff; --panel: #f6f7f9; --ink: #1c2330; --soft: #5b6473; --line: #dfe3e8;
  --a: #2f6db5; --b: #c2681c; --c: #2e8b57; --d: #8b5fbf; --e: #b23b5e; --rest: #a9b2bf;
  --loss: #b3261e; --damage: #b3261e; --warning: #8a5a00; --notice: #1f5f8b; --good: #1f7a45; }
@media (prefers-color-scheme: dark) { :root {
  --ground: #14181f; --panel: #1d232c; --ink: #e6e9ee; --soft: #9aa4b2; --line: #313a46;
  --a: #6ea8e8; --b: #e69a56; --c: #63c08e; --d: #b794e0; --e: #e27d9b; --rest: #586373;
  --loss: #ff8a80; --damage: #ff8a80; --warning: #f0c05a; --notice: #7cc0ee; --good: #6fd39b; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground);
  margin: 0 auto; max-width: 68rem; padding: 1.2rem 1rem 3rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .4rem 0 .2rem; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem; border-bottom: 1px solid var(--line);
  padding-bottom: .25rem; }
h3 { font-size: .95rem; margin: 1.2rem 0 .3rem; color: var(--soft); font-weight: 600; }
p { margin: .4rem 0; } .soft { color: var(--soft); } code { font-size: .9em; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .6rem;
  margin: 1rem 0; }
.tile { background: var(--panel); border-radius: .5rem; padding: .6rem .8rem; }
.tile b { display: block; font-size: 1.25rem; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: .85rem; }
.verdict { background: var(--panel); border-left: .3rem solid var(--soft); border-radius: .3rem;
  padding: .45rem .8rem; margin: .45rem 0; }
.verdict b { text-transform: uppercase; font-size: .72rem; letter-spacing: .05em;
  margin-right: .5rem; }
.verdict small { display: block; color: var(--soft); font-size: .85rem; }
.loss { border-color: var(--loss); } .loss b { color: var(--loss); }
.damage { border-color: var(--damage); } .damage b { color: var(--damage); }
.warning { border-color: var(--warning); } .warning b { color: var(--warning); }
.notice { border-color: var(--notice); } .notice b { color: var(--notice); }
.good { border-color: var(--good); } .good b { color: var(--good); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .86rem; width: 100%; }
th, td { text-align: left; padding: .28rem .9rem .28rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
td { overflow-wrap: break-word; max-width: 22rem; } .keep { white-space: nowrap; }
th { color: var(--soft); font-weight: 600; white-space: nowrap; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: .5rem 0; }
dt { color: var(--soft); } dd { margin: 0; }
svg { display: block; width: 100%; height: auto; margin: .4rem 0; }
svg text { font: 11px system-ui, sans-serif; fill: var(--soft); }
svg text.ink { fill: var(--ink); } svg line { stroke: var(--line); }
.s0 { fill: var(--a); background: var(--a); } .s1 { fill: var(--b); background: var(--b); }
.s2 { fill: var(--c); background: var(--c); } .s3 { fill: var(--d); background: var(--d); }
.s4 { fill: var(--e); background: var(--e); } .s5 { fill: var(--rest); background: var(--rest); }
.keys { display: flex; flex-wrap: wrap; gap: .2rem 1rem; font-size: .85rem; color: var(--soft); }
.keys i { display: inline-block; width: .75em; height: .75em; border-radius: .15em;
  margin-right: .35em; }
.barlist { display: grid; grid-template-columns: minmax(6rem, max-content) 1fr; gap: .2rem .8rem;
  align-items: center; font-size: .86rem; margin: .5rem 0; }
.barlist .bar { display: flex; align-items: center; gap: .5rem; min-width: 0; }
.barlist .bar i { display: block; height: .85rem; border-radius: .15rem; min-width: 1px; }
.barlist .bar span { font-variant-numeric: tabular-nums; color: var(--soft); white-space: nowrap; }
.barlist > div:nth-child(odd) { max-width: 16rem; }
footer { margin-top: 3rem; color: var(--soft); font-size: .85rem; }
@media (max-width: 36rem) { dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .4rem; }
  .barlist { grid-template-columns: minmax(5rem, 40%) 1fr; } svg text { font-size: 22px; } }
@media print { body { max-width: none; } .wide { overflow: visible; } }
"""


def page(title: str, subtitle: str, content: Iterable[str], foot: str) -> str:
    """Return a whole page.

    Args:
        title: text, escaped here.
        subtitle: text below the title.
        content: HTML of the parts of this page.
        foot: text at the end: what made the page, and when.
    """
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>{html_text(title)}</title><style>{_STYLE}</style></head><body>",
            f"<header><h1>{html_text(title)}</h1>",
            f'<p class="soft">{html_text(subtitle)}</p></header><main>',
            *content,
            f"</main><footer>{html_text(foot)}</footer></body></html>\n",
        ]
    )
