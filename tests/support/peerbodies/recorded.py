"""The recorded table of a broker and a name server of RocketMQ 5.3.3."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from peerbodies.asking import Answers

_PATH: Final = Path(__file__).resolve().parents[2] / "golden" / "peers" / "bodies-5.3.3.json"


def read_recorded() -> dict[str, Answers]:
    """The table as it was recorded."""
    found: dict[str, dict[str, list[str]]] = json.loads(_PATH.read_text(encoding="utf-8"))
    return {
        member: {value: json.loads(answer) for answer in rows for value in rows[answer]}
        for member, rows in found.items()
    }


def write_recorded(found: dict[str, Answers]) -> None:
    """Record a table: for each member, the answers and the values that got them."""
    tables: dict[str, dict[str, list[str]]] = {}
    for member, answers in found.items():
        rows = tables[member] = {}
        for value, answer in answers.items():
            rows.setdefault(json.dumps(answer, sort_keys=True), []).append(value)
    lines = []
    for member, rows in tables.items():
        texts = ",\n".join(f"  {json.dumps(row)}: {json.dumps(of)}" for row, of in rows.items())
        lines.append(f" {json.dumps(member)}: {{\n{texts}\n }}")
    _PATH.parent.mkdir(parents=True, exist_ok=True)
    _PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
