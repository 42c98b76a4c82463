"""`WebOptions`: how the pages are served."""

from __future__ import annotations

import attrs
from attrs.validators import ge, gt, instance_of


@attrs.frozen(kw_only=True)
class WebOptions:
    """Options of `reput_web.application`."""

    hosts: frozenset[str] = frozenset({"127.0.0.1", "localhost", "[::1]"})
    """Names by which browsers may address the server, without port; any other is refused, as a
    page of another site may give its own name this server's address."""
    any_address: bool = False
    """Whether any numeric address is such a name, too: for a server that listens on all."""
    password: str | None = attrs.field(default=None, repr=False)
    """What a browser must give as password, with any user name; None for no password."""
    request_seconds: float = attrs.field(default=1.5, validator=gt(0))
    """How long a request may read; a search goes on with the next request."""
    query_seconds: float = attrs.field(default=20.0, validator=gt(0))
    """How long a query in SQL may take."""
    query_memory_size: int = attrs.field(default=256 << 20, validator=ge(64 << 20))
    """Bytes of memory for sorting and grouping in SQL; a query that needs more uses the disk."""
    workers: int = attrs.field(default=4, validator=[instance_of(int), ge(1)])
    """Requests that read at once; others wait."""
    requests_max: int = attrs.field(default=64, validator=[instance_of(int), ge(1)])
    """Requests under way at once; further ones are refused with status 503."""
    can_write: bool = False
    """Whether the pages offer to change the store."""
    follow_links: bool = False
    """As for `reput.open`."""
