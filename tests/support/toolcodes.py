"""The request codes that a release of RocketMQ's client, and so its admin tool, can send."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Final

import mavenparts

RELEASES: Final = ("4.7.1", "4.9.8", "5.5.0")
_SENDER: Final = "org.apache.rocketmq.client.impl.MQClientAPIImpl"
_PATH: Final = Path(__file__).resolve().parents[1] / "golden" / "peers" / "tool-codes.json"
_CONSTANT: Final = re.compile(r"\b[sb]ipush +([0-9]+)")
_NEAR: Final = 4  # instructions between the constant and the call


def recorded_codes() -> dict[str, list[int]]:
    """The codes of each release, as they were recorded."""
    found: dict[str, list[int]] = json.loads(_PATH.read_text(encoding="ascii"))
    return found


def codes_of(class_path: str) -> list[int]:
    """The codes in a release's classes: constants in front of calls that make a request.

    Raises:
        mavenparts.JavaUnavailableError: the disassembler is not installed.
    """
    command = [mavenparts.executable("javap"), "-p", "-c", "-cp", class_path, _SENDER]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found = set()
    for at, line in enumerate(lines):
        if "createRequestCommand" in line:
            near = "\n".join(lines[max(at - _NEAR, 0) : at])
            found |= {int(number) for number in _CONSTANT.findall(near)}
    return sorted(found)


def write_recorded(found: dict[str, list[int]]) -> None:
    """Record the codes of each release."""
    rows = [f' "{release}": {json.dumps(codes)}' for release, codes in found.items()]
    _PATH.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="ascii")
