"""`WebConfig`: where pages for a browser are served, and who may use them."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

import attrs
from attrs.validators import deep_iterable, instance_of, optional

if TYPE_CHECKING:
    from reput_client.remoting import Address


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@attrs.frozen(kw_only=True)
class WebConfig:
    """Options of the pages. They need the distribution ``reput-web``."""

    address: Address
    """Where they are, port 0 for a free one; not on loopback only with a password."""
    can_write: bool = False
    """Whether they offer to change the store."""
    password_file: str | None = attrs.field(default=None, validator=optional(instance_of(str)))
    """File whose first line is the password that browsers must give; None for none."""
    names: tuple[str, ...] = attrs.field(
        default=(), validator=deep_iterable(instance_of(str), instance_of(tuple))
    )
    """Host names by which browsers may address them, beside the address itself."""
    tls_cert: str | None = attrs.field(default=None, validator=optional(instance_of(str)))
    """PEM file of the certificate for encrypted connections; None for no encryption."""
    tls_key: str | None = attrs.field(default=None, validator=optional(instance_of(str)))
    """PEM file of its private key; None if that is in the file of the certificate."""
    follow_links: bool = False
    """As for `reput.open`."""
