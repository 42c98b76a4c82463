"""What `docs/images/follow.svg` needs: a broker, a producer that sends to it, tools of their own.

The broker is `reput serve`, at the ports of a stock broker, with a port for slaves.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import venv
from collections.abc import Iterator
from pathlib import Path

import reput
from reput_client import Client

_BATCH = 25
_PAUSE = 0.1  # seconds between two batches
_TAGS = ("paid", "open", "sent")


@contextlib.contextmanager
def running_broker(directory: str) -> Iterator[str]:
    """Have a broker run, and messages come; give the directory of the commands to record."""
    del directory  # of the commands; nothing of this is there
    with tempfile.TemporaryDirectory() as own, _served(Path(own)) as names, _producing(names):
        yield str(_tools(Path(own) / "venv"))


def _tools(path: Path) -> Path:
    """Make an environment that has what this one has, and that something can be installed in."""
    venv.create(path, with_pip=True)
    python = path / "bin" / "python"
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True).stdout
    ours = [each for each in sys.path if each.endswith("site-packages")]
    # As a directory of packages: with `.pth` files, which editable installs of ours need.
    lines = [f"import site; site.addsitedir({each!r})" for each in ours]
    (Path(site.strip()) / "ours.pth").write_text("\n".join(lines), encoding="utf-8")
    builds = ["hatchling", "editables"]
    subprocess.run([python, "-m", "pip", "install", "--quiet", *builds], check=True)
    command = path / "bin" / "reput"
    command.write_text(f'#!/bin/sh\nexec "{python}" -m reput "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    return path / "bin"


@contextlib.contextmanager
def _served(own: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "reput", "serve", str(own / "broker"), "--json"]
    command += ["--listen", "127.0.0.1:10911", "--namesrv", "127.0.0.1:0"]
    command += ["--replicas", "127.0.0.1:0", "--cluster", "shop", "--name", "main"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["name_server"]
        finally:
            process.terminate()


@contextlib.contextmanager
def _producing(names: str) -> Iterator[None]:
    ends = threading.Event()

    def send() -> None:
        with Client(names) as client, client.producer("demo") as producer:
            number = 0
            while not ends.wait(_PAUSE):
                tag = _TAGS[number % len(_TAGS)]
                number += 1
                producer.send_batch(
                    [reput.Message("orders", b"one book", tags=tag) for _ in range(_BATCH)]
                )

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()
