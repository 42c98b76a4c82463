"""Byte strings that are mostly no UTF-8, in blocks, and what Java makes of them.

Not a test module. ``python tests/support/javatexts.py`` asks the Java of this machine and records
its answers in ``tests/golden/texts/java.json``: of each block a checksum of all its texts.
"""

from __future__ import annotations

import itertools
import json
import shutil
import struct
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path

RECORDED = Path(__file__).parents[1] / "golden" / "texts" / "java.json"
_PROGRAM = Path(__file__).parents[1] / "interop" / "java" / "texts" / "Texts.java"

# The borders of every class of bytes that the format of UTF-8 knows, and of its exceptions.
_BORDERS = bytes.fromhex(
    "00 01 02 20 41 7f 80 8f 90 9f a0 af b0 bf c0 c1c2 df e0 e1 ec ed ee ef f0 f1 f3 f4 f5 f8 fe ff"
)
_FEW = bytes.fromhex("41 80 8f 90 9f a0 bf c2 e0 ed f0 f4")
_RANDOM_COUNT = 20_000


def blocks() -> Iterator[tuple[str, list[bytes]]]:
    """Names and byte strings: all short ones over the borders, and longer ones by chance."""
    for size in (0, 1, 2):
        yield f"{size} bytes", [bytes(each) for each in itertools.product(range(256), repeat=size)]
    for first in _BORDERS:
        rest = itertools.product(_BORDERS, repeat=2)
        yield f"3 bytes from {first:02x}", [bytes((first, *each)) for each in rest]
    for first in _FEW:
        rest = itertools.product(_FEW, repeat=3)
        yield f"4 bytes from {first:02x}", [bytes((first, *each)) for each in rest]
    yield "longer", list(_by_chance())


def _by_chance() -> Iterator[bytes]:
    state = 11  # a generator of its own: the same bytes in every release of Python
    for _ in range(_RANDOM_COUNT):
        drawn = []
        for _ in range(28):
            state = (state * 6364136223846793005 + 1442695040888963407) & (1 << 64) - 1
            drawn.append(state >> 40)
        size = 5 + drawn[0] % 20
        alphabet = (_BORDERS, _FEW, bytes(range(256)), b"\xed\xa0\xbf\x80A")[drawn[1] % 4]
        yield bytes(alphabet[each % len(alphabet)] for each in drawn[2 : 2 + size])


def checksum(texts: list[str]) -> int:
    """One number for all texts and their borders."""
    value = 0
    for text in texts:
        units = text.encode("utf-16-be")
        value = zlib.crc32(struct.pack(">H", len(units)) + units, value)
    return value


def java_texts(rows: list[bytes]) -> list[str]:
    """What Java decodes the rows to; needs a JDK."""
    java = shutil.which("java")
    assert java is not None
    asked = b"".join(struct.pack(">H", len(row)) + row for row in rows)
    run = subprocess.run([java, str(_PROGRAM)], input=asked, capture_output=True, check=True)
    texts, at = [], 0
    for _ in rows:
        size = int.from_bytes(run.stdout[at : at + 2], "big")
        texts.append(run.stdout[at + 2 : at + 2 + size].decode("utf-16-be"))
        at += 2 + size
    assert at == len(run.stdout)
    return texts


def recorded() -> dict[str, int]:
    """Checksums of Java's texts by block."""
    found: dict[str, int] = json.loads(RECORDED.read_text())["checksums"]
    return found


def _record() -> None:
    java = shutil.which("java")
    assert java is not None
    about = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    RECORDED.parent.mkdir(exist_ok=True)
    named = list(blocks())
    texts = iter(java_texts([row for _, rows in named for row in rows]))
    checksums = {name: checksum(list(itertools.islice(texts, len(rows)))) for name, rows in named}
    document = {"written_by": about.stderr.splitlines()[0], "checksums": checksums}
    RECORDED.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    _record()
