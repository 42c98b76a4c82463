"""Which clients there are, and how the program with each is made."""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mavenparts
from lineprocess import LineProcess

from stock.program import Program, UnavailableError

_HERE = Path(__file__).resolve().parents[1]
_BUILD_SECONDS = 900


@dataclass(frozen=True)
class Kind:
    """One stock client of one release."""

    name: str
    """As `scenario` markers name it: ``java-4.9.8``."""
    title: str
    """As the page names its column."""
    command: Callable[[Path], Sequence[str]]
    """Returns what starts the program with its home in a directory; builds it before."""

    program: type[LineProcess] = Program
    """What the process is to the tests."""

    def start(self, directory: Path) -> Any:
        """Build the program unless that was done before, and start it.

        Raises:
            UnavailableError: a toolchain or a package is missing.
        """
        return self.program(self.command(directory), directory)


def _java(version: str) -> Kind:
    def command(directory: Path) -> Sequence[str]:
        try:
            class_path = mavenparts.build(_HERE / "java", version)
        except mavenparts.JavaUnavailableError as error:
            raise UnavailableError(str(error)) from None
        # The admin tool of 4.9 ends its process where it does not find this.
        (directory / "conf").mkdir(parents=True, exist_ok=True)
        (directory / "conf" / "logback_tools.xml").write_text("<configuration/>", encoding="ascii")
        return [
            mavenparts.executable("java"),
            *mavenparts.SMALL_JVM,
            *mavenparts.OPENED,
            f"-Duser.home={directory}",
            f"-Djava.io.tmpdir={directory}",
            f"-Drocketmq.home.dir={directory}",
            "-Drocketmq.client.logUseSlf4j=true",
            "-cp",
            class_path,
            "reput.clients.Program",
        ]

    return Kind(f"java-{version}", f"Java {version}", command)


def _go(directory: Path) -> Sequence[str]:
    return [str(built("go", ["go", "build", "-o", "target/program", "."]) / "program")]


def _node(directory: Path) -> Sequence[str]:
    install = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--silent"]
    target = built("node", install, copied=("package.json", "program.js"))
    return [executable("node"), str(target / "program.js")]


def released(file: str, pattern: str) -> str:
    found = re.search(pattern, (_HERE / file).read_text(encoding="utf-8"))
    assert found is not None
    return found[1]


CLIENTS = (
    _java("4.9.8"),
    _java("5.3.3"),
    Kind("go", "Go " + released("go/go.mod", r"client-go/v2 v(\S+)"), _go),
    Kind("node", "Node " + released("node/package.json", r'"ali-ons": "(.+)"'), _node),
)


# ---------------------------------------------------------------------- building


def built(language: str, command: Sequence[str], copied: Sequence[str] = ()) -> Path:
    """Return where a program is, built from its folder unless that was done before.

    Args:
        language: its folder.
        command: builds it, into ``target`` of that folder.
        copied: names of files that are put into ``target`` first; the command runs there then.
    """
    project = _HERE / language
    target = project / "target"
    tool = executable(command[0])
    if command[0] == "npm":
        executable("node")
    found = [*project.iterdir(), *project.glob("src/*")]
    sources = sorted(path for path in found if path.is_file())
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    target.mkdir(exist_ok=True)
    with _locked(target / "lock"):
        fingerprint = target / "fingerprint"
        if not fingerprint.exists() or fingerprint.read_text(encoding="ascii") != digest:
            for name in copied:
                shutil.copy(project / name, target / name)
            _run([tool, *command[1:]], target if copied else project)
            fingerprint.write_text(digest, encoding="ascii")
    return target


def _run(command: Sequence[str], directory: Path) -> None:
    done = subprocess.run(
        command,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=_BUILD_SECONDS,
        check=False,
    )
    if done.returncode:
        # It does not compile.
        assert "# reput.clients" not in done.stderr, done.stderr
        assert "could not compile `program`" not in done.stderr, done.stderr
        said = (done.stderr or done.stdout).strip().splitlines() or ["it does not say why"]
        tool = Path(command[0]).name
        raise UnavailableError(f"{tool} cannot build the program here: {said[-1][:300]}")


def executable(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise UnavailableError(f"this client needs {name!r}, which is not here")
    return found


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One builder at a time: tests may run in several processes."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
