"""`is_in_share`: which files of tests a run tries, if it tries only some of them."""

from __future__ import annotations

import re
import zlib

VARIABLE = "REPUT_FILES"
_SHARE = re.compile(r"([1-9][0-9]?)/([1-9][0-9]?)")


def is_in_share(path: str, share: str) -> bool:
    """Whether a file of tests is in a share, for example the first of three, ``1/3``.

    Args:
        path: that of the file, relative to the repository, with forward slashes.
        share: its number, counted from 1, and how many shares there are.

    Raises:
        ValueError: the share has another form, or its number is too high.
    """
    found = _SHARE.fullmatch(share)
    if found is None or int(found[1]) > int(found[2]):
        raise ValueError(f"{VARIABLE}: NUMBER/COUNT expected, as 1/3, found {share[:100]!r}")
    return zlib.crc32(path.encode()) % int(found[2]) + 1 == int(found[1])
