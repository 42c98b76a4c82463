"""Check the types of the first snippet of each page: users copy it into typed code.

python packaging/typesnippets.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests" / "support"))

from pages import blocks_of, pages  # noqa: E402

# They have environments of their own; pages in another language have their sisters' snippets.
LEFT_OUT = ("examples/", "docs/zh/", "docs/spark", "extras/spark/", "docs/clients-5.md")
# What they ask for may be None in a program that was configured in another way.
UNCHECKED = ("docs/serve", "docs/testing-with-a-broker.md")


def first_snippets() -> dict[str, str]:
    """Return the first block of Python of each page, by a name for its module."""
    found = {}
    for page in pages():
        blocks = [block for block in blocks_of(page) if block.kind == "python"]
        # A block that is part of a file which the page names cannot be read alone.
        is_left_out = page.startswith(LEFT_OUT + UNCHECKED)
        if not blocks or is_left_out or (ROOT / (blocks[0].name or "?")).is_file():
            continue
        name = page.removesuffix(".md").replace("/", "_").replace("-", "_").replace(".", "_")
        found[f"{name}.py"] = blocks[0].text
    return found


def main() -> int:
    """Write the snippets, and let mypy read them."""
    snippets = first_snippets()
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "snippets"  # pyproject.toml has settings for it
        package.mkdir()
        for name, text in {"__init__.py": "", **snippets}.items():
            (package / name).write_text(text, encoding="utf-8")
        # The cache of the sources, which mypy has just checked.
        options = ["--config-file", ROOT / "pyproject.toml", "--cache-dir", ROOT / ".mypy_cache"]
        command = [sys.executable, "-m", "mypy", *options, "--package", "snippets"]
        sources = [*ROOT.glob("core/src"), *ROOT.glob("extras/*/src"), *ROOT.glob("plugins/*/src")]
        environment = {**os.environ, "MYPYPATH": os.pathsep.join(map(str, sources))}
        # In the folder, so that the names of files are those of pages.
        return subprocess.run(command, cwd=folder, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
