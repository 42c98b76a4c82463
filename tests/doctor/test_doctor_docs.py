"""The doctor's page names every field and every kind of finding."""

from __future__ import annotations

import re
from pathlib import Path

from reput.record import CorruptionKind
from reput_tools.doctor.comparison.records import FIELDS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "doctor.md"


def test_fields_that_the_page_names_exist() -> None:
    text = PAGE.read_text(encoding="utf-8")

    for name in re.findall(r"--ignore (\w+)", text):
        assert name in FIELDS


def test_the_page_lists_every_kind_of_finding_of_a_verification() -> None:
    sources = ROOT / "extras" / "tools" / "src" / "reput_tools" / "doctor" / "verification"
    parts = "log|checkpoint|config|reput|store"
    written = "\n".join(path.read_text(encoding="utf-8") for path in sources.glob("*.py"))
    kinds = set(re.findall(rf'"((?:{parts})\.[a-z]+(?:-[a-z]+)*)"', written))
    kinds |= {f"log.{each.name.lower().replace('_', '-')}" for each in CorruptionKind}
    odd = (sources / "plausibility.py").read_text(encoding="utf-8")
    kinds |= {f"log.{name}" for name in re.findall(r'row, "([a-z-]+)",', odd)}
    counted_only = {"log.odd-records", "log.queue-order"}
    section = PAGE.read_text(encoding="utf-8").split("### Kinds of findings", 1)[1]

    listed = set(re.findall(rf"`((?:{parts})\.[a-z-]+)`", section.split("\n## ", 1)[0]))

    assert listed == kinds - counted_only
