"""Tests of brokers' directories by release: ``python docs/site/releasetable.py`` prints the table.

The site has it where a page says ``<!-- releases -->``. `releases.toml` has the cells.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from markdowntext import code, table

MARK = "<!-- releases -->"
FOUND = tomllib.loads(Path(__file__).with_name("releases.toml").read_text(encoding="utf-8"))


def releases() -> str:
    """Return the table of directories, and the list of tests to which its numbers lead."""
    tests = "\n".join(f"{number}. {code(path)}" for number, path in FOUND["tests"].items())
    return f"{table(FOUND['columns'], FOUND['rows'])}\n{tests}"


if __name__ == "__main__":
    sys.stdout.write(releases() + "\n")
