"""How to install the distributions of reput: from a checkout, as no package index has them."""

from __future__ import annotations

from typing import Final

_CHECKOUT: Final = "(in a checkout of reput)"
_EXTRAS: Final = frozenset(
    {"aio", "arrow", "client", "server", "spark", "table", "testing", "tools", "web"}
)
_TOP: Final = frozenset({"core", "native"})


def install_command(*names: str) -> str:
    """Return the command that installs distributions from the folders of a checkout.

    A command with names alone would ask a package index, where another author may own the name.

    Args:
        names: of distributions, without ``reput-``; of a plugin its name. Extras may follow in
            brackets.
    """
    return f"pip install {' '.join(map(_argument, names))} {_CHECKOUT}"


def install_missing(module: str | None) -> str | None:
    """Return the command that installs the distribution of a module; None if it is not reput's.

    Args:
        module: the name of an import that failed, such as ``reput_table.schema``.
    """
    name = (module or "").partition(".")[0].removeprefix("reput_")
    known = module is not None and module.startswith("reput_") and name in _EXTRAS | _TOP
    return install_command(name) if known else None


def install_extra(name: str, extra: str) -> str:
    """Return the command that installs a distribution with one of its extras."""
    return install_command(f"{name}[{extra}]")


def extra_needed(subject: str, module: str | None, name: str, extra: str) -> str:
    """Return that something needs a module which an extra installs, and how to install it.

    Args:
        subject: what needs the module, such as a command or an option.
        module: the name of the import that failed.
        name: of the distribution, as for `install_command`.
        extra: of the distribution; the wheel ``reput_all`` has one of the same name.
    """
    return (
        f"{subject} needs {module}, a part of reput-{name}[{extra}]: {install_extra(name, extra)}, "
        f"or, for the wheel reput_all, reput_all-….whl[{extra}]"
    )


def _argument(name: str) -> str:
    name, bracket, extras = name.partition("[")
    return f"'{_folder(name)}[{extras}'" if bracket else _folder(name)


def _folder(name: str) -> str:
    if name in _TOP:
        return f"./{name}"
    return f"./extras/{name}" if name in _EXTRAS else f"./plugins/{name}"
