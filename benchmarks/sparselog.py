"""A log of any size that takes next to no disk: each file has some messages and then a hole."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PER_FILE: Final = 1_000
"""Messages of each file, all of topic ``grown``, queue 0."""
_FILE_SIZE: Final = 1 << 30
_START: Final = 1_700_000_000_000


def write_sparse_log(root: Path, file_count: int) -> None:
    """Write ``root``, a store that has a log of so many files of 1 GiB and nothing else."""
    from reput.files import file_name
    from reput.record import Encoder, Message
    from reput.record.layout import BLANK_MAGIC, SIZE_AND_MAGIC

    encoder, number = Encoder(), 0
    directory = root / "commitlog"
    directory.mkdir(parents=True)
    for base in range(0, file_count * _FILE_SIZE, _FILE_SIZE):
        data = bytearray()
        for _ in range(PER_FILE):
            message = Message("grown", b"x" * 100, 0)
            data += encoder.encode(message, number, base + len(data), _START + number)
            number += 1
        if base + _FILE_SIZE < file_count * _FILE_SIZE:
            data += SIZE_AND_MAGIC.pack(_FILE_SIZE - len(data), BLANK_MAGIC)
        with (directory / file_name(base)).open("wb") as file:
            file.write(data)
            file.truncate(_FILE_SIZE)
