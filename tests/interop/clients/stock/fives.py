"""Released clients for release 5, which speak gRPC, and how the program with each is made.

The programs know the same lines in every language (`FiveProgram`); what a client has no call for,
the tests do not ask it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import mavenparts
from lineprocess import LineProcess, Row

from stock.kinds import Kind, built, executable, released
from stock.program import ProgramFailedError, UnavailableError

_HERE = Path(__file__).resolve().parents[1]
_JAVA = "5.2.0"
PYTHON5 = Path(os.environ.get("REPUT_PYTHON5", Path(sys.prefix) / "python5"))
"""Where the client in Python is, apart from the older one, which has the same name."""


class FiveProgram(LineProcess):
    """A process in which producers and consumers of a client for release 5 run."""

    failed = ProgramFailedError

    def __init__(
        self,
        command: Sequence[str],
        directory: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        own = {"HOME": str(directory), "PYTHONPATH": str(PYTHON5)}
        super().__init__(command, directory, {**own, **(environment or {})})

    def producer(self, *topics: str, name: str = "p", **options: object) -> None:
        """Start a producer. Options: checks, where it commits what the server asks about."""
        self.ask(do="producer", name=name, topics=list(topics), **options)

    def send(self, *messages: Row, name: str = "p") -> list[Row]:
        """Send messages; each answer has an id, and a handle of a delayed one, or an ``error``.

        Args:
            messages: each with topic and body, and where wanted tag, keys, properties,
                message_group, lite_topic, delay_s, and the end of its transaction: commit,
                rollback, nothing.
            name: of the producer.
        """
        sent: list[Row] = self.ask(do="send", name=name, messages=list(messages))["sent"]
        return sent

    def recall(self, topic: str, handle: str, name: str = "p") -> None:
        """Recall a delayed message."""
        self.ask(do="recall", name=name, topic=topic, handle=handle)

    def checked(self, count: int, seconds: float = 60, name: str = "p") -> list[str]:
        """Bodies of half messages that the server has asked about, once these are ``count``."""
        asked = {"do": "checked", "name": name, "count": count, "ms": int(seconds * 1_000)}
        return [row["body"] for row in self.ask(**asked)["checked"]]

    def simple(self, group: str, topic: str, name: str = "s", **options: object) -> None:
        """Start a consumer that asks for messages. Options: expression, sql."""
        self.ask(do="simple", name=name, group=group, topic=topic, **options)

    def receive(
        self, count: int, seconds: float = 60, name: str = "s", *, ack: bool = True, **more: object
    ) -> list[Row]:
        """Receive until there are ``count`` messages or the time is over.

        Args:
            count: of messages.
            seconds: how long.
            name: of the consumer.
            ack: whether each is acknowledged.
            more: ``change_s``, for how long each is made invisible before that.
        """
        asked = {"do": "receive", "name": name, "count": count, "ms": int(seconds * 1_000)}
        taken: list[Row] = self.ask(**asked, ack=ack, invisible_s=15, **more)["taken"]
        return taken

    def listen(self, group: str, topic: str, name: str = "l", **options: object) -> None:
        """Start a push consumer; it refuses bodies of ``fail…``, and of ``once…`` one time.

        Options: expression, sql.
        """
        self.ask(do="listen", name=name, group=group, topic=topic, **options)

    def taken(self, count: int, seconds: float = 60, name: str = "l") -> list[Row]:
        """What a push consumer has got, once that are ``count``; fewer when the time is over."""
        asked = {"do": "taken", "name": name, "count": count, "ms": int(seconds * 1_000)}
        taken: list[Row] = self.ask(**asked)["taken"]
        return taken

    def lite(self, group: str, topic: str, name: str = "l") -> None:
        """Start a push consumer of lite topics of a topic."""
        self.ask(do="lite", name=name, group=group, topic=topic)

    def subscribe(self, *added: str, removed: Sequence[str] = (), name: str = "l") -> None:
        """Have such a consumer subscribe to lite topics, and to others no more."""
        self.ask(do="subscribe", name=name, added=added, removed=removed)

    def taken_lite(self, count: int, seconds: float = 60, name: str = "l") -> list[Row]:
        """What such a consumer has got, once that are ``count``; fewer when the time is over."""
        asked = {"do": "taken_lite", "name": name, "count": count, "ms": int(seconds * 1_000)}
        taken: list[Row] = self.ask(**asked)["taken"]
        return taken

    def begin(self, endpoints: str, **options: object) -> None:
        """Have what starts from now on talk to a server.

        Options: namespace, access_key, secret_key, tls.
        """
        self.ask(do="begin", endpoints=endpoints, **options)

    def stop(self, name: str) -> None:
        """End a producer or a consumer in order."""
        self.ask(do="stop", name=name)


def java(*words: str) -> Sequence[str]:
    """A command line of Java with the released client."""
    try:
        class_path = mavenparts.build(_HERE / "fives" / "java", _JAVA)
        program = mavenparts.executable("java")
    except mavenparts.JavaUnavailableError as error:
        raise UnavailableError(str(error)) from None
    return [program, *mavenparts.SMALL_JVM, "-cp", class_path, *words]


def node_folder() -> Path:
    """A folder with the released client below ``node_modules``, and the program."""
    install = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--silent"]
    return built("fives/node", install, copied=("package.json", "program.js"))


def _java(directory: Path) -> Sequence[str]:
    home = f"-Duser.home={directory}"
    return java(home, f"-Drocketmq.log.root={directory / 'logs'}", "reput.fives.Program")


def _node(directory: Path) -> Sequence[str]:
    return [executable("node"), str(node_folder() / "program.js")]


def _go(directory: Path) -> Sequence[str]:
    return [str(built("fives/go", ["go", "build", "-o", "target/program", "."]) / "program")]


def _rust(directory: Path) -> Sequence[str]:
    build = ["cargo", "build", "--locked", "--quiet", "--target-dir", "target"]
    return [str(built("fives/rust", build) / "debug" / "program")]


def _python(directory: Path) -> Sequence[str]:
    if not (PYTHON5 / "rocketmq").is_dir():
        raise UnavailableError("needs rocketmq-python-client below REPUT_PYTHON5")
    return [sys.executable, str(_HERE / "fives" / "python" / "program.py")]


FIVES = (
    Kind("java5", f"Java {_JAVA}", _java, FiveProgram),
    Kind("python5", "Python 5.1.2", _python, FiveProgram),
    Kind(
        "node5",
        "Node " + released("fives/node/package.json", r'"rocketmq-client-nodejs": "(.+)"'),
        _node,
        FiveProgram,
    ),
    Kind(
        "go5",
        "Go " + released("fives/go/go.mod", r"rocketmq-clients/golang/v5 v(\S+)"),
        _go,
        FiveProgram,
    ),
    Kind(
        "rust5",
        "Rust " + released("fives/rust/Cargo.toml", r'rocketmq = "=(.+)"'),
        _rust,
        FiveProgram,
    ),
)
