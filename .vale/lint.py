"""Check the prose of pages, docstrings, comments and messages with Vale, by `.vale/Reput`.

Without Go it does nothing.

Vale is a Go program. It is built once, from its module, and kept in the cache of the user.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from texts import write_texts

ROOT = Path(__file__).resolve().parents[1]
VALE = "github.com/errata-ai/vale/v3/cmd/vale@v3.15.2"
PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs", "native/README.md"]
PAGES += ["extras", "plugins", "examples"]
SOURCES = ["benchmarks", "core", "examples", "extras", "plugins"]
EXAMPLES = ROOT / ".vale" / "examples.md"


def main() -> int:
    """Return 0 if no rule finds a sentence, or if there is no Go."""
    go = shutil.which("go")
    if go is None:
        sys.stderr.write("prose: not checked, because go is not installed\n")
        return 0
    vale = installed(go)
    unseen = rules() - found(vale)
    if unseen:
        sys.stderr.write(f"prose: {sorted(unseen)} do not find their lines in {EXAMPLES}\n")
        return 1
    checks = [["--glob=*.md", *PAGES], ["--glob=*.py", *SOURCES]]
    runs = [subprocess.run([vale, *each], cwd=ROOT, check=False) for each in checks]
    return max(max(run.returncode for run in runs), check_texts(vale))


def check_texts(vale: str) -> int:
    """Check the texts in strings: messages, errors, help. Return 0 if no rule finds a sentence."""
    with tempfile.TemporaryDirectory() as folder:
        sources = [path for each in SOURCES for path in Path(each).rglob("*.py")]
        product = [path for path in sources if "tests" not in path.parts]
        count = write_texts(sorted(product), Path(folder))
        command = [vale, f"--config={ROOT / '.vale.ini'}", "--output=line", "."]
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    sys.stdout.write(result.stdout.replace(".py.md:", ".py:"))
    sys.stderr.write(result.stderr)
    sys.stdout.write(f"{count} texts in strings\n")
    return result.returncode or (0 if count else 1)


def installed(go: str) -> str:
    """Build Vale if this version is not in the cache yet; return its path."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "reput" / VALE.rpartition("@")[2]
    if not (folder / "vale").exists():
        environment = {**os.environ, "GOBIN": str(folder), "GOFLAGS": "-buildvcs=false"}
        subprocess.run([go, "install", VALE], cwd=ROOT, env=environment, check=True)
    return str(folder / "vale")


def rules() -> set[str]:
    """Names of all rules."""
    return {path.stem for path in (ROOT / ".vale" / "Reput").glob("*.yml")}


def found(vale: str) -> set[str]:
    """Names of the rules that find the line of their name in the examples."""
    command = [vale, "--output=JSON", str(EXAMPLES)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = EXAMPLES.read_text("utf-8").splitlines()
    alerts = [alert for each in json.loads(result.stdout).values() for alert in each]
    names = [(alert["Check"].rpartition(".")[2], lines[alert["Line"] - 1]) for alert in alerts]
    return {name for name, line in names if line.startswith(f"- {name}:")}


if __name__ == "__main__":
    sys.exit(main())
