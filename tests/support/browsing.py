"""Pages that are served on a port of this machine, and Chromium, which looks at them."""

from __future__ import annotations

import gzip
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reput_web import WebOptions, application

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_AXE = Path(__file__).resolve().parents[1] / "web" / "axe" / "axe.min.js.gz"


class Served:
    """Pages on a port of this machine, until the block is left."""

    def __init__(self, root: Path, **options: Any) -> None:
        import uvicorn

        app = application(root, WebOptions(**options))
        config = uvicorn.Config(app, port=0, log_level="error", lifespan="on", ws="none")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run)

    def __enter__(self) -> str:
        self.thread.start()
        while not self.server.started:
            assert self.thread.is_alive()
            self.thread.join(0.01)
        port = self.server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}"

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join()


def open_page(chromium: Any, address: str, **options: Any) -> Iterator[Any]:
    """Yield one page; the test fails at an error in the console, and at a dialog of a script."""
    context = chromium.new_context(base_url=address, **options)
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda line: line.type == "error" and complaints.append(line.text))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    try:
        yield page
        # htmx writes the last two for a request that is stopped.
        known = ("status of 40", "status of 503", "htmx:sendAbort", "htmx:afterRequest")
        unknown = [each for each in complaints if not any(word in each for word in known)]
        assert unknown == [], unknown
    finally:
        context.close()


def barriers(page: Any) -> list[tuple[str, str]]:
    """Return what axe-core finds in a page: rules, and elements that break them."""
    page.evaluate(gzip.decompress(_AXE.read_bytes()).decode())
    found = page.evaluate("axe.run()")["violations"]
    return [(each["id"], node["html"]) for each in found for node in each["nodes"]]


def rows_in(page: Any) -> Any:
    """Return the links of the messages that a page lists."""
    return page.locator("#found a.open")
