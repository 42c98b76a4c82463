"""Draws the pictures of the pages: ``python docs/site/figures [FOLDER]``."""

from __future__ import annotations

import sys
from pathlib import Path

import growth
import indexfile
import loop
import record
import retries
import timerwheel

IMAGES = Path(__file__).resolve().parents[2] / "images"


def drawings() -> dict[str, str]:
    """The text of every drawing by the name of its file."""
    return {
        "reput.svg": loop.draw(loop.ENGLISH).svg(),
        "reput.zh.svg": loop.draw(loop.CHINESE).svg(),
        "record.svg": record.draw().svg(),
        "growth.svg": growth.draw().svg(),
        "index-file.svg": indexfile.draw().svg(),
        "retries.svg": retries.draw(retries.ENGLISH).svg(),
        "retries.zh.svg": retries.draw(retries.CHINESE).svg(),
        "timer-wheel.svg": timerwheel.draw().svg(),
    }


def main() -> None:
    """Write every drawing into the folder that is given, or where the pages look for them."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in drawings().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
