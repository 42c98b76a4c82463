"""Whether this interpreter is one that the kernels are made for; asked before they are loaded."""

from __future__ import annotations

import sysconfig


def check() -> None:
    """Raise where the kernels must not be loaded.

    Raises:
        ImportError: a build of CPython without the interpreter lock, by which kernels keep others
            away from what they read; or an interpreter beside the first one of its process, as
            their classes are one set for all.
    """
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise ImportError(
            "its kernels need the interpreter lock, which this build of CPython does not have"
        )
    if not _is_first():
        raise ImportError("its kernels run in the first interpreter of a process only")


def _is_first() -> bool:
    try:
        import _interpreters as interpreters  # its name from 3.13 on
    except ImportError:
        try:
            import _xxsubinterpreters as interpreters
        except ImportError:
            return True  # a CPython that can make no other
    return bool(interpreters.get_current() == interpreters.get_main())
