"""Packages that import each of their public names when it is first used.

The names in ``__all__`` are public; everything else in the package may change in any release.
Importing such a package imports no other module, so that ``import reput`` is quick.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["lazy_exports"]


def lazy_exports(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for such a package.

    Args:
        package: the package's full name.
        modules: for each name its module, relative to the package, or beginning with ``reput.``
            or ``reput_``; ``module:name`` if the name there is another one, and ``module:`` for the
            module itself.
    """

    def get(name: str) -> Any:
        found = modules.get(name)
        if found is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, is_other, real = found.partition(":")
        path = module if module.startswith(("reput.", "reput_")) else f"{package}.{module}"
        try:
            value = importlib.import_module(path)
        except ModuleNotFoundError as error:
            raise _with_command(error) from None
        if real or not is_other:
            value = getattr(value, real or name)
        setattr(sys.modules[package], name, value)  # later uses do not call this function
        return value

    def names() -> list[str]:
        return sorted(vars(sys.modules[package])["__all__"])

    return get, names


def _with_command(error: ModuleNotFoundError) -> ModuleNotFoundError:
    """Return an error that also has the command to install a distribution of reput."""
    from reput.installhints import install_missing

    command = install_missing(error.name)
    return error if command is None else ModuleNotFoundError(f"{error}: {command}", name=error.name)
