"""The answers of a broker 5.3.3 to the script; `tests/interop/test_same_answers.py` records them.

Ports have names in their place, as they are other ones in each run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from sameanswers.comparing import Difference, compare, parts_of
from sameanswers.run import Run

_PATH: Final = Path(__file__).resolve().parents[2] / "golden" / "peers" / "answers-5.3.3.json"

Parts = Mapping[str, Mapping[str, object]]
"""Parts of answers by the names of exchanges."""


def parts_in(run: Run) -> Parts:
    """The parts of all answers, as JSON has them."""
    ports = {f"{run.broker[1]}": "BROKER", f"{run.names[1]}": "NAMES"}
    ports |= {f"{int(port):08X}": name for port, name in ports.items()}  # as in message ids
    pattern = re.compile("|".join(ports))

    def plain(value: Any) -> object:
        if isinstance(value, list):
            return [plain(each) for each in value]
        text = value.decode("latin-1") if isinstance(value, bytes) else value
        return pattern.sub(lambda found: ports[found[0]], text) if isinstance(text, str) else text

    return {
        name: {part: plain(value) for part, value in parts_of(exchange).items()}
        for name, exchange in run.exchanges.items()
    }


def differences_from_recorded(found: Parts) -> list[Difference]:
    """What differs from what was recorded, which is the side called theirs."""
    return compare(_read_recorded(), found, dict)


def silent_names() -> frozenset[str]:
    """Names of the exchanges to which no answer came."""
    found = _read_recorded().items()
    return frozenset(name for name, parts in found if parts.get("answer") == "none")


def write_recorded(parts: Parts) -> None:
    """Record the answers of a broker."""
    lines = (f" {json.dumps(name)}: {json.dumps(each)}" for name, each in parts.items())
    _PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _read_recorded() -> Parts:
    recorded: Parts = json.loads(_PATH.read_text(encoding="utf-8"))
    return recorded
