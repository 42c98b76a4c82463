"""Text of records, read as Java reads it.

Bytes that are not UTF-8 become U+FFFD; their number decides the hash of a tag or a key, and so the
bytes of queues and indexes. Java and Python agree except for encoded surrogates (``ED``, then
``A0`` to ``BF``, then perhaps a continuation): Java replaces the sequence once, Python each byte.

Source: ``java.lang.String(byte[], UTF_8)``, ``String#decodeUTF8_UTF16`` (JDK 17): three bytes that
encode a surrogate are replaced as one, and ``malformed3`` takes two bytes if the third is no
continuation.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["java_text"]

# ED never continues a sequence, so a sequence before it ends there in any case.
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT: Final = "\ufffd".encode()


def java_text(data: bytes) -> str:
    """Return ``data`` as Java decodes UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(_REPLACEMENT, data).decode("utf-8", "replace")
