"""Options of the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs
from attrs.validators import in_, instance_of, optional

from reput.plugin import INT32_MAX, integer_between
from reput_client.remoting import Address
from reput_server.webpages.webconfig import WebConfig

_PORT_MAX: Final = 65_535


def is_everywhere(host: str) -> bool:
    """Whether a host stands for all addresses of the machine."""
    return host in ("0.0.0.0", "::")


def _positive(default: int, most: int = INT32_MAX) -> Any:
    return attrs.field(default=default, validator=integer_between(1, most))


def _bytes(default: int) -> Any:
    return _positive(default, 1 << 40)


def _check_address(config: object, field: attrs.Attribute[Any], value: Any) -> None:
    """Refuse a value that is not an address; None means that the server does not listen."""
    if value is None and field.name != "register":
        return
    for each in value if field.name == "register" else [value]:
        match each:
            case (str(), int() as port) if 0 <= port <= _PORT_MAX and port is not True:
                pass
            case _:
                expected = f"a host and a port from 0 to {_PORT_MAX}"
                raise ValueError(f"{field.name}: {expected} expected, found {each!r}")


@attrs.frozen(kw_only=True)
class Limits:
    """What peers may take of the server's memory and patience."""

    header_bytes: int = _positive(1 << 20)
    """A request with a longer header closes its connection; bodies are bounded by the frame."""
    requests_per_peer: int = _positive(256)
    """Requests of one connection that are worked on at once; more are not read meanwhile."""
    bytes_per_peer: int = _bytes(32 << 20)
    """Bytes of one connection's requests that are worked on at once."""
    bytes_of_all: int = _bytes(256 << 20)
    """The same of all connections; also of unfinished frames, and of answers left unread."""
    unread_bytes: int = _bytes(64 << 20)
    """Answers that a peer may leave unread before it is cut off; over gRPC, before it gets no more
    messages, and its calls are refused."""
    idle_seconds: int = _positive(120)
    """A connection on which nothing moves for so long is closed."""
    connections: int = _positive(10_000)
    """Connections at once; a further one is closed."""
    spare_descriptors: int = _positive(128)
    """Descriptors of the process that connections leave to the store; a further one is closed."""
    remembered_per_peer: int = _positive(20_000)
    """Groups, held pulls and brokers of one connection; with more of them it is closed."""
    held_pulls: int = _positive(100_000)
    """Pulls that wait for messages; a further one is answered at once."""
    held_bytes: int = _bytes(64 << 20)
    """What waiting pulls have in their headers; a further one is answered at once."""
    waiting_sends: int = _positive(10_000)
    """Sends that wait for the store, or for the disk; a further one is answered with "busy"."""
    send_wait_ms: int = _positive(1_000)
    """How long a send may wait for the store before it is answered with "busy", if it has also
    been passed over for others; a disk that is slow for a while refuses nothing by itself."""
    timer_delay_seconds: int = _positive(259_200)
    """How far ahead a timed message may be due, 3 days as in RocketMQ (`timerMaxDelaySec`). A later
    one is refused; over gRPC, the limit of RocketMQ's proxy, a day, holds, too."""
    replicas: int = _positive(32)
    """Connections of the HA port at once; each takes up to 3 MiB. A further one is closed."""
    replica_wait_ms: int = _positive(3_000)
    """How long the answer to a send waits for replicas (`slaveTimeout`)."""


TlsMode = Literal["permissive", "enforcing", "disabled"]
_MODES: Final = ("permissive", "enforcing", "disabled")


@attrs.frozen(kw_only=True)
class TlsConfig:
    """Encryption of both ports, TLS 1.2 or newer. Files are PEM."""

    certificate: str = attrs.field(validator=instance_of(str))
    """File of the server's certificate, and of those that vouch for it."""
    key: str = attrs.field(validator=instance_of(str))
    """File of the certificate's private key, which no password protects."""
    client_ca: str | None = attrs.field(default=None, validator=optional(instance_of(str)))
    """File of CA certificates, which must have signed those of clients; None for no check."""
    mode: TlsMode = attrs.field(default="permissive", validator=in_(_MODES))
    """``"permissive"``: the first byte of a connection shows whether it is encrypted.
    ``"enforcing"``: connections that are not are closed. ``"disabled"``: those that are are."""

    @property
    def requires_certificate(self) -> bool:
        """Whether nobody is answered who has shown no certificate."""
        return self.mode == "enforcing" and self.client_ca is not None


@attrs.frozen(kw_only=True)
class ServerConfig:
    """Options of a server."""

    listen: Address | None = attrs.field(default=("127.0.0.1", 10_911), validator=_check_address)
    """Where the broker listens, port 0 for a free one; None for no broker."""
    fast_port: bool = True
    """Whether it also listens two ports below ``listen``: Java clients up to 4.5.0 send there
    by default (``sendMessageWithVIPChannel``), and so do Java slaves. A port that is
    taken is reported, and costs only these."""
    name_server: Address | None = attrs.field(default=("127.0.0.1", 9876), validator=_check_address)
    """Where the name server listens, port 0 for a free one; None for none."""
    register: tuple[Address, ...] = attrs.field(default=(), validator=_check_address)
    """Other name servers, at which the broker registers."""
    advertise: str | None = attrs.field(default=None, validator=optional(instance_of(str)))
    """The host that clients get; the one that the broker listens on if left out."""
    cluster: str = attrs.field(default="DefaultCluster", validator=instance_of(str))
    creates_topics: bool = True
    """Whether a send to a topic that there is not makes it (`autoCreateTopicEnable`)."""
    access_keys: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    """Secret keys by access key; without any, everybody may do everything."""
    tls: TlsConfig | None = attrs.field(default=None, validator=optional(instance_of(TlsConfig)))
    """Encryption; None for none."""
    limits: Limits = attrs.field(factory=Limits)
    replicas: Address | None = attrs.field(default=None, validator=_check_address)
    """Where slaves and followers get the log (the HA port), port 0 for a free one; None for
    nowhere."""
    sync_replicas: int = attrs.field(default=0, validator=integer_between(0, INT32_MAX))
    """How many replicas must have a message before its send is answered."""
    grpc: Address | None = attrs.field(default=None, validator=_check_address)
    """Where clients of RocketMQ 5 are served over gRPC, port 0 for a free one; None for nowhere.
    It needs the distribution ``reput-server``."""
    grpc_from_beginning: bool = False
    """Whether a new group of such clients begins at the first message that the store has."""
    metrics: Address | None = attrs.field(default=None, validator=_check_address)
    """Where metrics and the health are over HTTP, port 0 for a free one; None for nowhere."""
    web: WebConfig | None = attrs.field(default=None, validator=optional(instance_of(WebConfig)))
    """Pages for a browser; None for none."""

    def __attrs_post_init__(self) -> None:
        """Check what depends on two options."""
        if self.sync_replicas and self.replicas is None:
            raise ValueError("sync_replicas needs replicas, the address of the HA port")
        if self.sync_replicas > self.limits.replicas:
            raise ValueError(
                f"sync_replicas: a number from 0 to {self.limits.replicas} (limits.replicas) "
                f"expected, found {self.sync_replicas}"
            )
