"""``reput browse``: what it prints, what it refuses, and that it serves."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from commands import commands

import reput


@pytest.fixture
def root(tmp_path):
    with reput.open(tmp_path / "store") as store:
        store.put(reput.Message("orders", b"one"))
        store.wait_dispatched()
    return tmp_path / "store"


@pytest.mark.costly
def test_it_prints_where_the_pages_are_and_serves_them_until_a_signal(root, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("correct horse\n")
    command = [sys.executable, "-m", "reput", "browse", str(root), "--port", "0", "--json"]
    command += ["--host", "0.0.0.0", "--password-file", str(secret)]

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        document = json.loads(process.stdout.readline())
        try:
            word = base64.b64encode(b"any:correct horse").decode()
            request = urllib.request.Request(f"{document['url']}messages.json")
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(request)
            request.add_header("Authorization", f"Basic {word}")
            with urllib.request.urlopen(request) as answer:
                found = json.load(answer)
        finally:
            process.send_signal(signal.SIGINT)

    assert [each["preview"] for each in found["rows"]] == ["one"]
    assert document["path"] == str(root)
    assert set(document) == {"path", "url", "host", "port"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--host", "0.0.0.0"), "--password-file"),
        (("--host", "10.0.0.1"), "--password-file"),
        (("--tls-key", "KEY"), "--tls-cert"),
        (("--host", "0.0.0.0", "--password-file", "SHORT"), "8 to"),
        (("--host", "127.255.255.254x"), "--password-file"),
    ],
)
def test_what_is_not_safe_is_refused(root, tmp_path, options, text):
    for name in ("KEY", "SHORT"):
        (tmp_path / name).write_text("short\n")
    given = [str(tmp_path / each) if each in ("KEY", "SHORT") else each for each in options]

    with commands() as run:
        outcome = run("browse", root, "--no-open", *given)

    assert outcome.code == 2
    assert text in outcome.err


def test_a_directory_without_a_store_is_refused(tmp_path):
    with commands() as run:
        outcome = run("browse", tmp_path, "--no-open")

    assert outcome.code == 3
