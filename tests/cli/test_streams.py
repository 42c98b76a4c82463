"""Whatever a shell makes of a command's streams, it ends with a documented code and one line."""

from __future__ import annotations

import subprocess
import sys

import pytest

import reput

pytestmark = pytest.mark.shows("commands")

RUN = "import sys; from reput_tools.cli import main; sys.argv[0] = 'reput'; main()"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("streams") / "store"
    with reput.open(path, plugins=[], config={"commitlog": {"file_size": 1 << 16}}) as opened:
        opened.put(reput.Message("orders", b"one"))
    return path


def _in_a_shell(words, redirection):
    line = f'exec "$0" "$@" {redirection}'
    command = ["sh", "-c", line, sys.executable, "-c", RUN, *map(str, words)]
    return subprocess.run(command, input=b"two\n", capture_output=True)


@pytest.mark.parametrize(
    ("words", "redirection", "code", "says"),
    [
        (("info", "STORE", "--scan"), ">&-", 5, "standard output: Bad file descriptor"),
        (
            ("info", "STORE", "--scan", "--json"),
            ">/dev/full",
            5,
            "standard output: No space left on device",
        ),
        (("cat", "STORE", "orders", "--scan"), ">&-", 5, "standard output: Bad file descriptor"),
        (("cat", "STORE", "orders", "--scan"), ">/dev/full", 5, "standard output: No space"),
        (("get", "STORE", "--offset", "0", "--raw"), ">/dev/full", 5, "standard output: No space"),
        (("put", "STORE", "orders"), "<&-", 5, "standard input: Bad file descriptor"),
        (("--help",), ">/dev/full", 5, "standard output: No space left on device"),
        (("info", "STORE", "--scan"), "<&-", 0, ""),
        (("get", "STORE", "no-such-key"), "2>&-", 3, ""),
        (("info", "nowhere"), "2>/dev/full", 3, ""),
        (("info", "nowhere"), "<&- >&- 2>&-", 3, ""),
    ],
)
@pytest.mark.costly
def test_a_stream_that_is_closed_or_full_is_named_and_has_its_code(
    store, words, redirection, code, says
):
    before = sorted(path.read_bytes() for path in store.rglob("*") if path.is_file())

    done = _in_a_shell([store if word == "STORE" else word for word in words], redirection)

    errors = done.stderr.decode()
    assert done.returncode == code, errors
    assert says in errors
    assert len(errors.splitlines()) <= 1
    assert "internal error" not in errors
    if words[0] != "put":
        assert before == sorted(path.read_bytes() for path in store.rglob("*") if path.is_file())
