"""A checkpoint that cannot be read is named, by its own path, and stops no other check."""

from __future__ import annotations

import errno
import os

import reput
from reput.files import Disk
from reput_tools import doctor


def test_a_checkpoint_that_cannot_be_read_is_named_and_stops_no_check(tmp_path, monkeypatch):
    root, scratch, opens = tmp_path / "store", tmp_path / "scratch", Disk.open
    scratch.mkdir()
    with reput.open(root, plugins={"consumequeue"}) as store:
        store.put(reput.Message("t", b"body"))

    def open_others(disk, path, *arguments, **options):
        if str(path).endswith("checkpoint") and os.path.exists(path):
            raise OSError(errno.EIO, "Input/output error", str(path))
        return opens(disk, path, *arguments, **options)

    monkeypatch.setattr(Disk, "open", open_others)
    report = doctor.verify(root, jobs=1, scratch=str(scratch))

    assert [each.kind for each in report.findings] == ["checkpoint.unreadable"]
    assert list(report.checked.plugins) == ["consumequeue"]
    assert str(scratch) not in repr(report)
