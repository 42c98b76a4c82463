"""Log files of healthy stores, damaged at random: a repair loses no message that a scan finds.

``REPUT_FUZZ_EXAMPLES`` is the number of cases; ``REPUT_FUZZ_CASE`` is the one case to repeat.
"""

from __future__ import annotations

import os
import random

import pytest
from zoo.stores import MAKERS, healthy, put_down, records_of

import reput
from reput.errors import ReputError
from reput.record.layout import FILLER_TOPIC
from reput_testing.crashes.powercuts import command_for
from reput_tools.doctor.repair.repairrun import repair
from reput_tools.doctor.verification.verifyrun import verify

pytestmark = pytest.mark.shows("repair")

CASE_VARIABLE = "REPUT_FUZZ_CASE"


def _name(base):
    return f"commitlog/{base:020d}"


def _head(files, origin, chance):
    """Other bytes at a file's head: of another place in the log, zeros or noise."""
    name, source = chance.choice(sorted(files)), chance.choice(sorted(files))
    size = chance.choice((4, 20, 91, 512, 1_500))
    records = origin.of_file(int(source[-20:])) or list(origin.records.values())
    at = chance.choice(records).physical_offset % origin.file_size
    found = chance.choice((bytes(size), chance.randbytes(size), files[source][at:][:size]))
    files[name] = found + files[name][len(found) :]


def _exchange(files, origin, chance):
    one, other = chance.choice(sorted(files)), chance.choice(sorted(files))
    files[one], files[other] = files[other], files[one]


def _rename(files, origin, chance):
    name = chance.choice(sorted(files))
    base = int(name[-20:]) + chance.choice((-7, -1, 1, 2, 9)) * origin.file_size
    if base >= 0 and _name(base) not in files:
        files[_name(base)] = files.pop(name)


def _double(files, origin, chance):
    bases = [int(name[-20:]) for name in files]
    base = chance.choice((max(bases) + origin.file_size, *bases))
    files[_name(base)] = files[chance.choice(sorted(files))]


def _shift(files, origin, chance):
    name, by = chance.choice(sorted(files)), chance.choice((1, 4, 91, 512))
    data = files[name]
    files[name] = chance.choice((bytes(by) + data[:-by], data[by:] + bytes(by)))


DAMAGES = (_head, _head, _exchange, _rename, _double, _shift)


def chosen():
    if one := os.environ.get(CASE_VARIABLE):
        return [int(one)]
    return range(int(os.environ.get("REPUT_FUZZ_EXAMPLES") or 12))


def _scanned(root):
    """Records by physical offset that a reader finds; None if it refuses the store."""
    found = {}
    try:
        with reput.open(root, "r") as store:
            for batch in store.scan():
                for row in range(len(batch)):
                    message = batch.message(row)
                    if not (message.topic and FILLER_TOPIC.startswith(message.topic)):
                        found[message.physical_offset] = message.record
    except ReputError:
        return None
    return found


@pytest.mark.parametrize("number", chosen())
def test_a_repair_loses_no_message_that_a_scan_finds(tmp_path, number):
    chance = random.Random(f"doctor {number}")
    origin = healthy(sorted(MAKERS)[number % len(MAKERS)])
    log = {name: origin.files[name] for name in origin.log_names}
    for _ in range(chance.choice((1, 1, 2))):
        chance.choice(DAMAGES)(log, origin, chance)
    rest = {name: data for name, data in origin.files.items() if name not in origin.log_names}
    put_down({**rest, **log}, tmp_path / "store")
    before = _scanned(tmp_path / "store")

    report = verify(tmp_path / "store", jobs=1)
    done = repair(tmp_path / "store", tmp_path / "repaired")

    after = _scanned(done.target)
    again = f"the same case again: {command_for(CASE_VARIABLE, str(number))}"
    assert after is not None, again
    lost = {at for at, record in (before or {}).items() if record not in after.values()}
    assert not lost, f"lost {sorted(lost)[:9]}, {len(before)} found before; {again}"
    whole = {name: data for name, data in origin.files.items() if log.get(name) == data}
    kept = records_of(whole).values() if whole else ()
    absent = [
        each.physical_offset for each in kept if after.get(each.physical_offset) != each.record
    ]
    assert not absent, f"lost of undamaged files {absent[:9]}; {again}"
    assert before is not None or report.worst is not None, f"verify finds nothing; {again}"
