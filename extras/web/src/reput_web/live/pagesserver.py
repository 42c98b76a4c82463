"""The process that serves the pages of a store which another process serves or follows.

    python -m reput_web.live.pagesserver CHANNEL LISTENING < pipe

It ends when its standard input ends: whatever becomes of its parent, it does not outlive it.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Final

import attrs
import uvicorn

from reput_web.actions.action import ActionError
from reput_web.live.channel import AnswerError, Asker, ChannelClosedError
from reput_web.server.application import application
from reput_web.server.options import WebOptions
from reput_web.server.serving import config_of

if TYPE_CHECKING:
    from reput_web.actions.action import Action

_FIGURES_S: Final = 5.0
_ACTION_S: Final = 120.0


@attrs.define(eq=False)
class RemoteStore:
    """The process that has the store open: its figures, and what changes the store."""

    asker: Asker
    names: tuple[str, ...] = ()

    def figures(self) -> Mapping[str, Any] | None:
        """See `reput_web.readmodel.livesource.LiveSource.figures`."""
        try:
            found = self.asker.ask({"ask": "figures"}, _FIGURES_S)["figures"]
        except (AnswerError, ChannelClosedError):
            return None
        return found if isinstance(found, dict) else None

    def perform(self, action: Action, actor: str) -> str:
        """See `reput_web.actions.performing.Performer.perform`."""
        question = {
            "ask": "act",
            "action": action.name,
            "values": dict(action.values),
            "offsets": dict(action.offsets),
            "actor": actor,
        }
        try:
            return str(self.asker.ask(question, _ACTION_S)["done"])
        except AnswerError as error:
            raise ActionError(str(error.args[0])) from error
        except ChannelClosedError as error:
            text = (
                f"It is not known whether this was done: {error.args[0]}. See the log of actions."
            )
            raise ActionError(text) from error


class _AnnouncedServer(uvicorn.Server):
    """Says when browsers get answers."""

    asker: Asker

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.asker.send({"ask": "ready"})


def _main() -> None:
    connection = Connection(int(sys.argv[1]))
    listening = socket.socket(fileno=int(sys.argv[2]))
    settings = json.loads(connection.recv_bytes())
    given = settings["options"]
    options = WebOptions(**{**given, "hosts": frozenset(given["hosts"])})
    asker = Asker(connection)
    remote = RemoteStore(asker, tuple(settings["actions"]))
    app = application(
        settings["root"], options, live=remote, performer=remote if remote.names else None
    )
    server = _AnnouncedServer(
        config_of(app, options, settings.get("tls_cert"), settings.get("tls_key"))
    )
    server.asker = asker
    threading.Thread(target=asker.read, daemon=True).start()
    threading.Thread(target=_end_with_parent, args=(server,), daemon=True).start()
    server.run(sockets=[listening])


def _end_with_parent(server: uvicorn.Server) -> None:
    sys.stdin.buffer.read()
    server.should_exit = True


if __name__ == "__main__":
    _main()
