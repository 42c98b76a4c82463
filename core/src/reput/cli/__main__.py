"""``python -m reput.cli``: the command line without its script."""

from __future__ import annotations

from reput.cli import main

main()
