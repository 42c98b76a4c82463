"""Puts messages until it is killed: ``killed_writer.py STORE CASE COUNT``.

A line of JSON for each message that was acknowledged: what every store must say of it from then on.
After the last one it waits, the store open.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from samples import CASES, expected


def main(path: str, name: str, count: str) -> None:
    """Write until killed."""
    case = CASES[name]
    store = case.open(Path(path))
    for message, receipt in case.write(store, int(count)):
        row = expected(case, message, receipt)
        line = json.dumps({**row, "body": message.body.hex()})
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main(*sys.argv[1:])
