"""`CodedError`: what exports, imports and writes raise; each text begins with a code.

Spark keeps only the text of an exception that is raised in one of its Python workers, and by the
code a caller who catches Spark's own error tells ours: there the same error is `SparkReputError`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import attrs

from reput.errors import (
    ConfigError,
    CorruptFileError,
    ReputError,
    StoreNotFoundError,
    UnsafePathError,
)


@attrs.define(eq=False, slots=False)
class CodedError(ReputError):
    """An option, a path or a log that cannot be used; the text begins with ``[REPUT_…]``."""

    code: str
    """``OPTION``, ``NO_LOG``, ``DAMAGED``, ``DATA_LOSS``, ``JAVA``, ``JOB``, ``LOCKED``,
    ``NO_TOPIC``, ``ROW`` (one that no message can be) or ``UNSAFE`` (a link in the store that
    leads elsewhere)."""
    reason: str

    def __str__(self) -> str:
        return f"[REPUT_{self.code}] {self.reason}"


@contextlib.contextmanager
def with_code() -> Iterator[None]:
    """Give errors of the core a code where they leave for Spark, or for the caller.

    Raises:
        CodedError: in the place of an `UnsafePathError`.
    """
    try:
        yield
    except UnsafePathError as error:
        reason = f"{error}" + ("; with Spark, by the option follow_links" if error.advice else "")
        raise CodedError("UNSAFE", reason) from error


@contextlib.contextmanager
def reading_with_code() -> Iterator[None]:
    """Give errors of `reput_arrow` a code where a read leaves for Spark, or for the caller.

    Raises:
        CodedError: in the place of an error of an option, a path or a damaged log.
    """
    try:
        yield
    except ConfigError as error:
        raise CodedError("OPTION", str(error)) from error
    except StoreNotFoundError as error:
        raise CodedError("NO_LOG", str(error)) from error
    except CorruptFileError as error:
        raise CodedError("DAMAGED", str(error)) from error


def code_of(error: BaseException) -> str | None:
    """Return the code in an exception's text, ours or Spark's around ours; None without one."""
    text = str(error)
    place = text.find("[REPUT_")
    if place < 0:
        return None
    return text[place + len("[REPUT_") :].partition("]")[0]
