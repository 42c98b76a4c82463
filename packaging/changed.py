"""Environments of the label `changed` whose sources have changed, by the commits of the last day.

    python packaging/changed.py            # their names, separated by commas
    python packaging/changed.py --explain  # each environment, and the first file that asks for it

Spark, Rust, the site and the browser take long, and few commits change what they read.
The last day is the one before the commit that is tested, so that a rerun decides the same. If git
cannot tell what changed (no repository, a shallow clone, a commit without parents), all of them are
named.
"""

from __future__ import annotations

import ast
import fnmatch
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DAY = 24 * 60 * 60
# What builds and runs every environment.
MATRIX = ("tox.ini", "toxfile.py", "constraints.txt", "pyproject.toml", "packaging/changed.py")
# What Spark runs on its workers: records are decoded, derived files are built, Arrow is made.
DECODERS = (
    "core/src/reput/files/*",
    "core/src/reput/log/*",
    "core/src/reput/plugin/*",
    "core/src/reput/record/*",
    "extras/arrow/src/*",
    "extras/spark/*",
    "extras/tools/src/reput_tools/offline/*",
    "plugins/*/offline/*",
    "plugins/*/job/*",
    "tests/spark/*",
)


def imported_by(folder: str) -> tuple[str, ...]:
    """Return patterns of the modules of extras and plugins that the sources in a folder import."""
    packages = {
        path.name: path for part in ("extras", "plugins") for path in ROOT.glob(f"{part}/*/src/*")
    }
    names: set[str] = set()
    for source in ROOT.joinpath(folder).rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module)
            elif isinstance(node, ast.Import):
                names.update(each.name for each in node.names)
    found: list[str] = []
    for name in sorted(names):
        first, *rest = name.split(".")
        if first in packages and packages[first].parent != ROOT / folder:
            path = packages[first].joinpath(*rest).relative_to(ROOT).as_posix()
            found += [f"{path}.py", f"{path}/*"]
    return tuple(found)


DEPENDS_ON: dict[str, tuple[str, ...]] = {
    "spark": DECODERS,
    "spark-short-native": (*DECODERS, "native/*"),
    "rust": ("native/*",),
    "browser": (
        "extras/web/*",
        *imported_by("extras/web/src"),
        "extras/server/src/reput_server/webpages/*",
        "tests/web/*",
        "tests/support/browsing.py",
        "tests/support/webpages.py",
    ),
    # Pages are completed by lists that are computed: of commands, options, columns, differences.
    "site": (
        "*.md",
        "docs/*",
        "*/src/*/__init__.py",
        "*/src/*/command/*",
        "*/src/*/command.py",
        "*/src/*/config.py",
        "core/src/reput/plugin/*",
        *imported_by("docs/site"),
        "tests/interop/clients/*",
        "tests/support/same*/allowed.py",
    ),
}


def changed_files() -> list[str] | None:
    """Return the files that the commits of the last day changed; None if git cannot tell."""
    try:
        if _git("rev-parse", "--is-shallow-repository") != "false":
            return None
        begin = int(_git("log", "-1", "--format=%ct")) - DAY
        before = _git("rev-list", "-1", f"--before={begin}", "HEAD")
        if not before:
            return None
        return _git("diff", "--name-only", before, "HEAD").splitlines()
    except (OSError, subprocess.CalledProcessError):
        return None


def reasons(files: list[str] | None) -> dict[str, str]:
    """Return the environments to run, each with a file that asks for it."""
    if files is None:
        return dict.fromkeys(DEPENDS_ON, "git cannot tell what changed")
    found = {}
    for name, patterns in DEPENDS_ON.items():
        asks = (*patterns, *MATRIX)
        for path in files:
            if any(fnmatch.fnmatch(path, pattern) for pattern in asks):
                found[name] = path
                break
    return found


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main(arguments: list[str]) -> int:
    """Print them."""
    found = reasons(changed_files())
    if arguments == ["--explain"]:
        for name in DEPENDS_ON:
            sys.stdout.write(f"{name}: {found.get(name, 'nothing it reads has changed')}\n")
    else:
        sys.stdout.write(",".join(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
