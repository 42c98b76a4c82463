"""What shells are told to complete."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from statefiles import change_manifest, state_of

from reput.storefiles import Manifest
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.root import reput as program

HEAVY = ("numpy", "rich", "pluggy", "attr")


@pytest.fixture
def store(tmp_path):
    """Directories and a manifest as a store has them; nothing of it is opened."""
    root = tmp_path / "a store"
    for queue in ("orders/0", "orders/2", "orders/10", "order notes/0", "%RETRY%g/0"):
        (root / "consumequeue" / queue).mkdir(parents=True)
    (root / "reput").mkdir()
    Manifest(("index", "consumequeue"), {}).save(state_of(root))
    return root


def completed(*words):
    """The values for the last of the words, as a shell would be given them."""
    from click.shell_completion import ShellComplete

    *before, last = map(str, words)
    found = ShellComplete(program, {}, "reput", "_REPUT_COMPLETE").get_completions(before, last)
    return [each.value for each in found]


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (("cat", ..., ""), ["%RETRY%g", "order notes", "orders"]),
        (("cat", ..., "orders"), ["orders"]),
        (("cat", ..., "-t", "order "), ["order notes"]),
        (("cat", ..., "orders", "-q", ""), ["0", "2", "10"]),
        (("put", ..., "orders", "-q", "1"), ["10"]),
        (("info", ..., "--topic", "%"), ["%RETRY%g"]),
        (("get", ..., "key", "--topic", "orders"), ["orders"]),
        (("grep", ..., "text", "ord"), ["order notes", "orders"]),
        (("suspend", ..., ""), ["consumequeue", "index"]),
        (("resume", ..., "i"), ["index"]),
        (("plugins", ..., "--remove", ""), ["consumequeue", "index"]),
        (("rebuild", ..., "consumequeue", ""), ["consumequeue", "index"]),
        (("cat", ..., "../..", "-q", ""), []),
        (("completion", "z"), ["zsh"]),
        (("dead-",), ["dead-letters"]),
        (("nope", "nothing"), []),
    ],
)
def test_names_of_the_store_are_completed(store, words, values) -> None:
    assert completed(*(store if word is ... else word for word in words)) == values


@pytest.mark.parametrize(
    "manifest",
    [b"\0", b"[]", b'{"plugins": 7}', b"\xff", b'{"plugins": [1, null]}', b"[" * 100_000],
)
def test_a_damaged_store_completes_to_nothing(store, manifest) -> None:
    change_manifest(store, lambda text: manifest)

    assert completed("suspend", store, "") == []
    assert completed("cat", store / "nowhere", "") == []


def test_names_that_do_not_print_are_left_out(store) -> None:
    (store / "consumequeue" / "or\x1b[2J").mkdir()

    assert completed("cat", store, "or") == ["order notes", "orders"]


def test_installed_plugins_are_completed_where_one_is_added(own_plugins, store) -> None:
    assert "notes" in completed("backfill", store, "not")
    assert "notes" in completed("plugins", "check", "not")


def test_completing_imports_nothing_heavy(store) -> None:
    code = f"""
import os, sys
os.environ |= {{"_REPUT_COMPLETE": "bash_complete", "COMP_CWORD": "3"}}
os.environ["COMP_WORDS"] = "reput cat '{store}' "
from reput_tools.cli import main
try:
    main()
finally:
    print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.stdout.splitlines() == ["plain,%RETRY%g", "plain,order notes", "plain,orders"]
    assert done.stderr == "[]\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_is_given_lines_of_its_own(run, shell, monkeypatch) -> None:
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")

    named, found = run("completion", shell), run("completion")

    assert (named.code, f"_REPUT_COMPLETE={shell}_complete" in named.out) == (0, True)
    assert found.out == named.out


def test_another_shell_is_told_which_there_are(run, monkeypatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/dash")

    outcome = run("completion")

    assert outcome.code == ExitCode.UNAVAILABLE
    assert "no completion for the shell 'dash'; name one of: bash, zsh, fish" in outcome.err


def test_bash_completes_with_these_lines(run, store) -> None:
    """A real bash calls what was printed, as it does when the tab key is pressed."""
    lines = run("completion", "bash").out
    bin_directory = store.parent / "bin"
    bin_directory.mkdir()
    script = bin_directory / "reput"
    script.write_text(f"#!{sys.executable}\nfrom reput_tools.cli import main\nmain()\n")
    script.chmod(0o755)
    typed = f"(reput suspend \"'{store}'\" i)"
    code = f"{lines}\nCOMP_WORDS={typed} COMP_CWORD=3\n"
    code += 'compopt() { :; }\n_reput_completion reput\necho "${COMPREPLY[@]}"\n'
    environment = os.environ | {"PATH": f"{bin_directory}:{os.environ['PATH']}"}

    done = subprocess.run(
        ["bash", "-c", code],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )

    assert done.stdout.split() == ["index"], done.stderr
