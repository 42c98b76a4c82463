"""Results that are kept: ``--save NAME`` writes ``benchmarks/results/NAME.json``."""

from __future__ import annotations

import datetime as dt
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "results"
_DIGITS = 4
_FACTS = ("python", "system", "machine", "cores", "memory", "file_system", "versions")


def name_of(text: str) -> str:
    """Return ``text`` if it can be the name of a result.

    Raises:
        ValueError: it has other characters than small letters, digits and dashes.
    """
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", text):
        raise ValueError(text)
    return text


def result_of(
    name: str, arguments: Sequence[str], content: Mapping[str, Any], today: dt.date
) -> dict[str, Any]:
    """Return what is kept of a run: the rows, and what they depend on.

    Args:
        name: of the result.
        arguments: those of the command line that repeat the run.
        content: what ``--json`` writes. Its rounds are left out.
        today: the day of the run.
    """
    rounds = content["rounds"]
    return {
        "name": name,
        "date": today.isoformat(),
        "command": shlex.join(["python", "-m", "benchmarks", *arguments]),
        **{fact: content["machine"][fact] for fact in _FACTS},
        "engines": list(dict.fromkeys(one["ran_with"] for one in rounds if one["ran_with"])),
        "load": content["load"],
        "options": content["options"],
        "rows": [_known(row) for row in content["rows"]],
        "skipped": _reasons(rounds, "skipped"),
        "failed": _reasons(rounds, "failed"),
    }


def save(result: Mapping[str, Any]) -> Path:
    """Write ``result`` to the file of its name, in the place of an older one; return its path."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{result['name']}.json"
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def load() -> dict[str, dict[str, Any]]:
    """Return all kept results by their names; a file of one result wins over a collection."""
    found: dict[str, dict[str, Any]] = {}
    single: dict[str, dict[str, Any]] = {}
    for path in sorted(FOLDER.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        if "results" in content:
            found |= {one["name"]: one for one in content["results"]}
        else:
            single[content["name"]] = content
    return found | single


def _known(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row without what was not measured, numbers with their leading digits."""
    return {key: _short(value) for key, value in row.items() if value not in (None, {}, "")}


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, Mapping):
        return _known(value)
    if isinstance(value, list):
        return [_short(each) for each in value]
    return value


def _reasons(rounds: Sequence[Mapping[str, Any]], word: str) -> dict[str, str]:
    """Return why cases were skipped, or failed, by their names."""
    return {one.get("case") or one["job"]: one[word] for one in rounds if one[word]}
