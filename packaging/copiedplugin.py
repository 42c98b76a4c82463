"""Show that a plugin is one folder: copy one under another name, and change nothing else.

    python packaging/copiedplugin.py retention keeper

In a clone of the repository, the folder `plugins/retention` is copied to `plugins/keeper`, with the
name in its texts. Then the environments of the copy, of `lint` and of `types` have to pass, and
git has to see the new folder and no other change.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def copy(clone: Path, name: str, new: str) -> None:
    """Copy the folder of a plugin, and give the copy another name in paths and texts."""
    source, target = clone / "plugins" / name, clone / "plugins" / new
    shutil.copytree(source, target)
    for path in sorted(target.rglob("*"), reverse=True):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            text = re.sub(rf"\b(reput[_-])?{name}\b", rf"\g<1>{new}", text)
            path.write_text(text, encoding="utf-8")
        if name in path.name:
            path.rename(path.with_name(path.name.replace(name, new)))


def main(name: str, new: str) -> int:
    """Copy it in a clone, run its environments, and compare what git sees."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        copy(clone, name, new)
        # Imports are sorted by name, and the name is another one.
        ruff = ["ruff", "check", "--quiet", "--select", "I,RUF022", "--fix", f"plugins/{new}"]
        subprocess.run(ruff, cwd=clone, check=True)
        subprocess.run(["ruff", "format", "--quiet", f"plugins/{new}"], cwd=clone, check=True)
        tox = [sys.executable, "-m", "tox", "run", "--quiet", "-e", f"{new},lint,types"]
        done = subprocess.run(tox, cwd=clone, check=False)
        status = ["git", "status", "--porcelain"]
        seen = subprocess.run(status, cwd=clone, capture_output=True, text=True, check=True).stdout
    if seen != f"?? plugins/{new}/\n":
        sys.stderr.write(f"more than the folder plugins/{new} has changed:\n{seen}")
        return 1
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
