"""Files that do not belong to a log, or not where they are: an error that helps, or no harm."""

from __future__ import annotations

import os
import shutil
import socket

import pytest
from damaged_logs import FILE_SIZE, offsets, open_store

import reput
from reput.errors import CorruptFileError, CreateMappedFileError, ReputError
from reput.files.filenames import file_name
from reput_testing import ReadOnlyDisk, open_files_under, snapshot

pytestmark = pytest.mark.shows("damaged-file")


@pytest.fixture
def store_path(tmp_path):
    """A closed store of four files."""
    with open_store(tmp_path / "store") as store:
        for number in range(60):
            store.put(reput.Message("T", b"%03d" % number * 50))
        assert store.log.file_count == 4
    return tmp_path / "store"


def _file(store_path, number):
    return store_path / "commitlog" / file_name(number * FILE_SIZE)


def _expected(store_path):
    with open_store(store_path, "r") as store:
        return offsets(store)


# ------------------------------------------------------------------ sizes


WRONG_SIZES = [(3, 1), (3, FILE_SIZE - 1), (3, FILE_SIZE + 1), (1, 0), (0, 0), (1, 77)]


@pytest.mark.parametrize(("number", "size"), WRONG_SIZES)
def test_a_file_of_a_wrong_size_is_an_error_that_says_what_to_do(store_path, number, size):
    os.truncate(_file(store_path, number), size)
    before = snapshot(store_path / "commitlog")

    with pytest.raises(CorruptFileError, match="put back the") as caught:
        open_store(store_path)

    if number > 0 or size:
        assert caught.value.path == str(_file(store_path, number))
    assert snapshot(store_path / "commitlog") == before
    assert not open_files_under(store_path)


@pytest.mark.parametrize(("number", "size"), WRONG_SIZES)
def test_a_reader_passes_over_a_file_of_a_wrong_size_and_says_so(store_path, number, size):
    expected = _expected(store_path)
    os.truncate(_file(store_path, number), size)
    before = snapshot(store_path / "commitlog")

    with open_store(store_path, "r") as store:
        problems = list(store.problems)
        found = offsets(store)

    assert problems
    assert set(found) <= set(expected)
    assert snapshot(store_path / "commitlog") == before


def test_an_empty_last_file_is_one_that_a_crash_left(store_path):
    os.truncate(_file(store_path, 3), 0)

    with open_store(store_path) as store:
        assert store.log.max_physical_offset <= 3 * FILE_SIZE
        assert store.put(reput.Message("T", b"x" * 300)).physical_offset == 3 * FILE_SIZE


def test_a_missing_file_in_the_middle_is_an_error_that_names_it(store_path):
    _file(store_path, 2).unlink()

    with pytest.raises(CorruptFileError, match=file_name(2 * FILE_SIZE)):
        open_store(store_path)


# ------------------------------------------------------------------ names


def test_files_of_other_names_are_left_alone(store_path):
    expected = _expected(store_path)
    others = ["notes.txt", "0", ".hidden", file_name(0) + ".bak", "x" * 20, "0" * 19 + "²"]
    for name in others:
        (store_path / "commitlog" / name).write_bytes(b"mine")

    for mode in ("r", "w"):
        with open_store(store_path, mode) as store:
            assert offsets(store) == expected

    for name in others:
        assert (store_path / "commitlog" / name).read_bytes() == b"mine"


@pytest.mark.parametrize("mode", ["w", "r"])
def test_files_that_changed_names_are_an_error_that_says_so(store_path, mode):
    _file(store_path, 3).rename(store_path / "other")
    _file(store_path, 2).rename(_file(store_path, 3))
    (store_path / "other").rename(_file(store_path, 2))
    before = snapshot(store_path / "commitlog")

    with pytest.raises(CorruptFileError, match=f"say that it is {file_name(3 * FILE_SIZE)}"):
        open_store(store_path, mode)

    assert snapshot(store_path / "commitlog") == before


def test_a_sole_file_that_was_renamed_is_an_error_that_says_so(store_path):
    for number in (0, 1, 2):
        _file(store_path, number).unlink()
    _file(store_path, 3).rename(_file(store_path, 0))

    with pytest.raises(CorruptFileError, match=f"say that it is {file_name(3 * FILE_SIZE)}"):
        open_store(store_path)


def test_files_in_the_middle_that_changed_names_show_no_wrong_message(tmp_path):
    with open_store(tmp_path) as store:
        for number in range(100):
            store.put(reput.Message("T", b"%03d" % number * 50))
        expected = offsets(store)
    _file(tmp_path, 1).rename(tmp_path / "other")
    _file(tmp_path, 2).rename(_file(tmp_path, 1))
    (tmp_path / "other").rename(_file(tmp_path, 2))

    with open_store(tmp_path, "r") as store:
        batches = [(batch.finding, batch.physical_offset.tolist()) for batch in store.scan()]
        found = [offset for _, rows in batches for offset in rows]
        assert any(finding is not None for finding, _ in batches)
        assert found == [offset for offset in expected if not FILE_SIZE <= offset < 3 * FILE_SIZE]
        with pytest.raises(ReputError):
            store.get(FILE_SIZE)


def test_one_damaged_offset_is_damage_and_no_renamed_file(store_path):
    expected = _expected(store_path)
    with open(_file(store_path, 3), "r+b") as file:
        file.seek(28)
        file.write((7 * FILE_SIZE).to_bytes(8, "big"))

    with open_store(store_path, "r") as store:
        assert offsets(store) == [offset for offset in expected if offset != 3 * FILE_SIZE]


# ------------------------------------------------------------------ what is no file


def _make_fifo(path):
    os.mkfifo(path)


def _make_socket(path):
    # A socket's path may have about a hundred characters: bound by a name in its directory.
    here = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def _make_directory(path):
    path.mkdir()


def _fill_last_file(store):
    last = store.log.files.bases[-1]
    while last + FILE_SIZE - store.log.max_physical_offset > 700:
        store.put(reput.Message("T", b"x" * 500))


@pytest.mark.parametrize("make", [_make_fifo, _make_socket, _make_directory])
def test_what_is_no_file_but_named_like_one_is_neither_opened_nor_replaced(store_path, make):
    expected = _expected(store_path)
    path = _file(store_path, 4)
    make(path)
    kind = os.lstat(path).st_mode

    for mode in ("r", "w"):
        with open_store(store_path, mode) as store:
            assert offsets(store) == expected
            if mode == "w":
                _fill_last_file(store)
                with pytest.raises(CreateMappedFileError, match=path.name):
                    store.put(reput.Message("T", b"x" * 700))

    assert os.lstat(path).st_mode == kind


@pytest.mark.parametrize("make", [_make_fifo, _make_socket, _make_directory])
def test_what_is_no_file_in_the_middle_is_a_missing_file(store_path, make):
    _file(store_path, 1).unlink()
    make(_file(store_path, 1))

    with pytest.raises(CorruptFileError, match=f"missing: {file_name(FILE_SIZE)}"):
        open_store(store_path)


@pytest.mark.parametrize("make", [_make_fifo, _make_socket, _make_directory])
@pytest.mark.parametrize("name", ["checkpoint", "abort", "lock", "reput/state"])
def test_a_small_file_that_is_no_file_does_not_block(store_path, name, make):
    expected = _expected(store_path)
    path = store_path / name
    path.unlink(missing_ok=True)
    make(path)

    for mode in ("r", "w"):
        found, refusal = [], None
        try:
            with open_store(store_path, mode) as store:
                found = offsets(store)
        except (OSError, ReputError) as error:
            refusal = str(error)
        assert found == expected if refusal is None else path.name in refusal


# ------------------------------------------------------------------ links


def test_a_file_that_is_a_link_works_and_what_it_leads_to_is_not_removed(store_path, tmp_path):
    expected = _expected(store_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for number in (1, 3):
        shutil.move(_file(store_path, number), elsewhere / str(number))
        _file(store_path, number).symlink_to(elsewhere / str(number))

    with open_store(store_path, follow_links=True) as store:
        assert offsets(store) == expected
        store.put(reput.Message("T", b"goes through the link"))
        store.log.files.trim(2 * FILE_SIZE)

    assert not _file(store_path, 1).is_symlink()
    assert (elsewhere / "1").stat().st_size == FILE_SIZE
    assert b"goes through the link" in (elsewhere / "3").read_bytes()


def test_a_link_that_is_cut_is_moved_and_not_what_it_leads_to(store_path, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    shutil.move(_file(store_path, 3), elsewhere)
    _file(store_path, 3).symlink_to(elsewhere)
    before = elsewhere.read_bytes()

    with open_store(store_path, follow_links=True) as store:
        store.log.files.truncate(FILE_SIZE + 100)

    assert elsewhere.read_bytes() == before


@pytest.mark.parametrize("mode", ["w", "r"])
def test_a_link_that_leads_to_nothing_is_an_error_that_names_it(store_path, tmp_path, mode):
    _file(store_path, 3).rename(tmp_path / "unmounted")
    _file(store_path, 3).symlink_to(tmp_path / "nowhere")

    with pytest.raises(CorruptFileError, match="target does not exist") as caught:
        open_store(store_path, mode, follow_links=True)

    assert caught.value.path == str(_file(store_path, 3))
    assert _file(store_path, 3).is_symlink()


@pytest.mark.parametrize("what", ["", "commitlog", "reput"])
def test_a_directory_that_is_a_link_works(store_path, tmp_path, what):
    expected = _expected(store_path)
    real, link = tmp_path / "real", store_path / what if what else store_path
    shutil.move(link, real)
    link.symlink_to(real, target_is_directory=True)

    with open_store(store_path, follow_links=bool(what)) as store:
        assert offsets(store) == expected
        for _ in range(30):
            store.put(reput.Message("T", b"x" * 500))
        expected = offsets(store)
        with pytest.raises(ReputError, match="being written"):
            open_store(tmp_path / "real" if not what else store_path, follow_links=True)

    assert link.is_symlink()
    with open_store(store_path, "r", follow_links=bool(what)) as store:
        assert offsets(store) == expected


# ------------------------------------------------------------------ rights


def test_a_store_that_cannot_be_written_is_an_error_that_names_the_path_and_can_be_read(
    store_path,
):
    expected = _expected(store_path)

    with pytest.raises(OSError, match="reading only") as caught:
        open_store(store_path, disk=ReadOnlyDisk())
    assert str(store_path) in str(caught.value)

    with open_store(store_path, "r", disk=ReadOnlyDisk()) as store:
        assert offsets(store) == expected


@pytest.mark.skipif(os.geteuid() == 0, reason="rights do not bind the superuser")
@pytest.mark.parametrize("what", ["commitlog/" + file_name(3 * FILE_SIZE), "", "reput"])
def test_without_the_rights_to_write_the_error_names_the_path(store_path, what):
    path = store_path / what
    expected = _expected(store_path)
    rights = path.stat().st_mode
    path.chmod(rights & ~0o222)
    try:
        with pytest.raises(PermissionError) as caught:
            open_store(store_path)
        assert str(store_path) in str(caught.value)
        with open_store(store_path, "r") as store:
            assert offsets(store) == expected
    finally:
        path.chmod(rights)


def test_a_reader_passes_over_an_emptied_file_of_a_store_without_a_manifest(store_path):
    shutil.rmtree(store_path / "reput")
    os.truncate(_file(store_path, 1), 0)

    with open_store(store_path, "r") as store:
        assert store.log.file_size == FILE_SIZE
        assert offsets(store)
        assert any("0 bytes" in problem for problem in store.problems)
