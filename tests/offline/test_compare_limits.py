"""Comparisons list as many differences as are wanted, in bounded memory."""

from __future__ import annotations

from reput.files import Disk
from reput_tools.offline import compare


def files(root, count, content):
    directory = root / "derived"
    directory.mkdir(parents=True)
    for number in range(count):
        (directory / f"{number:05d}").write_bytes(content)


def compared(tmp_path, limit):
    names = ["derived"]
    return list(compare(str(tmp_path / "a"), str(tmp_path / "b"), names, Disk(), limit=limit))


def test_each_run_of_bytes_is_a_difference(tmp_path):
    sound = bytearray(b"\x01" * 10_000)
    other = bytearray(sound)
    for position in (5, 8, 300, 9_999):
        other[position] = 2
    other[4_000:4_100] = bytes(100)
    files(tmp_path / "a", 1, other)
    files(tmp_path / "b", 1, sound)

    found = compared(tmp_path, 10)

    assert [(each.position, each.size, each.is_absent) for each in found] == [
        (5, 4, False),  # near ones belong together
        (300, 1, False),
        (4_000, 100, True),
        (9_999, 1, False),
    ]


def test_the_last_of_as_many_as_are_wanted_reaches_to_the_last_byte_that_differs(tmp_path):
    sound, other = bytearray(10 << 20), bytearray(10 << 20)
    for position in range(1_000, 10 << 20, 1_000):
        sound[position] = 1
    files(tmp_path / "a", 1, other)
    files(tmp_path / "b", 1, sound)

    found = compared(tmp_path, 3)

    assert [each.position for each in found] == [1_000, 2_000, 3_000]
    last = max(range(1_000, 10 << 20, 1_000))
    assert found[-1].position + found[-1].size == last + 1
    assert all(each.is_absent for each in found)


def test_of_very_many_files_one_difference_each_is_listed(tmp_path):
    sound = bytes(b"\x01" * 400)
    other = bytearray(sound)
    other[10] = other[200] = 2
    files(tmp_path / "a", 130, other)
    files(tmp_path / "b", 130, sound)

    found = compared(tmp_path, 2)

    assert len(found) == 100 * 2 + 30
    assert len({each.path for each in found}) == 130
