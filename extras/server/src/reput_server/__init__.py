"""A broker and a name server over a store, for RocketMQ's clients and admin tools.

    with reput.open("store", plugins={"consumequeue", "consumer", "index"}) as store:
        with serving(store) as server:
            print(server.name_server)

``reput serve PATH`` does the same from a command line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.lazyexports import lazy_exports

if TYPE_CHECKING:
    from reput_server.config import Limits as Limits
    from reput_server.config import ServerConfig as ServerConfig
    from reput_server.config import TlsConfig as TlsConfig
    from reput_server.errors import CertificateError as CertificateError
    from reput_server.errors import ServerError as ServerError
    from reput_server.server import Server as Server
    from reput_server.server import serving as serving
    from reput_server.testing.localbroker import LocalBroker as LocalBroker
    from reput_server.webpages.webconfig import WebConfig as WebConfig
    from reput_server.wire.ports import Ports as Ports
else:
    __getattr__, __dir__ = lazy_exports(__name__)
