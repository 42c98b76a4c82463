"""`settled`: answers from the timer's files while another process may be changing them.

A writer that opens the store after a kill cuts records of the timer log, removes the wheel and
files, and writes others. Each file is right by itself at any moment; a slot that was read before
and a record that is read after the cut do not fit together. The reader looks again then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from reput.errors import CorruptFileError

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput_schedule.timerwheel.files.timerfiles import TimerFiles

_Answer = TypeVar("_Answer")
_LOOKS_MAX: Final = 100  # a writer cuts the files once, at its opening


def settled(
    look: Callable[[], object],
    ask: Callable[[], _Answer],
    seen: Callable[[], tuple[TimerFiles, bytes]],
) -> _Answer:
    """Return ``ask()`` of files that fit together.

    An error that is found twice in a row, under the same checkpoint, is damage: a writer changes
    the checkpoint before it cuts anything, and after that the wheel is made of what the log still
    has.

    Args:
        look: reads which files there are, the checkpoint and the wheel.
        ask: reads records and answers.
        seen: returns the files and the checkpoint's bytes, as ``look`` found them.

    Raises:
        CorruptFileError: a chain of a slot leads astray, or the files do not fit together as often
            as they were looked at.
    """
    before: tuple[str, bytes] | None = None
    for _ in range(_LOOKS_MAX):
        look()
        try:
            answer = ask()
        except CorruptFileError as error:
            _, checkpoint = seen()
            if before == (str(error), checkpoint):
                raise
            before = str(error), checkpoint
        else:
            files, _ = seen()
            # Without its first file, a log that is read afterwards seems to be empty.
            if files.log.has_first():
                return answer
    files, _ = seen()
    raise CorruptFileError(
        files.log.directory,
        0,
        f"the files of the timer did not fit together in {_LOOKS_MAX} looks"
        f"{f' ({before[0]})' if before is not None else ', as the first file is missing'}; "
        "if a writer is opening the store, try again; else restore the directory",
    )
