"""The pages about compacted topics say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def test_every_module_stands_in_the_readme():
    folder = ROOT / "plugins/compaction/src/reput_compaction"
    table = text_of("plugins/compaction/README.md").split("| Module | Is about |")[1]
    named = set(re.findall(r"`([\w/]+\.py)`", table.split("\n\n")[0]))

    paths = [path for path in folder.rglob("*.py") if path.name != "__init__.py"]
    modules = {path.relative_to(folder).as_posix() for path in paths}

    assert modules - named <= {"filepairs/queuenames.py", "command.py"}
    assert named <= modules
