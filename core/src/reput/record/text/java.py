"""Text of records, read as Java reads it.

What is not UTF-8 becomes U+FFFD, and how many of them decides the hash of a tag or a key, and so
the bytes of queues and indexes. Java and Python agree on it but for encoded surrogates: ``ED``,
then ``A0`` to ``BF``, and a continuation if one follows, is one replacement in Java, and one for
each byte in Python.

Source: ``java.lang.String(byte[], UTF_8)``, ``String#decodeUTF8_UTF16`` (JDK 17): three bytes that
give a surrogate are replaced as one, and ``malformed3`` takes two bytes where the third is no
continuation.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["java_text"]

# ED never continues anything, so what stands in front of it ends there in any case.
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT: Final = "\ufffd".encode()


def java_text(data: bytes) -> str:
    """``data`` as Java decodes UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(_REPLACEMENT, data).decode("utf-8", "replace")
