"""The pages of the documentation, and the blocks of code on them."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

_BLOCK = re.compile(r"^(?:<!-- ([^\n]+) -->\n)?```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_GENERATED = {"<!-- options -->": "configreference", "<!-- commands -->": "commandreference"}
_PLAIN_CODE = re.compile(r"`[^`\n]*`")


class Block(NamedTuple):
    """A fenced block: the comment above it, the kind after the fence, and its text."""

    name: str
    kind: str
    text: str


def pages() -> list[str]:
    """Every page for readers, relative to the root; no recorded data."""
    paths = [*ROOT.glob("*.md"), *DOCS.glob("**/*.md")]
    folders = ("core", "extras/*", "plugins/*", "spark", "native", "examples/*")
    paths += [path for folder in folders for path in ROOT.glob(f"{folder}/README.md")]
    return sorted(path.relative_to(ROOT).as_posix() for path in paths)


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks_of(page: str) -> list[Block]:
    return [Block(*found) for found in _BLOCK.findall(text_of(page))]


def prose_of(page: str) -> str:
    """A page without its blocks of code, and without code in its lines."""
    return _PLAIN_CODE.sub("`code`", _FENCED.sub("", text_of(page)))


def anchors_of(page: str) -> set[str]:
    """Names that a forge gives the headings of a page, and the site those that it fills in."""
    text = _FENCED.sub("", text_of(page))
    for mark, module in _GENERATED.items():
        if mark in text:
            text = text.replace(mark, _reference_of(module))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}


def _reference_of(module: str) -> str:
    site = str(DOCS / "site")
    if site not in sys.path:
        sys.path.append(site)
    return _FENCED.sub("", importlib.import_module(module).reference())


def commands_of(block: Block) -> list[tuple[str, str]]:
    """Commands of a console, each with the output shown below it."""
    commands: list[tuple[str, str]] = []
    for line in block.text.splitlines(keepends=True):
        if line.startswith("$ "):
            commands.append((line[2:].rstrip("\n"), ""))
        elif line.startswith("> ") and commands:
            commands[-1] = (f"{commands[-1][0]}\n{line[2:].rstrip()}", "")
        elif commands:
            commands[-1] = (commands[-1][0], commands[-1][1] + line)
    return commands
