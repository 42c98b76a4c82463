"""``python -m reput_cli``: the command line without its script."""

from __future__ import annotations

from reput_cli import main

main()
