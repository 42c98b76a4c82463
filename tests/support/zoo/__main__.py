"""Makes the sick stores of the zoo: ``PYTHONPATH=tests/support python -m zoo DIRECTORY``.

Each store is a directory below DIRECTORY, named as its case; beside it ``NAME.json`` says from
which healthy store it is made and which messages it harms. ``--list`` prints the names alone.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from zoo.cases import cases
from zoo.stores import put_down


def main() -> None:
    """Make the stores that are asked for."""
    parser = argparse.ArgumentParser(prog="zoo", description="Make stores that are damaged.")
    parser.add_argument("directory", nargs="?", type=Path, help="where the stores are made")
    parser.add_argument("--only", default="", help="cases whose name has this text in it")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    asked = parser.parse_args()
    if asked.directory is None and not asked.list:
        parser.error("name a directory, or give --list")
    for case in cases():
        if asked.only not in case.name:
            continue
        if asked.list:
            print(case.name)  # noqa: T201 - what a script is for
            continue
        sick, place = case.make(), asked.directory / case.name
        put_down(sick.files, place)
        facts = {
            "made_from": case.store,
            "harmed": sorted(sick.harmed),
            "not_covered_by_checksums": sorted(sick.altered),
            "is_seen": sick.is_seen,
        }
        place.with_name(f"{place.name}.json").write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
