"""Pages for a browser that show a store: read-only, and made for hostile content.

`application` is an ASGI application, which a program may serve beside pages of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.lazyexports import lazy_exports

if TYPE_CHECKING:
    from reput_web.server.application import application as application
    from reput_web.server.options import WebOptions as WebOptions
else:
    __getattr__, __dir__ = lazy_exports(__name__)
