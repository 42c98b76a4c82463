"""The script's part about what no client sends: codes, headers and bytes that are wrong."""

from __future__ import annotations

import struct

from sameanswers.reading import pull
from sameanswers.run import Run

from reput_client.remoting import HeaderKind


def codes(run: Run) -> None:
    """Codes that mean nothing, or nothing to a broker."""
    for code in (0, -1, 1, 5, 13, 99, 105, 106, 400_000, 2_147_483_647):
        run.ask(f"code {code}", code)
    run.ask("binary code 99", 99, kind=HeaderKind.BINARY)
    run.ask("binary pull", 11, pull("orders"), kind=HeaderKind.BINARY)
    run.ask("binary offset", 30, {"topic": "orders", "queueId": 0}, kind=HeaderKind.BINARY)
    for version in (0, -1, 28, 99_999):
        run.ask(f"version {version}", 30, {"topic": "orders", "queueId": 0}, version=version)


def frames(run: Run) -> None:
    """Bytes that are no frame, or whose header is none."""
    ask = b'{"code":30,"opaque":7,"extFields":{"topic":"orders","queueId":%s}%s}'
    run.raw("raw", framed(ask % (b'"0"', b"")))
    run.raw("raw with a number", framed(ask % (b"0", b"")))
    run.raw("raw with a fraction", framed(ask % (b"0.0", b"")))
    run.raw("raw with an object", framed(ask % (b"{}", b"")))
    run.raw("raw with nothing", framed(ask % (b"null", b"")))
    run.raw("raw with more", framed(ask % (b'"0"', b',"more":[1,{"a":2}]')))
    run.raw("raw with nulls", framed(ask % (b'"0"', b',"remark":null,"language":null')))
    run.raw("raw in an odd language", framed(ask % (b'"0"', b',"language":"KLINGON"')))
    run.raw("raw with a comma", framed(ask % (b'"0"', b",")))
    run.raw("raw in single quotes", framed(ask.replace(b'"', b"'") % (b"'0'", b"")))
    run.raw("raw with blanks", framed(b" \n" + ask % (b'"0"', b"") + b"  "))
    run.raw("raw with the code as a text", framed(ask.replace(b"30", b'"30"') % (b'"0"', b"")))
    run.raw("raw without a code", framed(b'{"opaque":7}'))
    run.raw("raw empty object", framed(b"{}"))
    run.raw("raw list", framed(b"[]"))
    run.raw("raw text", framed(b"hello"))
    run.raw("raw without a header", framed(b""))
    run.raw("raw header too long", struct.pack(">iI", 10, 100) + bytes(20))
    run.raw("raw too long", struct.pack(">i", 1 << 25) + bytes(20))
    run.raw("raw below zero", struct.pack(">i", -5) + bytes(20))
    run.raw("raw of no length", struct.pack(">i", 0) + bytes(20))
    run.raw("raw of an odd kind", struct.pack(">iI", 6, 7 << 24 | 2) + b"{}")
    run.raw("raw HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    run.raw("raw one way", framed(ask % (b'"0"', b',"flag":2')))
    run.raw("raw answer", framed(ask % (b'"0"', b',"flag":1')))
    run.raw("raw binary cut off", struct.pack(">iI", 9, 1 << 24 | 5) + bytes(5))


def framed(header: bytes, body: bytes = b"") -> bytes:
    """The frame of a header."""
    return struct.pack(">iI", 4 + len(header) + len(body), len(header)) + header + body
