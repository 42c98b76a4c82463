"""Import every module of a package: what is installed suffices for it, and no import fails.

python packaging/importall.py reput_index
"""

from __future__ import annotations

import importlib
import pkgutil
import sys


def main(name: str) -> int:
    """Import the package and all modules below it, except programs."""
    package = importlib.import_module(name)
    found = [
        each.name
        for each in pkgutil.walk_packages(package.__path__, f"{name}.")
        if not each.name.endswith("__main__")
    ]
    for each in found:
        importlib.import_module(each)
    sys.stdout.write(f"{name}: {len(found)} modules imported\n")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
