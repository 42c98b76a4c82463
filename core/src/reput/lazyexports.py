"""Packages that import each of their public names when it is first used.

Importing such a package imports no other module, so that ``import reput`` is quick. Its
``__init__`` imports the public names for type checkers, one a line and each under the same name:
``from reput.record.batch import DispatchBatch as DispatchBatch``. Everything else in the package
may change in any release.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any


def lazy_exports(
    package: str, others: Mapping[str, str] = MappingProxyType({})
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for such a package; it gets ``__all__``, too.

    Args:
        package: the package's full name.
        others: more names, each with ``module:name``; or with ``module:`` for a module, which
            ``import *`` does not bring.
    """

    @functools.cache
    def exports() -> dict[str, str]:
        return {**_listed(package), **others}

    def get(name: str) -> Any:
        if name == "__all__":
            value: Any = [each for each, place in exports().items() if not place.endswith(":")]
        elif name in exports():
            module, _, real = exports()[name].partition(":")
            try:
                value = importlib.import_module(module)
            except ModuleNotFoundError as error:
                raise _with_command(error) from None
            value = getattr(value, real) if real else value
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)  # later uses do not call this function
        return value

    return get, lambda: sorted(sys.modules[package].__all__)


def _listed(package: str) -> dict[str, str]:
    """Return the names that a package's ``__init__`` imports as themselves, with their places."""
    found, module = {}, ""
    try:
        with open(str(sys.modules[package].__file__), encoding="utf-8") as source:
            lines = source.readlines()
    except (OSError, ValueError):  # in an archive, or without its source
        return _compiled(package)
    for line in lines:
        match line.split():
            case ["from", module, "import", name, "as", other, *_] if name == other:
                found[name] = f"{module}:{name}"
            case ["from", module, "import", "("]:
                pass  # the name follows, as the line would be too long
            case [name, "as", other] if other == f"{name},":
                found[name] = f"{module}:{name}"
    return found


def _compiled(package: str) -> dict[str, str]:
    """Return the same by the package's code."""
    import dis

    loader: Any = sys.modules[package].__loader__
    found, module = {}, ""
    for each in dis.get_instructions(loader.get_code(package)):
        if each.opname == "IMPORT_NAME":
            module = each.argval
        elif each.opname == "IMPORT_FROM" and module not in ("__future__", "typing", __name__):
            found[each.argval] = f"{module}:{each.argval}"
    return found


def _with_command(error: ModuleNotFoundError) -> ModuleNotFoundError:
    """Return an error that also has the command to install a distribution of reput."""
    from reput.installhints import install_missing

    command = install_missing(error.name)
    return error if command is None else ModuleNotFoundError(f"{error}: {command}", name=error.name)
