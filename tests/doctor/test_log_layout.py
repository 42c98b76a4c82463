"""`lay_out`: a file's place follows from all that it holds, not from its first bytes."""

from __future__ import annotations

import shutil

import pytest

import reput
from reput.files import Disk
from reput_tools.doctor.repair.loglayout import lay_out
from reput_tools.doctor.repair.statedbases import counted_bases, sampled_bases

SIZE = 1 << 16
CONFIG = {"commitlog": {"file_size": SIZE}}


@pytest.fixture
def root(tmp_path):
    """A store with five log files of 64 KiB or more."""
    path = tmp_path / "store"
    with reput.open(path, plugins=[], config=CONFIG, threads=False) as store:
        for number in range(400):
            store.put(reput.Message("t", b"<%d>" % number + b"x" * 700))
    return path


def files_of(root):
    return sorted((root / "commitlog").iterdir())


def places(root):
    return {part.base: part.path for part in lay_out(str(root), Disk(), SIZE).parts}


def notices(root):
    return [(each.file, each.kind) for each in lay_out(str(root), Disk(), SIZE).notices]


@pytest.mark.parametrize("size", [4_096, SIZE // 3])
@pytest.mark.parametrize("source", [0, 1, 2], ids=["older file", "file before", "file itself"])
@pytest.mark.parametrize("at", [0, 900], ids=["head", "after a record"])
def test_bytes_of_another_place_in_front_do_not_move_a_file(root, size, source, at):
    files = files_of(root)
    foreign = files[source].read_bytes()[SIZE // 2 - size // 3 :][:size]
    data = bytearray(files[2].read_bytes())
    data[at : at + len(foreign)] = foreign
    files[2].write_bytes(data)

    assert places(root) == {int(each.name): str(each) for each in files}
    assert notices(root) == []


def test_the_head_of_the_file_before_makes_no_second_copy_of_it(root):
    files = files_of(root)
    data = files[2].read_bytes()
    files[2].write_bytes(files[1].read_bytes()[:4_096] + data[4_096:])

    assert places(root) == {int(each.name): str(each) for each in files}


def test_a_file_keeps_its_place_though_most_of_it_is_of_another_one(root):
    files = files_of(root)
    kept = files[2].read_bytes()[-SIZE // 4 :]
    files[2].write_bytes(files[1].read_bytes()[: -SIZE // 4] + kept)

    assert places(root) == {int(each.name): str(each) for each in files}


def test_of_two_files_for_one_place_the_one_with_more_records_is_taken(root):
    files = files_of(root)
    copy = files[2].with_name("copy")
    shutil.copy(files[2], copy)
    files[2].write_bytes(bytes(SIZE // 2) + files[2].read_bytes()[SIZE // 2 :])

    assert places(root)[2 * SIZE] == str(copy)
    assert notices(root) == [
        ("commitlog/copy", "log-file.renamed"),
        (f"commitlog/{files[2].name}", "log-file.doubled"),
    ]


def test_a_renamed_file_gets_its_name_back(root):
    files = files_of(root)
    files[2].rename(files[2].with_name("lost"))

    assert places(root)[2 * SIZE].endswith("/lost")
    assert notices(root) == [("commitlog/lost", "log-file.renamed")]


def test_exchanged_files_are_found_by_what_they_hold(root):
    files = files_of(root)
    one, other = files[1].read_bytes(), files[2].read_bytes()
    files[1].write_bytes(other)
    files[2].write_bytes(one)

    assert places(root)[SIZE] == str(files[2])
    assert places(root)[2 * SIZE] == str(files[1])


@pytest.mark.costly
def test_samples_of_a_large_file_agree_with_all_of_it(tmp_path):
    size = 4 << 20
    config = {"commitlog": {"file_size": size}}
    with reput.open(tmp_path / "store", plugins=[], config=config, threads=False) as store:
        while store.log.max_physical_offset < 2 * size:
            store.put(reput.Message("t", b"x" * 3_000))
    second = tmp_path / "store" / "commitlog" / f"{size:020}"

    assert set(sampled_bases(Disk(), str(second), size)) == {size}
    assert set(counted_bases(Disk(), str(second), size)) == {size}
