"""Recognises records that lost a part of their topic or properties in a power cut.

No checksum covers topic and properties, unless the store writes `record_crc`. A disk writes whole
sectors, and an unwritten sector reads as zeros: a sector of zeros that begins inside a property
text was lost. So that this holds, a reput writer refuses property texts that look torn.
"""

from __future__ import annotations

from typing import Final

__all__ = ["SECTOR_SIZE", "looks_torn"]

SECTOR_SIZE: Final = 512
"""Bytes; no disk writes fewer."""
_UNWRITTEN: Final = bytes(SECTOR_SIZE)


def looks_torn(text: bytes) -> str | None:
    """Return why recovery would take ``text`` for a torn property text; None if it would not."""
    if text.endswith(b"\0"):
        return "the text ends in a zero byte"
    if len(text) >= SECTOR_SIZE and _UNWRITTEN in text:
        return f"the text holds {SECTOR_SIZE} zero bytes in a row"
    return None
