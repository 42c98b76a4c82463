"""Records of which a power cut left all but a part of their topic or properties.

No checksum covers either, unless a store writes `record_crc`. A disk writes whole sectors, and
what was never written reads as zeros: a sector that begins inside of a property text and holds
nothing but zeros was lost. Writers of ours put no text that looks so.
"""

from __future__ import annotations

from typing import Final

__all__ = ["SECTOR_SIZE", "looks_torn"]

SECTOR_SIZE: Final = 512
"""Bytes; no disk writes fewer."""
_UNWRITTEN: Final = bytes(SECTOR_SIZE)


def looks_torn(text: bytes) -> str | None:
    """Why a property text could be taken for one that was not written as a whole, or None."""
    if text.endswith(b"\0"):
        return "the text ends in a zero byte"
    if len(text) >= SECTOR_SIZE and _UNWRITTEN in text:
        return f"the text holds {SECTOR_SIZE} zero bytes in a row"
    return None
