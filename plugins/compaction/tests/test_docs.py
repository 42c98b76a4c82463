"""The pages about compacted topics say what the code does."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import reput

ROOT = Path(__file__).resolve().parents[3]
GUIDE = "docs/compacted-topics.md"


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def snippets_of(page):
    return re.findall(r"```python\n(.*?)```", text_of(page), flags=re.S)


def test_the_guide_prints_what_it_says(tmp_path, monkeypatch, capsys):
    pytest.importorskip("reput_consumequeue")
    monkeypatch.chdir(tmp_path)
    names = {}

    for source in snippets_of(GUIDE):
        exec(compile(source, GUIDE, "exec"), names)
        printed = capsys.readouterr().out.splitlines()
        assert printed == re.findall(r"# prints: (.*)$", source, flags=re.M)


def test_the_example_of_the_readme_runs(tmp_path, monkeypatch, capsys):
    pytest.importorskip("reput_consumequeue")
    (source,) = snippets_of("plugins/compaction/README.md")
    monkeypatch.chdir(tmp_path)

    exec(source, {})

    assert capsys.readouterr().out == "2 b'1.09'\n"
    with reput.open(tmp_path / "store", "r") as store:
        assert [view.body for view in store.read("prices", 0, 0)] == [b"1.09"]


@pytest.mark.parametrize("name", ["layout", "filepairs/offsetnotelayout"])
def test_the_rulers_of_the_page_are_those_of_the_modules(name):
    source = f"plugins/compaction/src/reput_compaction/{name}.py"
    pattern = rf"<!-- {re.escape(source)} -->\n```text\n(.*?)```"

    (ruler,) = re.findall(pattern, text_of("docs/formats.md"), flags=re.S)

    assert ruler in text_of(source)


def test_every_module_stands_in_the_readme():
    folder = ROOT / "plugins/compaction/src/reput_compaction"
    table = text_of("plugins/compaction/README.md").split("| Module | Is about |")[1]
    named = set(re.findall(r"`([\w/]+\.py)`", table.split("\n\n")[0]))

    paths = [path for path in folder.rglob("*.py") if path.name != "__init__.py"]
    modules = {path.relative_to(folder).as_posix() for path in paths}

    assert modules - named <= {"filepairs/queuenames.py", "command.py"}
    assert named <= modules


def test_the_order_of_the_page_is_that_of_the_code():
    """The file that decides is saved behind the flush, and goes behind the checkpoint."""
    path = ROOT / "plugins/compaction/src/reput_compaction/run/compaction.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (finish,) = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "finish"
    )
    calls = [
        (node.lineno, ast.unparse(node.func))
        for node in ast.walk(finish)
        if isinstance(node, ast.Call)
    ]
    order = [name for _, name in sorted(calls)]

    wanted = ["replacement.save", "replacement.rename", "self.checkpoint.set", "replacement.forget"]
    assert [name for name in order if name in wanted] == wanted
