"""`spread`: each worker of pytest-xdist begins to collect at another folder of tests.

All workers collect all tests. Where nothing is cached (a fresh clone, another interpreter), each of
them would rewrite the assertions of the same module at the same time, half a minute of processor
time apiece. A worker that begins elsewhere finds in the cache what the others have rewritten.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


def spread(config: Any) -> list[str]:
    """Let a worker begin at its share of the folders; return the folders in their usual order.

    The list is empty where there is nothing to spread: no worker, or single files are named.
    """
    given = getattr(config, "workerinput", None)
    if given is None or any(not Path(each).is_dir() for each in config.args):
        return []
    ignored = {Path(each).resolve() for each in config.getoption("ignore") or ()}
    folders = [
        folder
        for each in config.args
        for folder in _inside(Path(each))
        if folder.resolve() not in ignored
    ]
    number = int(given["workerid"].removeprefix("gw"))
    begin = _begin(folders, number / given["workercount"])
    config.args[:] = [str(each) for each in folders[begin:] + folders[:begin]]
    return [f"{each.resolve()}/" for each in folders]


def in_order(items: list[Any], folders: list[str]) -> None:
    """Sort the tests by their folders, as all workers have to agree on an order."""
    order: dict[Path, int] = {}
    for path in {item.path for item in items}:
        order[path] = next(n for n, each in enumerate(folders) if str(path).startswith(each))
    items.sort(key=lambda item: order[item.path])


def _inside(folder: Path) -> list[Path]:
    """Return the folders in a folder, or the folder itself if it has tests of its own."""
    if any(folder.glob("test_*.py")):
        return [folder]
    return sorted(each for each in folder.iterdir() if each.is_dir() and each.name[0] not in "._")


def _begin(folders: list[Path], share: float) -> int:
    """Return the first folder behind a share of the bytes of all sources."""
    sizes = [sum(file.stat().st_size for file in each.rglob("test_*.py")) for each in folders]
    return next((n for n in range(len(sizes)) if sum(sizes[:n]) >= share * sum(sizes)), 0)
