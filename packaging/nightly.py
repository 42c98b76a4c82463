"""Run everything, also what takes hours; find the commit that broke a test.

    python packaging/nightly.py                      # all environments of all labels
    python packaging/nightly.py --env soak --env fuzz
    python packaging/nightly.py --good 6f2e6c0a      # the last commit known to pass

A test that fails runs once more. If it passes then, it is reported as a test that fails by chance.
Otherwise `git bisect` finds the first commit that breaks it, in a work tree of its own. For each
failure the one command that repeats it is printed. A run without a failure stores its commit as
`refs/nightly/good`, where the next bisection begins.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
GOOD = "refs/nightly/good"
LABELS = ("test", "ci", "changed", "nightly")
FIRST = 3  # failures of one environment that are looked into; one cause has many of them
# pytest: the arguments name no test, or select none; the test is not there yet.
ABSENT = (4, 5)
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+::.+?)(?: - .*)?$", re.MULTILINE)
_FIRST_BAD = re.compile(r"^([0-9a-f]{40}) is the first bad commit$", re.MULTILINE)


class Failure(NamedTuple):
    """A test that failed, or an environment that failed without one."""

    environment: str
    test: str
    """Its node id; empty if no test failed, for example because an installation failed."""

    verdict: str
    """What running it again and the bisection showed."""


class Nightly(NamedTuple):
    """A repository, and the command that runs one of its environments."""

    root: Path
    runner: list[str]
    """Begins a command; the name of an environment, `--` and tests follow."""

    good: str
    """The commit where a bisection begins; empty if none is known."""

    def run(self, environment: str) -> list[Failure]:
        """Run an environment, and look into what fails."""
        sys.stdout.write(f"{environment}: running\n")
        done = self._call(self.root, environment, [])
        if done.returncode == 0:
            return []
        sys.stdout.write(done.stdout)
        tests = list(dict.fromkeys(_FAILED.findall(done.stdout)))
        return [self._look_into(environment, test) for test in tests[:FIRST] or [""]]

    def command(self, environment: str, test: str) -> str:
        """Return the command that repeats a failure, in the folder of the repository."""
        command = self._command(environment, [test] if test else [])
        return shlex.join(command).replace(f"{self.root}/", "")

    def _look_into(self, environment: str, test: str) -> Failure:
        if self._call(self.root, environment, [test] if test else []).returncode == 0:
            return Failure(environment, test, "fails by chance: it passed when it ran again")
        if not self.good:
            return Failure(environment, test, "no commit is known to pass: name one with --good")
        return Failure(environment, test, self._bisect(environment, test))

    def _bisect(self, environment: str, test: str) -> str:
        again = shlex.join(self._command(environment, [test] if test else []))
        step = f"{again}; code=$?; case $code in "
        step += "".join(f"{code}) exit 125;; " for code in ABSENT) + "esac; exit $code"
        with self._work_tree() as tree:
            git = functools.partial(
                subprocess.run, cwd=tree, capture_output=True, text=True, check=False
            )
            bad = git(["git", "rev-parse", "HEAD"]).stdout.strip()
            if git(["git", "checkout", "--quiet", self.good]).returncode != 0:
                return f"{self.good} is not a commit of this repository"
            code = self._call(tree, environment, [test] if test else []).returncode
            if code != 0 and code not in ABSENT:
                return f"fails at {self.good}, too: name an older commit with --good"
            if code in ABSENT:
                return f"the test is newer than {self.good}, the last commit that passed"
            git(["git", "bisect", "start", bad, self.good])
            done = git(["git", "bisect", "run", "sh", "-c", step])
            first = _FIRST_BAD.search(done.stdout)
            if first is None:
                return f"the bisection found no single commit:\n{done.stdout[-2000:]}"
            about = git(["git", "log", "-1", "--format=%h %s", first[1]])
            return f"broken by {about.stdout.strip()}"

    @contextlib.contextmanager
    def _work_tree(self) -> Iterator[Path]:
        """Make a work tree of the commit that is tested, and remove it."""
        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder) / "tree"
            add = ["git", "worktree", "add", "--quiet", "--detach", str(tree), "HEAD"]
            subprocess.run(add, cwd=self.root, check=True)
            try:
                yield tree
            finally:
                remove = ["git", "worktree", "remove", "--force", str(tree)]
                subprocess.run(remove, cwd=self.root, check=True)

    def _command(self, environment: str, tests: list[str]) -> list[str]:
        return [*self.runner, environment, *(["--", *tests] if tests else [])]

    def _call(
        self, folder: Path, environment: str, tests: list[str]
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._command(environment, tests),
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )


def environments(runner: Path) -> list[str]:
    """Return the names of the environments of all labels, in the order of tox."""
    listed = [str(runner), "list", "--no-desc", "-m", *LABELS]
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if line and not line.endswith(":")]


def last_good(root: Path) -> str:
    """Return the commit of the last run without a failure, or of a day ago; empty if unknown."""
    for asked in (
        ["rev-parse", "--verify", GOOD],
        ["rev-list", "-1", "--before=1 day ago", "HEAD"],
    ):
        done = subprocess.run(
            ["git", *asked], cwd=root, capture_output=True, text=True, check=False
        )
        if done.returncode == 0 and done.stdout.strip():
            return done.stdout.strip()
    return ""


def report(nightly: Nightly, failures: list[Failure], count: int) -> int:
    """Print what failed, and return the exit code."""
    for failure in failures:
        sys.stdout.write(
            f"\n{failure.environment}: {failure.test or 'the environment failed'}\n"
            f"  {failure.verdict}\n"
            f"  repeat: {nightly.command(failure.environment, failure.test)}\n"
        )
    sys.stdout.write(f"\n{count} environments, {len(failures)} failures\n")
    return 1 if failures or not count else 0


def main(arguments: list[str]) -> int:
    """Run the environments, one after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--env", action="append", default=[], help="an environment; all if left out"
    )
    parser.add_argument("--good", default="", help="the last commit known to pass")
    asked = parser.parse_args(arguments)
    tox = ROOT / ".venv" / "bin" / "tox"
    nightly = Nightly(ROOT, [str(tox), "run", "-e"], asked.good or last_good(ROOT))
    names = asked.env or environments(tox)
    failures = [failure for name in names for failure in nightly.run(name)]
    code = report(nightly, failures, len(names))
    if code == 0 and not asked.env:
        subprocess.run(["git", "update-ref", GOOD, "HEAD"], cwd=ROOT, check=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
