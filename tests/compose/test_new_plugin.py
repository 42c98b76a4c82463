"""``reput plugins new`` and ``check``: a folder that passes its tests at once, and a score."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zlib
from importlib.metadata import metadata
from pathlib import Path

import pytest
from jsonkeys import forms_of, keys_of

import reput
from reput.errors import CorruptFileError
from reput_tools.cli.plugins.contractcheck import GROUPS
from reput_tools.cli.plugins.plugintemplate import check_name, create, render

ROOT = Path(__file__).resolve().parents[2]
COUNTER = ROOT / "examples" / "reput-counter"


def reput_command(*arguments, python=sys.executable, **options):
    command = [str(python), "-m", "reput", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, **options)


def install(folder, name, site):
    """Do what an installer does with a wheel of pure Python."""
    shutil.copytree(folder / "src" / f"reput_{name}", site / f"reput_{name}")
    about = site / f"reput_{name}-0.1.0.dist-info"
    about.mkdir()
    head = f"Metadata-Version: 2.1\nName: reput-{name}\nVersion: 0.1.0\n"
    (about / "METADATA").write_text(head)
    project = (folder / "pyproject.toml").read_text()
    (entry,) = [line for line in project.splitlines() if line.startswith(f"{name} = ")]
    (about / "entry_points.txt").write_text(f"[reput.plugins]\n{entry.replace(chr(34), '')}\n")


@pytest.fixture
def fresh(tmp_path):
    """Make an environment that has what this one has, and nothing that is installed later."""
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True).stdout
    site = Path(own.strip())
    ours = [path for path in sys.path if path.endswith("site-packages")]
    # As a directory of packages: with `.pth` files, which editable installs of ours need.
    lines = [f"import site; site.addsitedir({path!r})" for path in ours]
    (site / "ours.pth").write_text("\n".join(lines))
    return python, site


def test_a_new_plugin_is_the_example_under_another_name():
    made = dict(render("counter"))

    files = [path for path in COUNTER.rglob("*") if path.is_file() and "cache" not in str(path)]
    assert {path.relative_to(COUNTER).as_posix() for path in files} == made.keys()
    (extras,) = re.findall("with the extras (.+):", made["README.md"])
    assert set(re.findall("`(.+?)`", extras)) <= set(metadata("reput").get_all("Provides-Extra"))
    for path, text in made.items():
        assert (COUNTER / path).read_text(encoding="utf-8") == text, path


@pytest.mark.parametrize(
    "content",
    [
        b'{"dispatched_to": 100, "rows": []}',
        b'{"format": 2, "dispatched_to": 100, "rows": []}',
        b'{"format": 1, "dispatched_to": 100, "rows": [[0, "orders", 1]]}',
        b'{"format": 1, "dispatched_to": null, "rows": []}',
        b"[]",
        b"\xff",
        b"",
    ],
)
def test_a_new_plugin_counts_again_where_another_program_wrote_its_file(
    tmp_path, monkeypatch, caplog, content
):
    create("my_words", str(tmp_path / "made"), files=True)
    monkeypatch.syspath_prepend(tmp_path / "made" / "src")
    made = importlib.import_module("reput_my_words")
    for name in [each for each in sys.modules if each.startswith("reput_my_words")]:
        del sys.modules[name]  # the next content imports its own
    root = tmp_path / "store"
    with reput.open(root, plugins=[made.MyWordsPlugin()]) as store:
        store.put(reput.Message("orders", b"12345"))
    file = root / "my_words" / "counts.json"
    written = file.read_bytes()
    file.write_bytes(f"{zlib.crc32(content):08x}".encode() + content)

    with pytest.raises(CorruptFileError, match="byte 8: no counts"):
        made.read_counts(root)
    with reput.open(root, plugins=[made.MyWordsPlugin()]):
        assert "counting again from the beginning" in caplog.text
    assert file.read_bytes() == written


@pytest.mark.slow
@pytest.mark.alike
@pytest.mark.parametrize(
    ("given", "chosen", "least"),
    [
        pytest.param([], [], 45, id="short"),
        pytest.param(["--files"], [], 45, id="short-files"),
        # Crashes and kills.
        pytest.param([], ["-m", "full"], 5, marks=pytest.mark.proof, id="full"),
        pytest.param(["--files"], ["-m", "full"], 5, marks=pytest.mark.proof, id="full-files"),
    ],
)
def test_a_new_plugin_passes_its_tests_in_a_fresh_environment(
    tmp_path, fresh, given, chosen, least
):
    python, site = fresh
    folder = tmp_path / "my plugin"
    made = reput_command("plugins", "new", "my_words", "--directory", folder, *given, python=python)
    install(folder, "my_words", site)

    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen],
        cwd=folder,
        capture_output=True,
        text=True,
    )

    assert made.returncode == 0, made.stderr
    assert "reput plugins check my_words" in made.stdout
    assert done.returncode == 0, done.stdout
    assert int(done.stdout.splitlines()[-1].split()[0]) > least, done.stdout
    assert "deselected" in done.stdout


@pytest.mark.slow
def test_a_new_plugin_with_other_columns_passes_the_rules_as_they_are(tmp_path, fresh):
    python, site = fresh
    folder = tmp_path / "words"
    reput_command("plugins", "new", "my_words", "--directory", folder, python=python)
    plugin = folder / "src" / "reput_my_words" / "plugin.py"
    source = plugin.read_text()
    for old, new in [
        ("schema = .*", "schema = Schema(key={'label': str}, sums=['n'])"),
        (r"return \{.*?\}", "return {'label': batch.text('TAGS'), 'n': 1}"),
    ]:
        source, count = re.subn(old, new, source, count=1, flags=re.S if "?" in old else 0)
        assert count == 1
    plugin.write_text(source)
    install(folder, "my_words", site)

    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "Contract and trimmed"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("My", "small letters"),
        ("a-b", "small letters"),
        ("../up", "small letters"),
        ("class", "no word of Python"),
        ("_a", "no _ in front"),
        ("testing", "in use"),
        ("json", "in use"),
        ("words", None),
    ],
)
def test_a_name_that_a_plugin_cannot_have_is_refused(name, reason):
    found = check_name(name)

    assert found is None if reason is None else reason in (found or "")


@pytest.mark.costly
def test_what_is_there_is_not_overwritten(tmp_path):
    (tmp_path / "there").mkdir()

    done = reput_command("plugins", "new", "words", "--directory", tmp_path / "there")
    refused = reput_command("plugins", "new", "a/b", cwd=tmp_path)
    as_json = reput_command("plugins", "new", "words", "--json", cwd=tmp_path)

    assert (done.returncode, refused.returncode, as_json.returncode) == (5, 2, 0)
    assert "exists already" in done.stderr
    document = json.loads(as_json.stdout)
    assert document["directory"] == str(tmp_path / "reput-words")
    assert "src/reput_words/plugin.py" in document["files"]


BROKEN = """
import reput
from reput_counter import CounterPlugin

class Broken(CounterPlugin):
    name = "broken"

    @reput.hookimpl
    def reput_trim(self, min_physical_offset):
        pass
"""


def offered(tmp_path, name, source):
    """Return an environment in which a module is a plugin's distribution."""
    (tmp_path / f"{name}.py").write_text(source)
    about = tmp_path / f"{name}-2.5.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.5\n")
    (about / "entry_points.txt").write_text(f"[reput.plugins]\n{name} = {name}:Broken\n")
    return {**os.environ, "PYTHONPATH": str(tmp_path)}


@pytest.mark.slow
def test_a_plugin_that_breaks_a_rule_is_told_which(tmp_path):
    shutil.copytree(COUNTER / "src" / "reput_counter", tmp_path / "reput_counter")

    done = reput_command(
        "plugins", "check", "broken", "--quick", env=offered(tmp_path, "broken", BROKEN)
    )

    assert done.returncode == 1
    assert "broken  (broken 2.5)" in done.stdout
    assert re.search(r"recovery +FAILED +12 +1 +0 ", done.stdout)
    assert "recovery: test_what_was_trimmed_is_forgotten" in done.stdout
    assert "after reput_trim: not the state of one who never saw it" in done.stdout
    assert "broken breaks rules: " in done.stdout


RAISES = """
from reput_counter import CounterPlugin

class Broken(CounterPlugin):
    name = "broken"

    def rows(self, batch):
        raise ValueError("no JSON")
"""


@pytest.mark.costly
def test_a_group_whose_rules_are_all_skipped_is_not_ok(tmp_path):
    shutil.copytree(COUNTER / "src" / "reput_counter", tmp_path / "reput_counter")
    environment = offered(tmp_path, "broken", RAISES)

    done = reput_command("plugins", "check", "broken", env=environment)

    assert done.returncode == 1
    assert re.search(r"dispatch +FAILED +0 +1 +\d+ ", done.stdout)
    for group in GROUPS.keys() - {"dispatch"}:
        assert re.search(rf"{group} +skipped +0 +0 +\d+ ", done.stdout), done.stdout
    assert " ok " not in done.stdout


@pytest.mark.slow
def test_a_sound_plugin_keeps_all_rules(tmp_path):
    shutil.copytree(COUNTER / "src" / "reput_counter", tmp_path / "reput_counter")
    source = "from reput_counter import CounterPlugin as Broken"
    environment = offered(tmp_path, "counter", source)

    done = reput_command("plugins", "check", "counter", "--quick", "--json", env=environment)

    document = json.loads(done.stdout)
    assert done.returncode == 0, done.stdout
    assert document["failed"] == 0
    assert {rule["group"] for rule in document["rules"]} == GROUPS.keys() - {"crash", "kill"}
    assert all(rule["says"].endswith(".") for rule in document["rules"])
    keys = forms_of("plugins check")[""]
    assert keys_of([document], keys) == keys.keys()


def test_a_plugin_that_is_not_installed_cannot_be_checked(tmp_path):
    done = reput_command("plugins", "check", "nothing")
    broken = reput_command(
        "plugins", "check", "gone", env=offered(tmp_path, "gone", "import missing_module")
    )

    assert (done.returncode, broken.returncode) == (5, 5)
    assert "no plugin of this name is installed" in done.stderr
    assert "missing_module" in broken.stderr
