"""How to install the distributions of reput: from a checkout, as no package index has them."""

from __future__ import annotations

from typing import Final

__all__ = ["install_command", "install_extra"]

_CHECKOUT: Final = "(in a checkout of reput)"
_EXTRAS: Final = frozenset(
    {"arrow", "cli", "doctor", "export", "metrics", "offline", "remoting", "table", "testing"}
)
_TOP: Final = frozenset({"client", "core", "follow", "grpc", "native", "server", "spark"})


def install_command(*names: str) -> str:
    """Return the command that installs distributions from the folders of a checkout.

    A command with names alone would ask a package index, where another author may own the name.

    Args:
        names: of distributions, without ``reput-``; of a plugin its name.
    """
    return f"pip install {' '.join(map(_folder, names))} {_CHECKOUT}"


def install_extra(name: str, extra: str) -> str:
    """Return the command that installs a distribution with one of its extras.

    Args:
        name: of the distribution, as for `install_command`.
        extra: one that brings packages of other authors.
    """
    return f"pip install '{_folder(name)}[{extra}]' {_CHECKOUT}"


def _folder(name: str) -> str:
    if name in _TOP:
        return f"./{name}"
    return f"./extras/{name}" if name in _EXTRAS else f"./plugins/{name}"
