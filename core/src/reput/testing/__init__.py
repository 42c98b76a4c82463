"""A broker for tests of programs that use RocketMQ; it comes from the distribution reput-server.

`reput.testing.LocalBroker` is one in this process, ``python -m reput.testing.broker`` a process for
tests in other languages. The extra ``reput[server]`` installs both; a type checker finds the class
in ``reput_server``. What authors of plugins test with is ``reput_testing``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reput.doors import door

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...

else:
    __getattr__, __dir__ = door(__name__, {}, elsewhere={"LocalBroker": "reput_server"})
