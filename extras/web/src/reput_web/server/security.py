"""What every request has to pass, and what every answer carries.

Bodies and names in a store come from other programs, and any page that the user visits may send
requests to this server. So a request needs the right host name (a foreign name may lead here: DNS
rebinding), must come from these pages or from the address line, and is one of few at a time; and an
answer runs and loads nothing but the files of this package.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final

import attrs

from reput_web.server.options import WebOptions

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

CONTENT_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
"""Inline scripts and styles do nothing, also where a text were taken for HTML."""
_HEADERS: Final = (
    (b"content-security-policy", CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    # With no-referrer, browsers send forms of plain HTTP with the origin "null".
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
_TARGET_MAX: Final = 8 << 10
_METHODS: Final = frozenset({"GET", "HEAD", "POST"})
_BODY_MAX: Final = 320 << 10
"""The largest form fits: 22,000 characters, each of 12 bytes as UTF-8 in percent encoding."""


@attrs.define(eq=False)
class SecurityLayer:
    """An ASGI application around another one."""

    inner: Application
    options: WebOptions
    under_way: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        protected = _with_headers(send)
        refusal = self._refusal(scope)
        if refusal is not None:
            await _refuse(protected, *refusal)
            return
        self.under_way += 1
        try:
            await self.inner(scope, _bounded(receive), protected)
        finally:
            self.under_way -= 1

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = _first_values(scope["headers"])
        if not self._is_own_host(headers.get(b"host", b"").decode("latin-1")):
            return 421, "This server does not answer to that host name."
        if scope["method"] not in _METHODS:
            return 405, "GET, HEAD and POST are the methods of this server."
        target = len(scope.get("raw_path") or b"") + len(scope["query_string"])
        if target > _TARGET_MAX:
            return 414, "The address is too long."
        if not _comes_from_here(scope["method"], headers):
            return 403, "Pages of other sites may not use this server."
        if not self._has_password(headers.get(b"authorization", b"")):
            return 401, "A password is needed."
        if self.under_way >= self.options.requests_max:
            return 503, "Too many requests are under way. Try again."
        return None

    def _is_own_host(self, host: str) -> bool:
        name = host.rpartition(":")[0] if _has_port(host) else host
        if name.lower() in self.options.hosts:
            return True
        return self.options.any_address and _is_address(name)

    def _has_password(self, given: bytes) -> bool:
        if self.options.password is None:
            return True
        kind, _, value = given.partition(b" ")
        if kind.lower() != b"basic":
            return False
        try:
            _, _, password = base64.b64decode(value, validate=True).partition(b":")
        except (binascii.Error, ValueError):
            return False
        expected = self.options.password.encode()
        return hmac.compare_digest(
            hashlib.sha256(password).digest(), hashlib.sha256(expected).digest()
        )


def _has_port(host: str) -> bool:
    _, colon, port = host.rpartition(":")
    return bool(colon) and port.isdigit() and not host.endswith("]")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _comes_from_here(method: str, headers: dict[bytes, bytes]) -> bool:
    """Whether a request is of these pages, typed, or a link that was followed to a page."""
    site = headers.get(b"sec-fetch-site")
    if method == "POST":
        origin = headers.get(b"origin")
        if origin not in (None, b"null"):
            is_own = origin.partition(b"://")[2].lower() == headers.get(b"host", b"").lower()
            return is_own and site in (None, b"same-origin")
        return site == b"same-origin"
    is_navigation = headers.get(b"sec-fetch-mode") == b"navigate"
    return site in (None, b"same-origin", b"none") or (
        is_navigation and headers.get(b"sec-fetch-dest") == b"document"
    )


def _first_values(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        found.setdefault(name.lower(), value)
    return found


def _with_headers(send: Send) -> Send:
    async def protected(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = [(name, value) for name, value in message.get("headers", ())]
            known = {name.lower() for name, _ in own}
            own += [each for each in _HEADERS if each[0] not in known]
            if b"cache-control" not in known:
                own.append((b"cache-control", b"no-store"))
            message = {**message, "headers": own}
        await send(message)

    return protected


def _bounded(receive: Receive) -> Receive:
    """Return what receives a request; a body that is too long ends as if the client had left."""
    size = 0

    async def bounded() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        return {"type": "http.disconnect"} if size > _BODY_MAX else message

    return bounded


async def _refuse(send: Send, status: int, text: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    if status == 401:
        headers.append((b"www-authenticate", b'Basic realm="reput", charset="UTF-8"'))
    if status == 503:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode() + b"\n"})
