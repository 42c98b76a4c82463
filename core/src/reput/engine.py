"""The one module that knows which engine runs the hot kernels: Python's, or ``reput-native``'s.

A kernel is a function of arrays in Python and numpy, marked with `kernel`: the readable
specification, which always works. If the distribution ``reput-native`` is installed, its function
of the same name replaces it, and calls it for arguments that the compiled one does not support.

The engine is chosen once, when this module is imported. ``REPUT_ENGINE=python`` or
``REPUT_ENGINE=native`` in the environment forces one.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable
from types import MemberDescriptorType, ModuleType
from typing import Any, Final, TypeVar, cast

import attrs

from reput.errors import ConfigError
from reput.installhints import install_command

logger = logging.getLogger(__name__)

VARIABLE: Final = "REPUT_ENGINE"
INTERFACE: Final = 25
"""Raised with every change of a kernel's arguments, answer or meaning; ``reput-native`` must have
the same number."""

_COMPILED: Final = "__compiled__"
_ENGINES: Final = ("native", "python")
_F = TypeVar("_F", bound=Callable[..., Any])
_C = TypeVar("_C", bound=type)


@attrs.frozen
class Engine:
    """The engine that runs the kernels."""

    name: str
    """``"native"`` or ``"python"``."""
    version: str | None
    """Of ``reput-native``, where it runs."""
    reason: str
    """Why it was chosen, for people."""

    def __str__(self) -> str:
        version = "" if self.version is None else f" {self.version}"
        return f"{self.name}{version} ({self.reason})"


def _load() -> tuple[ModuleType | None, str]:
    """Return the module of compiled kernels, or why it fails; no text if it is not installed."""
    try:
        import reput_native
    except ModuleNotFoundError as error:
        if error.name == "reput_native":
            return None, ""
        return None, f"reput-native cannot be loaded: {error}"
    except ImportError as error:
        return None, f"reput-native cannot be loaded: {error}"
    found = getattr(reput_native, "INTERFACE", None)
    if found != INTERFACE:
        return None, (
            f"reput-native {getattr(reput_native, '__version__', '')} has kernels of interface "
            f"{found}, and this reput calls interface {INTERFACE}; install both of one version"
        )
    return reput_native, ""


def _choose(asked: str) -> tuple[Engine, ModuleType | None]:
    """Return the engine, and the module of its kernels if they are compiled.

    Raises:
        ConfigError: an unknown engine, or the native one if it is missing or does not fit.
    """
    if asked not in ("", *_ENGINES):
        raise ConfigError("environment", VARIABLE, f"unknown engine {asked!r}", _ENGINES)
    if asked == "python":
        return Engine("python", None, f"{VARIABLE}=python"), None
    native, trouble = _load()
    if native is not None:
        reason = f"{VARIABLE}=native" if asked else "reput-native is installed"
        return Engine("native", native.__version__, reason), native
    if asked:
        missing = f"reput-native is not installed; {install_command('native')}"
        raise ConfigError("environment", VARIABLE, trouble or missing)
    if trouble:
        logger.warning("kernels run in Python reason=%s", trouble)
    return Engine("python", None, trouble or "reput-native is not installed"), None


_chosen: Final = _choose(os.environ.get(VARIABLE, ""))
ENGINE: Final = _chosen[0]
"""The engine that runs in this process."""


def kernel(reference: _F) -> _F:
    """Mark a function that the engine may replace.

    Args:
        reference: the specification, which runs if the engine has no function of its name.

    Returns:
        ``reference``, or a function that gives the same answers, and whose ``__wrapped__`` is
        ``reference``.
    """
    native = getattr(_chosen[1], reference.__name__, None)
    if native is None:
        return reference

    @functools.wraps(reference)
    def call(*arguments: Any, **named: Any) -> Any:
        answer = native(*arguments, **named) if named else native(*arguments)
        if answer is NotImplemented:  # the kernel does not support such arguments
            return reference(*arguments, **named)
        return answer

    setattr(call, _COMPILED, native)
    return cast("_F", call)


def compiled_of(function: _F) -> _F:
    """Return a function that `kernel` has marked as the engine has it, without a call in between.

    Returns:
        A function that may answer `NotImplemented`; the caller does without an answer then.
    """
    return getattr(function, _COMPILED, function)


def reference_of(function: _F) -> _F:
    """Return the specification in Python of a function that `kernel` has marked."""
    return getattr(function, "__wrapped__", function)


_LENT: Final = ("__eq__", "__hash__", "__reduce__", "__repr__")  # beside public members
REFERENCES: Final[dict[type, type]] = {}
"""Classes written in Python by the compiled classes that run in their place."""


def compiled(reference: _C) -> _C:
    """Mark a class that the engine may replace. No class may derive from it.

    Args:
        reference: the specification, used if the engine has no class of its name. The engine's
            class gets the public methods and properties that it lacks from here; these may use
            public ones only.

    Returns:
        ``reference``, or a class with the same methods and attributes.
    """
    native: Any = getattr(_chosen[1], reference.__name__, None)
    if native is None:
        return reference
    REFERENCES[native] = reference
    for name, member in vars(reference).items():
        is_lent = name in _LENT or not name.startswith("_")
        if is_lent and name not in vars(native) and not isinstance(member, MemberDescriptorType):
            setattr(native, name, member)
    native.__doc__ = reference.__doc__
    return cast("_C", native)
