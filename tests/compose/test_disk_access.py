"""Core and plugins use files through `Disk` only, which tests replace.

The command line and the testing kit are not part of a store.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.shows("disk")

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path
    for pattern in (
        "core/src/reput",
        "extras/arrow/src/reput_arrow/logs",
        "extras/arrow/src/reput_arrow/reader",
        "extras/arrow/src/reput_arrow/scanner",
        "extras/arrow/src/reput_arrow/tables",
        "extras/tools/src/reput_tools/offline",
        "extras/table/src",
        "plugins/*/src",
        "examples/*/src",
    )
    for folder in ROOT.glob(pattern)
    for path in folder.rglob("*.py")
)
SYSTEM = ROOT / "core/src/reput/files/system"
FILE_MODULES = {
    *(SYSTEM / name for name in ("disk.py", "filelock.py", "storeroot.py", "directorytree.py")),
    SYSTEM / "filewatch.py",  # pipes and reports of the system, no file of a store
    ROOT / "plugins/integrity/src/reput_integrity/scrub/cacheneutraldisk.py",
}
MODULES = {"os", "fcntl", "shutil", "tempfile", "pathlib", "io"}
HARMLESS = {
    # What has nothing to do with files.
    *(
        "os.PathLike",
        "os.environ",
        "os.environ.get",
        "os.fspath",
        "os.cpu_count",
        "os.getpid",
        "os.urandom",
        "os.kill",
        "os.register_at_fork",
        "os.strerror",
        "os._exit",
        "os.sep",
        "os.altsep",
        "os.fsencode",
        "os.fsdecode",
    ),
    # Text in, text out; `abspath` asks for the working directory.
    *("os.path.join", "os.path.dirname", "os.path.basename", "os.path.abspath", "os.path.relpath"),
    *("os.path.split", "os.path.splitext", "os.path.basename"),
}
ALLOWED = {
    (
        "core/src/reput/errors.py",
        "os.path.isdir",
    ): "whether a path that is not a store is a directory",
    (
        "plugins/consumequeue/src/reput_consumequeue/derived/unitspace.py",
        "tempfile.TemporaryFile",
    ): "room of a reader, which writes nothing into a store's directory",
    ("core/src/reput/lazyexports.py", "open"): "the package's own source",
    ("core/src/reput/store/config.py", "open"): "the user's TOML file, which is not the store's",
    (
        "core/src/reput/store/directory/storelock.py",
        "open",
    ): "a file of /proc, which says when a process began",
    (
        "core/src/reput/store/directory/storelock.py",
        "os.close",
    ): "in a forked child, whose disk is not its own",
    (
        "core/src/reput/files/system/vectoredread.py",
        "os.pread",
    ): "called by the disk alone, as a compiled function may stand in its place",
    ("core/src/reput/files/preallocation.py", "mmap.mmap"): "a page of memory without a file",
    ("core/src/reput/store/opening/openstore.py", "mmap.mmap"): "memory without a file",
    **dict.fromkeys(
        [
            ("core/src/reput/plugin/discovery.py", name)
            for name in ("os.curdir", "os.stat", "os.scandir")
        ],
        "looks whether something was installed, in Python's own directories",
    ),
    **dict.fromkeys(
        [
            ("extras/table/src/reput_table/connections.py", "tempfile.TemporaryDirectory"),
            ("extras/table/src/reput_table/connections.py", "shutil.copyfile"),
        ],
        "a copy for a reader, outside of the store; SQLite opens its files by itself",
    ),
    (
        "extras/tools/src/reput_tools/offline/rebuilder/stagingarea.py",
        "tempfile.TemporaryDirectory",
    ): "files that are only compared, outside of a store that cannot be written",
}


WORDS = re.compile(rf"\b({'|'.join(MODULES)}|mmap)\b|\bopen\(")  # no file is used without


def name_of(node):
    """The dotted name of an expression; of others, no text."""
    if isinstance(node, ast.Attribute):
        return f"{name_of(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def file_calls(path):
    """``(line, name)`` of whatever a module uses of the modules that lead to files."""
    text = path.read_text()
    if not WORDS.search(text):
        return
    nodes = list(ast.walk(ast.parse(text)))
    inner = {node.value for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        if isinstance(node, ast.Attribute) and node not in inner:
            name = name_of(node)
            if name.split(".")[0] in MODULES and name not in HARMLESS:
                yield node.lineno, name
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES:
            yield node.lineno, f"from {node.module} import …"
        elif isinstance(node, ast.Call) and name_of(node.func) in ("open", "mmap.mmap"):
            yield node.lineno, name_of(node.func)


def test_files_are_opened_changed_and_looked_at_through_the_disk():
    forbidden = [
        (name, *found)
        for path in SOURCES
        if path not in FILE_MODULES
        for found in file_calls(path)
        if ((name := str(path.relative_to(ROOT))), found[1]) not in ALLOWED
    ]

    assert forbidden == [], "go through reput.files.Disk, or say here why not"


BOUND_LATER = {
    "core/src/reput/store/opening/openstore.py": "makes and flushes the directories above a store",
    "extras/spark/src/reput_spark/source/writer.py": "`stage_segment` binds it",
    "extras/spark/src/reput_spark/source/streamwriter.py": "it makes what is above a new store",
    "extras/arrow/src/reput_arrow/export/importer/importjob.py": "`write_task` binds it",
    "extras/arrow/src/reput_arrow/logwriter/writeplan.py": "the same, before the first task",
    "extras/arrow/src/reput_arrow/logwriter/publication/publish.py": "for `reput.open`",
}


def unbound_disks(path):
    """Lines on which a disk is made that is not bound to a store at once."""
    if not re.search(r"\bDisk\(", text := path.read_text()):
        return []
    nodes = list(ast.walk(ast.parse(text)))
    bound = {
        inner
        for node in nodes
        if isinstance(node, ast.Attribute) and node.attr == "at"
        for inner in ast.walk(node.value)
    }
    return [
        node.lineno
        for node in nodes
        if isinstance(node, ast.Call) and name_of(node.func) == "Disk" and node not in bound
    ]


def test_every_disk_is_bound_to_a_store():
    sources = [*SOURCES, *(ROOT / "extras/tools/src/reput_tools/offline").rglob("*.py")]
    sources += (ROOT / "extras/arrow/src").rglob("*.py")
    sources += (ROOT / "extras/spark/src").rglob("*.py")

    found = {
        str(path.relative_to(ROOT)): lines for path in sources if (lines := unbound_disks(path))
    }

    assert found.keys() == BOUND_LATER.keys(), "Disk().at(root), or say here why not"


def test_the_calls_of_the_modules_that_may_use_files_are_found():
    found = {name for module in FILE_MODULES for _, name in file_calls(module)}

    assert {"os.open", "os.pwrite", "os.replace", "fcntl.lockf", "mmap.mmap"} <= found
