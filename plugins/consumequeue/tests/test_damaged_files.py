"""Every byte of the queue files of a small store has a bit flipped; units and files that lie.

Reading is an answer or a typed error that names a file. It gives messages of that queue as they
were put, or none: never another queue's, never an exception that is not ours. (A unit that points
to the record of another unit of its queue cannot be told from one that RocketMQ wrote out of turn.)
"""

from __future__ import annotations

import itertools
import os
import struct
import subprocess
import sys

import pytest
from damagedstores import SmallStore

import reput
from reput.errors import ReputError
from reput_testing.casebudget import part
from reput_testing.logs import fuzzing

UNIT = struct.Struct(">qiq")
QUEUES = (("T", 0), ("U", 1))
EDGES = [-(2**63), -(2**31), -1, 0, 1, 19, 20, 91, 512, 2**31 - 1, 2**40, 2**62, 2**63 - 1]

pytestmark = [
    pytest.mark.usefixtures("quiet"),
    pytest.mark.proof,
    pytest.mark.shows("damaged-file"),
]


@pytest.fixture(params=[False, True], ids=["closed", "killed"])
def small(request, tmp_path):
    return SmallStore(tmp_path / "store", killed=request.param, plugins=("consumequeue",), count=13)


def queue_files(small):
    return sorted(name for name in small.files if name.startswith("consumequeue/"))


def expected(small):
    """Records by queue and queue offset."""
    found = {}
    for offset, record in small.records.items():
        view = reput.MessageView(record, offset)
        found[view.topic, view.queue_id, view.queue_offset] = record
    return found


def read_all(store):
    """What reads of all queues give, in the same form; each read must make progress."""
    found = {}
    for topic, queue_id in QUEUES:
        place, reads = 0, 0
        while reads < 100:
            result = store.read(topic, queue_id, place, max_count=3)
            for at, message in zip(result.queue_offsets, result.messages, strict=True):
                found[topic, queue_id, at] = message.record
            for boundary in ("lower", "upper"):
                store.offset_by_time(topic, queue_id, 1_600_000_000_000, boundary)
            if result.next_queue_offset <= place:
                break
            place, reads = result.next_queue_offset, reads + 1
        assert reads < 100, "reading goes on for ever"
    store.queues()
    return found


def look(small, what):
    """Open as a reader and as a writer; what each reads is sound, and a put can be read back."""
    records = expected(small)
    of_queue = {
        queue: {record for key, record in records.items() if key[:2] == queue} for queue in QUEUES
    }
    answers = []
    for mode in ("r", "w", "r"):
        with small.open(mode) as store:
            try:
                found = read_all(store)
            except ReputError as error:
                return error  # the store is open all the same
            for key, record in found.items():
                is_own = record in of_queue[key[:2]] or b"more" in record
                assert is_own, f"{what}, mode {mode}, {key}"
            if mode == "w":
                store.put(reput.Message("T", b"more"))
                store.wait_dispatched()
        answers.append(found)
    return answers


def assert_others_are_read(small, topic, answers, what):
    """Damage to a file of ``topic`` is told, or costs no message of another topic."""
    if isinstance(answers, ReputError):
        assert "consumequeue/" in str(answers), what
    else:
        others = {key for key in expected(small) if key[0] != topic}
        assert all(others <= answer.keys() for answer in answers), what


def test_an_undamaged_store_reads_all_of_it(small):
    small.damaged(queue_files(small)[0], small.files[queue_files(small)[0]])

    first, *_ = look(small, "whole")

    assert first == expected(small)


def test_a_flipped_bit_of_a_unit_costs_messages_of_its_queue_and_shows_no_other(small):
    for name in queue_files(small):
        topic = name.split("/")[1]
        for bit, data in small.flips(name):
            small.damaged(name, data)
            what = f"{name}, bit {bit}"

            answers = look(small, what)

            assert_others_are_read(small, topic, answers, what)


def test_units_with_absurd_numbers_are_passed_over(small):
    name = queue_files(small)[0]
    whole = small.files[name]
    sizes = (-(2**31), -1, 0, 1, 91, 2**31 - 1)
    for at, offset, size in part(list(itertools.product((0, 20, len(whole) - 20), EDGES, sizes))):
        data = whole[:at] + UNIT.pack(offset, size, -1) + whole[at + 20 :]
        small.damaged(name, data)

        what = f"{name}, unit {at // 20}, offset {offset}, size {size}"
        assert_others_are_read(small, name.split("/")[1], look(small, what), what)


@pytest.mark.parametrize("size", [1, 19, 21, 39, 41, 79, 81, 100, 160, 4096])
def test_a_unit_file_of_an_odd_size_is_an_error_that_names_it_or_is_built_again(small, size):
    for name in queue_files(small):
        whole = small.files[name]
        small.damaged(name, whole[:size].ljust(size, b"\0"))

        what = f"{name} of {size} bytes"
        answers = look(small, what)

        assert_others_are_read(small, name.split("/")[1], answers, what)
        if isinstance(answers, ReputError):
            assert os.path.dirname(name) in str(answers)


def test_queue_files_of_other_places_are_refused_or_passed_over(small):
    first = queue_files(small)[0]
    whole = small.files[first]
    directory = os.path.dirname(first)
    for number in (20, 81, 240, 2**63 - 8, 10**20 - 80, 10**20 - 1):
        small.damaged(f"{directory}/{number:020d}", whole)

        what = f"a file at {number}"
        assert_others_are_read(small, first.split("/")[1], look(small, what), what)


def test_a_record_that_states_an_absurd_queue_offset_harms_no_other(tmp_path):
    from reput.files import file_name
    from reput_testing import SmallLog

    for number, stated in enumerate([-1, -(2**63), 2**31, 2**40, 2**62, 2**63 - 1]):
        log = SmallLog(4096)
        log.append(reput.Message("U", b"sound", 1))
        at = log.append(reput.Message("T", b"absurd", 0))
        log.append(reput.Message("U", b"sound", 1))
        struct.pack_into(">q", log._data, at + 20, stated)
        root = tmp_path / str(number)
        log.write_to(root)
        assert (root / "commitlog" / file_name(0)).exists()

        for mode in ("w", "r", "w"):
            with reput.open(
                root,
                mode,
                plugins=["consumequeue"],
                config={"commitlog": {}} if mode == "w" else None,
                threads=False,
            ) as store:
                if mode == "w":
                    store.wait_dispatched()
                result = store.read("U", 1, 0)
                assert [message.body for message in result.messages] == [b"sound"] * 2, stated
                for info in store.queues():
                    assert info.min_queue_offset <= info.max_queue_offset


_CUT = """
import os, sys
import reput

root, mode, name, size = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
with reput.open(root, mode, threads=False) as store:
    before = len(store.read("T", 0, 0).messages)
    os.truncate(os.path.join(root, name), size)
    after = len(store.read("T", 0, 0).messages)
    found = len(store.read("U", 1, 0).messages)
    print(before, after, found, flush=True)
    os._exit(0)  # what a writer would do at the end is not asked
"""


@pytest.mark.parametrize("mode", ["r", "w"])
@pytest.mark.parametrize("size", [0, 7, 20, 40])
@pytest.mark.costly
def test_a_queue_file_cut_under_a_reader_gives_fewer_messages(tmp_path, mode, size):
    small = SmallStore(tmp_path / "store", plugins=("consumequeue",), count=13)
    name = "consumequeue/T/0/" + f"{0:020d}"

    ended = subprocess.run(
        [sys.executable, "-c", _CUT, small.root, mode, name, str(size)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    before, after, found = map(int, ended.stdout.split())
    assert before > 0
    assert after <= before
    assert found > 0


@pytest.mark.costly
def test_any_change_of_a_queue_file_is_an_error_or_sound_messages(tmp_path):
    from hypothesis import HealthCheck, given, settings

    small = SmallStore(tmp_path / "store", plugins=("consumequeue",), count=13)
    seeds = [small.files[name] for name in queue_files(small)]
    examples = int(os.environ.get("REPUT_FUZZ_EXAMPLES", "60"))

    @settings(
        max_examples=examples,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(fuzzing.mutated(seeds) | fuzzing.mutated(seeds, same_size=True))
    def check(data):
        small.damaged(queue_files(small)[0], data)
        look(small, data.hex())

    check()
