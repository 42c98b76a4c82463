"""The writer's lock: one writer, whatever else its process does with the files."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
import sys
import textwrap

import pytest

import reput
from reput.errors import StoreLockedError
from reput.files.system.disk import Disk
from reput.store.directory.storelock import StoreLock

pytestmark = pytest.mark.shows("lock")

HOLD = """
    from reput.files.system.disk import Disk
    from reput.store.directory.storelock import StoreLock
    StoreLock(sys.argv[1] + '/lock', sys.argv[1], Disk()).acquire()
"""
HOLD_AS_JAVA = """
    import fcntl
    file = open(sys.argv[1] + '/lock', 'w+b')
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
    file.write(b'lock')
    file.flush()
"""
TAKE_AS_JAVA = """
    import fcntl
    fcntl.lockf(open(sys.argv[1] + '/lock', 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
"""


SHARE = """
    import fcntl
    fcntl.lockf(open(sys.argv[1] + '/lock', 'rb'), fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 0)
"""


class ProcessLocksOnly(Disk):
    """A disk on a system that knows no locks of open files."""

    def lock(self, descriptor):
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except BlockingIOError:
            return False
        return True


def lock_of(root, disk=None):
    return StoreLock(str(root / "lock"), str(root), disk or Disk())


def program_of(text):
    return "import sys\n" + textwrap.dedent(text)


def holding(root, text=HOLD):
    """A process that runs ``text`` and then waits for the end of its input."""
    program = program_of(text) + "print('held', flush=True)\nsys.stdin.read()\n"
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    return process


def succeeds(root, text):
    """Whether a process of its own can do that."""
    done = subprocess.run(
        [sys.executable, "-c", program_of(text), str(root)], capture_output=True, text=True
    )
    return done.returncode == 0


@pytest.mark.parametrize("disk", [Disk(), ProcessLocksOnly()], ids=["open-file", "process"])
def test_a_second_writer_in_this_process_is_refused_and_a_later_one_is_not(tmp_path, disk):
    first, second = lock_of(tmp_path, disk), lock_of(tmp_path, disk)
    first.acquire()

    with pytest.raises(StoreLockedError) as caught:
        second.acquire()
    first.release()
    second.acquire()
    second.release()

    assert caught.value.holder_pid == os.getpid()
    assert (tmp_path / "lock").read_bytes()[:4] == b"lock"


def test_a_writer_in_another_process_is_named_by_its_pid(tmp_path):
    with holding(tmp_path) as holder:
        with pytest.raises(StoreLockedError, match=f"process {holder.pid}"):
            lock_of(tmp_path).acquire()
        assert lock_of(tmp_path).is_taken()
        holder.communicate("")

    later = lock_of(tmp_path)
    assert not later.is_taken()
    later.acquire()
    later.release()


@pytest.mark.costly
def test_a_copy_made_by_the_writers_process_does_not_give_up_its_lock(tmp_path):
    root = tmp_path / "store"
    with reput.open(root, plugins=[]) as store:
        store.put(reput.Message("T", b"x"))

        shutil.copytree(root, tmp_path / "copy")
        (root / "lock").read_bytes()

        assert not succeeds(root, HOLD)
        assert not succeeds(root, TAKE_AS_JAVA)
        assert lock_of(root).is_taken()
    assert succeeds(root, HOLD)


def test_a_lock_as_java_takes_it_keeps_us_out_and_is_kept_out_by_ours(tmp_path):
    with holding(tmp_path, HOLD_AS_JAVA) as java:
        with pytest.raises(StoreLockedError, match=f"process {java.pid}"):
            lock_of(tmp_path).acquire()
        assert lock_of(tmp_path).is_taken()
        java.communicate("")
    ours = lock_of(tmp_path)
    ours.acquire()

    assert not succeeds(tmp_path, TAKE_AS_JAVA)

    ours.release()
    assert succeeds(tmp_path, TAKE_AS_JAVA)


class ReadOnly(Disk):
    """A disk whose files may only be read."""

    number = errno.EROFS

    def open(self, path, *, write=False, create=False, fresh=False):
        if write or create:
            raise OSError(self.number, os.strerror(self.number), path)
        return super().open(path)


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EPERM])
@pytest.mark.costly
def test_who_may_only_read_keeps_writers_out_and_others_who_read_in(tmp_path, number):
    disk = ReadOnly()
    disk.number = number
    (tmp_path / "lock").write_bytes(b"lock")
    lock = lock_of(tmp_path, disk)

    with pytest.raises(OSError, match="lock"):
        lock.acquire()
    lock.acquire(writes=False)

    assert not succeeds(tmp_path, HOLD)
    assert not succeeds(tmp_path, TAKE_AS_JAVA)
    assert succeeds(tmp_path, SHARE)
    lock.release()
    assert succeeds(tmp_path, HOLD)


@pytest.mark.parametrize("text", [HOLD, HOLD_AS_JAVA], ids=["reput", "java"])
def test_who_may_only_read_is_kept_out_by_a_writer(tmp_path, text):
    with holding(tmp_path, text) as holder:
        with pytest.raises(StoreLockedError):
            lock_of(tmp_path, ReadOnly()).acquire(writes=False)
        holder.communicate("")


@pytest.mark.parametrize("began", [0, 1], ids=["of-no-process", "of-a-later-process"])
def test_a_writer_is_not_named_by_what_an_earlier_one_left_in_the_file(tmp_path, began):
    (tmp_path / "lock").write_bytes(b"lock" + b" " * 33)
    pid = 1 << 30 if not began else os.getpid()
    said = f"lock {pid:>10} {began:>20}\n"

    with holding(tmp_path) as holder:
        (tmp_path / "lock").write_text(said)
        with pytest.raises(StoreLockedError, match="another process") as caught:
            lock_of(tmp_path).acquire()
        holder.communicate("")

    assert caught.value.holder_pid is None
