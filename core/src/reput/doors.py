"""Doors: packages that import each of their names when it is first used.

What a door lists in ``__all__`` stays; everything else in the package may change in any release.
Nothing is imported with a door but itself: ``import reput`` is quick, and a plugin pays for what it
uses.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["door"]


def door(
    package: str, homes: Mapping[str, str], former: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package that is a door.

    Args:
        package: its full name.
        homes: for each name the module below the package that has it; ``module:name`` where it has
            another name there.
        former: names of the release before, with what each is called now; using one is a warning.
    """
    renamed = former or {}

    def get(name: str) -> Any:
        if name in renamed:
            message = f"{package}.{name} is called {package}.{renamed[name]} now"
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            return getattr(sys.modules[package], renamed[name])
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, real = home.partition(":")
        value = getattr(importlib.import_module(f"{package}.{module}"), real or name)
        setattr(sys.modules[package], name, value)  # from now on without this function
        return value

    def names() -> list[str]:
        return sorted(vars(sys.modules[package]).keys() | homes.keys())

    return get, names
