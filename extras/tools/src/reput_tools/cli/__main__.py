"""``python -m reput_tools.cli``: the command line without its script."""

from __future__ import annotations

from reput_tools.cli import main

main()
