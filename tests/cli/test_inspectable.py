"""What can be told of a store is told beside what cannot."""

from __future__ import annotations

import json

import pytest
from commands import cli_runner
from statefiles import change_manifest

import reput
from reput_tools.cli.root import reput as command_line

pytestmark = pytest.mark.shows("inspectable")


def _run(*arguments):
    return cli_runner().invoke(command_line, [str(each) for each in arguments])


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "store"
    with reput.open(path, plugins=[], config={"commitlog": {"file_size": 1 << 16}}) as opened:
        opened.put(reput.Message("orders", b"one", keys="k"))
    return path


def _other(text):
    content = json.loads(text)
    content["plugins"] = ["no-such-plugin"]
    content["config"]["no-such-plugin"] = {"option": 1}
    return json.dumps(content).encode()


def _write(data):
    return lambda root: (root / "reput" / "state").write_bytes(data)


DAMAGES = {
    "a plugin is not installed": (lambda root: change_manifest(root, _other), "no-such-plugin"),
    "the manifest is garbled": (
        lambda root: change_manifest(root, lambda text: b"\xff{"),
        "reput/state",
    ),
    "the state file is empty": (_write(b""), "reput/state"),
    "the state file is garbled": (_write(b"\xff{"), "reput/state"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("info", "--scan"), "1 in 1 topic"),
        (("plugins",), ""),
        (("cat", "orders", "--scan"), "one"),
        (("get", "k"), "orders"),
        (("losses",), "has recorded no loss"),
    ],
)
def test_what_is_sound_is_shown_whatever_is_not(store, damage, words, shown):
    DAMAGES[damage][0](store)
    command, *others = words

    done = _run(command, store, *others)

    assert (done.exit_code, shown in done.stdout) == (0, True), done.output


@pytest.mark.parametrize("damage", DAMAGES)
def test_people_and_programs_are_told_of_what_is_not_sound(store, damage):
    hurt, name = DAMAGES[damage]
    hurt(store)

    for command in ("info", "plugins"):
        document = json.loads(_run(command, store, "--json").stdout)
        assert [name in problem for problem in document["problems"]] == [True]
        assert name in _run(command, store).stderr


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_writer_still_refuses_such_a_store(store, damage):
    DAMAGES[damage][0](store)

    with pytest.raises(reput.ReputError):
        reput.open(store)
