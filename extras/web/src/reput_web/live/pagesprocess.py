"""`PagesProcess`: the pages of a store that this process serves, in a process of their own.

Reading pages, searches and queries take a processor; in the process that serves the store they
would delay its clients. So another process opens the store for reading and shows it. It asks this
one, over a socket pair, for figures and for changes; this one answers on threads of its own.
"""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from reput.errors import ReputError
from reput_web.actions.performing import ACTIONS, StorePerformer
from reput_web.errors import NotThereError
from reput_web.live.channel import answer_all
from reput_web.server.serving import (
    address_of,
    check_certificate,
    hosts_of,
    is_any,
    is_loopback,
    read_password,
)

if TYPE_CHECKING:
    from reput import Store
    from reput_web.actions.action import MoveGroup

logger = logging.getLogger(__name__)

_START_S: Final = 60.0
_STOP_S: Final = 10.0
_AGAIN_S: Final = 1.0


class PagesSource(Protocol):
    """The part of this process that serves or follows the store."""

    @property
    def store(self) -> Store:
        """The store; open for writing if there are actions."""
        ...

    @property
    def actions(self) -> tuple[str, ...] | None:
        """Names of the actions that it can take; None for all."""
        ...

    @property
    def move_group(self) -> MoveGroup | None:
        """How groups are moved; None for the way of the plugin."""
        ...

    @property
    def figures(self) -> Callable[[], Mapping[str, Any]]:
        """Returns plain values; see `reput_web.readmodel.livesource.LiveSource`."""
        ...


class StartError(ReputError):
    """The pages cannot be served."""


@attrs.define(eq=False)
class PagesProcess:
    """Serves pages from `start` to `stop`, and starts the process again if it ends by itself."""

    source: PagesSource
    listening: socket.socket
    """Where browsers connect; it is closed at the stop."""
    url: str
    """Address of the first page."""
    settings: Mapping[str, Any]
    """``options``, of `reput_web.WebOptions`; ``tls_cert`` and ``tls_key``, paths or None."""
    _performer: StorePerformer | None = attrs.field(init=False, default=None)
    _process: subprocess.Popen[bytes] | None = attrs.field(init=False, default=None)
    _turn: threading.Lock = attrs.field(init=False, factory=threading.Lock)
    """Held while a process is started, and while the stop decides which one is the last."""
    _stopped: threading.Event = attrs.field(init=False, factory=threading.Event)
    _ready: threading.Event = attrs.field(init=False, factory=threading.Event)
    _thread: threading.Thread | None = attrs.field(init=False, default=None)
    _error: str = attrs.field(init=False, default="")

    @classmethod
    def of(cls, source: PagesSource, given: Mapping[str, Any]) -> PagesProcess:
        """Return pages that listen already.

        Args:
            source: the part of this process that serves or follows the store.
            given: ``address``, a host and a port; ``can_write``, ``password_file``, ``names``,
                ``tls_cert``, ``tls_key`` and ``follow_links``.

        Raises:
            OSError: the address cannot be listened on, or a file cannot be read.
            ValueError: other machines reach the address, and no password is given; or a file is
                without a password, or without a certificate.
        """
        host, port = given["address"]
        password = None
        if given["password_file"] is not None:
            password = read_password(given["password_file"])
        if password is None and not is_loopback(host):
            raise ValueError(f"other machines reach {host}, so a file with a password is needed")
        if given["tls_cert"] is not None:
            check_certificate(given["tls_cert"], given["tls_key"])
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            listening = socket.create_server((host, port), family=family)
        except OSError as error:
            text = f"{host}:{port} cannot be listened on: {error.strerror or error}"
            raise OSError(error.errno, text) from None
        options = {
            "hosts": sorted(hosts_of(host, tuple(given["names"]))),
            "any_address": is_any(host),
            "password": password,
            "can_write": given["can_write"],
            "follow_links": given["follow_links"],
        }
        tls = {name: given[name] for name in ("tls_cert", "tls_key")}
        number = listening.getsockname()[1]
        url = address_of(host, number, is_encrypted=tls["tls_cert"] is not None)
        return cls(source, listening, url, {"options": options, **tls})

    def start(self) -> None:
        """Serve; returns when browsers get answers.

        Raises:
            StartError: the process does not begin, has ended at once, or gives no answers in time.
        """
        options = self.settings["options"]
        if options.get("can_write"):
            names = self.source.actions
            self._performer = StorePerformer(
                self.source.store,
                bool(options.get("follow_links")),
                self.source.move_group,
                tuple(ACTIONS) if names is None else names,
            )
        self._thread = threading.Thread(target=self._run, name="reput-web", daemon=True)
        self._thread.start()
        error = f"the process of the pages is not ready after {_START_S:g} s"
        if self._ready.wait(_START_S):
            error = self._error
        if error:
            self.stop()
            raise StartError(error)

    def stop(self) -> None:
        """End the process, after the answers under way."""
        with self._turn:
            self._stopped.set()
            process, thread = self._process, self._thread
        if process is not None and process.stdin is not None:
            process.stdin.close()  # which ends it
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
        if thread is not None:
            thread.join(_STOP_S)
        self.listening.close()

    def _run(self) -> None:
        while not self._stopped.is_set():
            reason = "the process of the pages ended at its start; its output says why"
            try:
                self._serve_once()
            except (OSError, RuntimeError) as error:  # no memory, files or threads are left
                reason = f"the process of the pages cannot be started: {error}"
                logger.warning("pages cannot be served error=%s", error)
            if not self._ready.is_set():
                self._error = reason
                self._ready.set()
                return
            if self._stopped.is_set():
                return
            logger.warning("pages ended and are started again")
            self._stopped.wait(_AGAIN_S)

    def _serve_once(self) -> None:
        own, other = socket.socketpair()
        with own, other:
            # -P: without the working directory, where modules could be of others.
            command = [sys.executable, "-P", "-m", "reput_web.live.pagesserver"]
            command += [str(other.fileno()), str(self.listening.fileno())]
            with self._turn:
                if self._stopped.is_set():
                    return
                process = self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    pass_fds=(other.fileno(), self.listening.fileno()),
                    # Ctrl-C is for the process that serves; it ends this one.
                    start_new_session=True,
                )
            connection = Connection(own.detach())
        assert process.stdin is not None
        try:
            with connection:
                names = () if self._performer is None else self._performer.names
                first = {**self.settings, "root": self.source.store.root, "actions": names}
                connection.send_bytes(json.dumps(first).encode())
                answer_all(connection, self._answer)
        finally:
            process.stdin.close()
            process.wait()

    def _answer(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        kind = question.get("ask")
        if kind == "ready":
            self._ready.set()
            return {}
        if kind == "figures":
            return {"figures": self.source.figures()}
        if kind == "act" and self._performer is not None:
            name = question["action"]
            if name not in self._performer.names:
                raise NotThereError("This server offers no such action.")
            action = ACTIONS[name].of(question["values"], question["offsets"])
            return {"done": self._performer.perform(action, question["actor"])}
        raise NotThereError("The process that serves the store does not answer this.")
