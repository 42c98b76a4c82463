"""A store of objects that answers over HTTP as S3 does, for reading: in this process, in memory.

It knows what Arrow's client asks to list and to read: sizes, ranges of bytes, and names by prefix
and delimiter. Requests are not checked for who signed them.
"""

from __future__ import annotations

import contextlib
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from xml.sax.saxutils import escape

_STAMP = "2026-01-31T12:00:00.000Z"


@contextlib.contextmanager
def object_store(directory: Path) -> Iterator[ThreadingHTTPServer]:
    """Serve the files below ``directory`` as objects; each directory in it is a bucket.

    Yields:
        The server; ``asked`` lists the methods and paths of its requests.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def log_message(self, *args: object) -> None:
            """Say nothing on the terminal."""

        def _answer(self, *, with_body: bool) -> None:
            path, _, query = self.path.partition("?")
            name = urllib.parse.unquote(path).strip("/")
            server.asked.append(f"{self.command} {name}")  # type: ignore[attr-defined]
            asked = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
            if "/" not in name:
                body, status, headers = _listed(directory / name, asked), 200, {}
            elif (directory / name).is_file():
                body, status, headers = _part(directory / name, self.headers.get("Range"))
            else:
                body, status, headers = b"", 404, {}
            self.send_response(status)
            size = headers.pop("size", len(body))
            for key, value in {**headers, "Content-Length": size}.items():
                self.send_header(key, str(value))
            self.end_headers()
            if with_body:
                self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.asked = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _part(path: Path, wanted: str | None) -> tuple[bytes, int, dict[str, object]]:
    data = path.read_bytes()
    headers: dict[str, object] = {
        "Content-Type": "application/octet-stream",
        "ETag": '"0"',
        "Last-Modified": "Sat, 31 Jan 2026 12:00:00 GMT",
        "Accept-Ranges": "bytes",
    }
    if wanted is None:
        return data, 200, headers
    first, _, last = wanted.removeprefix("bytes=").partition("-")
    start, stop = int(first), min(int(last or len(data)) + 1, len(data))
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
    return data[start:stop], 206, headers


def _listed(bucket: Path, asked: dict[str, str]) -> bytes:
    """Return the names in a bucket with a prefix, cut at the first delimiter after it."""
    prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter", "")
    most = int(asked.get("max-keys", "1000"))
    contents, folders = [], set()
    for path in sorted(each for each in bucket.rglob("*") if each.is_file()):
        key = path.relative_to(bucket).as_posix()
        if not key.startswith(prefix):
            continue
        head, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
        if found:
            folders.add(f"{prefix}{head}{delimiter}")
        else:
            contents.append((key, path.stat().st_size))
    names = "".join(
        f"<Contents><Key>{escape(key)}</Key><LastModified>{_STAMP}</LastModified>"
        f"<ETag>&quot;0&quot;</ETag><Size>{size}</Size><StorageClass>STANDARD</StorageClass></Contents>"
        for key, size in contents[:most]
    )
    names += "".join(
        f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>"
        for each in sorted(folders)
    )
    count = min(len(contents), most) + len(folders)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>{bucket.name}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{count}</KeyCount>"
        f"<MaxKeys>{most}</MaxKeys><IsTruncated>false</IsTruncated>{names}</ListBucketResult>"
    ).encode()
