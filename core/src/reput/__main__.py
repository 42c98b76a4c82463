"""``python -m reput`` is ``reput``."""

from __future__ import annotations

from reput.cli import main

main()
