"""A comparison of files of which a part does not follow from the log: the rest still counts."""

from __future__ import annotations

import json
import struct

import pytest
from click.testing import CliRunner

import reput
from reput_testing import QuickDisk, snapshot
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.root import reput as command
from reput_tools.offline import rebuild

pytestmark = pytest.mark.sizes(consumequeue={"extend_file_size": 4_096})

SMALL = {
    "commitlog": {"file_size": 16_384},
    "consumequeue": {"units_per_file": 7},
    "index": {"slots_per_file": 11, "items_per_file": 30},
}


@pytest.fixture
def beheaded(tmp_path):
    """Makes a store of ours whose log has lost its first files."""

    def make(plugins=("consumequeue", "index"), **options):
        root = tmp_path / "beheaded"
        config = {**SMALL, "consumequeue": {**SMALL["consumequeue"], **options}}
        clock = iter(range(1_700_000_000_000, 1_800_000_000_000, 700))
        with reput.open(
            root,
            plugins=plugins,
            config=config,
            threads=False,
            clock=lambda: next(clock),
            disk=QuickDisk(),
        ) as store:
            store.put(reput.Message("over", b"x" * 900, keys="alone"))
            for number in range(60):
                store.put(reput.Message("t", b"x" * 900, keys=f"k{number % 5} all", tags="a"))
        with reput.open(root, threads=False, disk=QuickDisk()) as store:
            store.trim_log(store.log.file_offsets[-2])
            assert store.log.min_physical_offset > 0
        return root

    return make


def check(root, *plugins):
    """What a comparison finds, by plugin."""
    return {each.plugin: each for each in rebuild(root, plugins, jobs=1, check=True)}


def flip(path, position):
    """Change one byte of a file."""
    with open(path, "r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 0x40]))


def last_unit(root, topic, queue_id=0):
    """File and position of the newest unit of a queue."""
    path = sorted((root / "consumequeue" / topic / str(queue_id)).iterdir())[-1]
    data = path.read_bytes()
    return path, max(at for at in range(0, len(data), 20) if any(data[at : at + 20]))


def assert_differs(root, plugin, path):
    (found,) = check(root, plugin)[plugin].differences
    assert found.path == str(path.relative_to(root))
    return found


# --------------------------------------------------------------------------- sound stores


@pytest.mark.parametrize(
    ("case", "told"),
    [
        (
            "trimmed",
            {
                "consumequeue": "units below physical offset 131072",
                "index": "items of messages below physical offset 131072",
            },
        ),
        ("delay", {"consumequeue": "deliver times in units of SCHEDULE_TOPIC_XXXX"}),
        ("ext", {"consumequeue": "bit maps of extend units"}),
    ],
)
def test_what_does_not_follow_from_the_log_is_told_and_not_called_different(
    case, told, golden_store
):
    root = golden_store(case)
    before = snapshot(root)

    text = CliRunner().invoke(command, ["rebuild", str(root), "--check", "--jobs", "1"])
    plain = CliRunner().invoke(command, ["rebuild", str(root), "--check", "--jobs", "1", "--json"])

    assert text.exit_code == plain.exit_code == ExitCode.OK, text.output
    assert text.output.count("the same in what can be compared") == len(told)
    assert text.output.count("not compared: ") == len(told)
    for each in json.loads(plain.output)["plugins"]:
        assert each["differences"] == []
        assert len(each["not_compared"]) == (each["plugin"] in told)
        assert told.get(each["plugin"], "") in "".join(each["not_compared"])
    assert snapshot(root) == before


def test_our_store_whose_log_has_lost_its_head_is_the_same_in_the_rest(beheaded):
    found = check(beheaded())

    for each in found.values():
        assert each.differences == ()
        assert "its oldest files were removed" in each.not_compared[0]


def test_a_queue_that_only_goes_on_where_it_ended_is_the_same(beheaded):
    root = beheaded()
    for path in (root / "consumequeue" / "over").rglob("0*0"):
        path.unlink()
    with reput.open(root, threads=False) as store:  # makes them again, of blank units
        assert [each for each in store.queues() if each.topic == "over"]

    found = check(root, "consumequeue")["consumequeue"]

    assert found.differences == ()


def test_extend_units_are_compared_by_what_they_say_where_they_stand_elsewhere(beheaded):
    found = check(beheaded(extend=True), "consumequeue")["consumequeue"]

    assert found.differences == ()


def with_levels(root, levels):
    """Have our store take over one of RocketMQ, and say how long its levels delay."""
    plugins = ["consumequeue", "index", "schedule"]
    config = {"schedule": {"delay_levels": levels, "deliver": "never"}}
    with reput.open(root, plugins=plugins, config=config, threads=False):
        pass


def test_deliver_times_are_compared_where_the_store_says_how_long_levels_delay(golden_store):
    root = golden_store("delay")
    with_levels(root, "1s 2s 4s")

    sound = check(root, "consumequeue")["consumequeue"]
    path, unit = last_unit(root, "SCHEDULE_TOPIC_XXXX", 2)
    flip(path, unit + 19)

    assert sound.differences == sound.not_compared == ()
    assert assert_differs(root, "consumequeue", path).position == unit + 19


LEVELS = {"schedule": {"delay_levels": "1s 2s 4s"}}


def units_of_levels(root):
    queues = root / "consumequeue" / "SCHEDULE_TOPIC_XXXX"
    return {path.parent.name: path.read_bytes().rstrip(b"\0") for path in queues.rglob("0*0")}


@pytest.mark.parametrize("jobs", [1, 2])
def test_deliver_times_are_built_by_the_levels_that_are_given(golden_store, jobs):
    root = golden_store("delay")
    before = units_of_levels(root)

    (built,) = rebuild(root, ["consumequeue"], jobs=jobs, config=LEVELS)

    assert built.assumed == ()
    assert units_of_levels(root) == before


def test_levels_that_nobody_gives_are_said_to_be_assumed(golden_store):
    root = golden_store("delay")

    told = CliRunner().invoke(command, ["rebuild", str(root), "consumequeue", "--jobs", "1"])

    assert told.exit_code == 0
    assert "consumequeue, assumed: the options of schedule are the usual ones" in told.output


def test_levels_are_given_on_the_command_line(golden_store):
    root = golden_store("delay")
    before = units_of_levels(root)
    options = ["--jobs", "1", "--set", "schedule.delay_levels=1s 2s 4s"]

    told = CliRunner().invoke(command, ["rebuild", str(root), "consumequeue", *options])

    assert told.exit_code == 0
    assert "assumed" not in told.output
    assert units_of_levels(root) == before


def test_an_option_that_is_none_is_refused(golden_store):
    root = str(golden_store("delay"))

    for text in ("schedule", "schedule.x", "=1", ".=1"):
        told = CliRunner().invoke(command, ["rebuild", root, "--set", text])
        assert told.exit_code == 2


# --------------------------------------------------------------------------- real differences

UNIT_BYTES = [7, 11, 19]
"""The last byte of each field."""


@pytest.mark.parametrize("byte", UNIT_BYTES)
def test_a_unit_of_a_log_without_its_head_differs(byte, golden_store, beheaded):
    for root, topic in ((golden_store("trimmed"), "orders"), (beheaded(), "t")):
        path, unit = last_unit(root, topic)
        flip(path, unit + byte)

        assert assert_differs(root, "consumequeue", path).position == unit + byte


def test_a_unit_that_points_where_the_log_has_no_message_of_its_queue_differs(beheaded):
    root = beheaded()
    path = min((root / "consumequeue" / "t" / "0").iterdir())
    with open(path, "r+b") as file:
        file.write(struct.pack(">qiq", 1 << 20, 900, 0))

    assert assert_differs(root, "consumequeue", path).position == 0


def test_a_file_of_units_that_is_gone_differs(beheaded):
    root = beheaded()
    path = sorted((root / "consumequeue" / "t" / "0").iterdir())[-2]
    path.unlink()

    assert assert_differs(root, "consumequeue", path).reason == "the file is missing"


@pytest.mark.parametrize("byte", [7, 11])
def test_the_rest_of_a_delayed_messages_unit_differs(byte, golden_store):
    root = golden_store("delay")
    path, unit = last_unit(root, "SCHEDULE_TOPIC_XXXX", 2)
    flip(path, unit + byte)

    assert assert_differs(root, "consumequeue", path).position == unit + byte


@pytest.mark.parametrize("byte", [*UNIT_BYTES, 12, 18])
def test_a_unit_that_leads_to_an_extend_unit_differs(byte, golden_store):
    root = golden_store("ext")
    path, unit = last_unit(root, "orders")
    flip(path, unit + byte)

    found = assert_differs(root, "consumequeue", path)

    assert unit <= found.position <= unit + byte


@pytest.mark.parametrize("byte", [1, 9, 17, 19])
def test_an_extend_unit_whose_head_says_something_else_differs(byte, golden_store, beheaded):
    for root, topic in ((golden_store("ext"), "orders"), (beheaded(extend=True), "t")):
        path, unit = last_unit(root, topic)
        address = struct.unpack_from(">qiq", path.read_bytes(), unit)[2]
        (extend,) = (root / "consumequeue_ext" / topic / "0").iterdir()
        flip(extend, (address & ~(-1 << 63)) + byte)

        found = assert_differs(root, "consumequeue", path)

        assert found.position == unit + 12
        assert "extend unit" in found.reason


def newest_index_file(root):
    """The file that is written, and the position of its newest item."""
    path = max((root / "index").iterdir())
    data = path.read_bytes()
    slots, items = (50, 200) if "golden" in str(root) else (11, 30)
    assert len(data) == 40 + 4 * slots + 20 * items
    return path, 40 + 4 * slots + 20 * (struct.unpack_from(">i", data, 36)[0] - 1)


@pytest.mark.parametrize("byte", [3, 11, 15, 19])
def test_an_item_of_a_log_without_its_head_differs(byte, golden_store, beheaded):
    for root in (golden_store("trimmed"), beheaded()):
        path, item = newest_index_file(root)
        flip(path, item + byte)

        assert item <= assert_differs(root, "index", path).position <= item + byte


@pytest.mark.parametrize("position", [7, 15, 23, 31, 35, 39])
def test_a_header_of_a_log_without_its_head_differs(position, golden_store):
    root = golden_store("trimmed")
    path, _ = newest_index_file(root)
    flip(path, position)

    assert_differs(root, "index", path)


def test_a_slot_of_a_log_without_its_head_differs(golden_store, beheaded):
    for root in (golden_store("trimmed"), beheaded()):
        path, item = newest_index_file(root)
        key_hash = struct.unpack_from(">i", path.read_bytes(), item)[0]
        position = 40 + 4 * (key_hash % (50 if "golden" in str(root) else 11))
        flip(path, position + 3)

        assert assert_differs(root, "index", path).position == position


def test_what_stands_behind_the_last_item_differs(beheaded):
    root = beheaded()
    path, item = newest_index_file(root)
    flip(path, item + 25)

    assert assert_differs(root, "index", path).position == item + 25


def test_keys_that_are_missing_differ(golden_store):
    root = golden_store("trimmed")
    path, _ = newest_index_file(root)
    path.unlink()

    (found,) = check(root, "index")["index"].differences

    assert "missing" in found.reason
