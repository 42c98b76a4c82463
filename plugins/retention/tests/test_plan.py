"""Which files go: the decision alone, against what must hold of any decision."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.errors import ConfigError
from reput.plugin import Hold, build_config
from reput_retention import ROCKETMQ_RETENTION, RetentionConfig
from reput_retention.cleanplan import BATCH_COUNT, LogFiles, decide
from reput_retention.config import hour_of
from reput_retention.diskspace import Space, spaces_of
from reput_testing import QuickDisk

SIZE = 1_000
NOW = 1_700_049_600_000  # 2023-11-15 12:00 UTC
HOUR = 3_600_000


def files_of(count, *, first=0, hours_old=None):
    """``count`` files, last stored ``hours_old`` hours ago; an hour each when left out."""
    bases = [first + number * SIZE for number in range(count)]
    ages = hours_old or [count - 1 - number for number in range(count)]
    times = {base: NOW - age * HOUR for base, age in zip(bases, ages, strict=True)}
    return LogFiles(bases, SIZE, times.__getitem__)


def bases_of(removals):
    return [each.base_offset for each in removals]


# --------------------------------------------------------------------------- by age


def test_by_default_nothing_ever_goes():
    full = Space("/", 100, 0)

    plan = decide(RetentionConfig(), files_of(9), NOW + 10**12, spaces=[full], at_any_hour=True)

    assert (plan.removals, plan.held, plan.is_disk_full) == ((), (), False)
    assert not RetentionConfig().is_active


def test_files_go_whose_last_message_is_old_enough_and_no_others():
    config = RetentionConfig(reserved_ms=3 * HOUR)

    plan = decide(config, files_of(6), NOW)

    assert bases_of(plan.removals) == [0, 1_000, 2_000]  # 5, 4 and 3 hours old
    assert {each.reason for each in plan.removals} == {"age"}
    assert (plan.min_physical_offset, plan.freed_size) == (3_000, 3_000)


def test_old_files_wait_for_their_hour_unless_somebody_asks_or_the_disk_is_short():
    config = RetentionConfig(reserved_ms=1, delete_when="04;23", disk_max_ratio=0.75)
    at_four = NOW + 16 * HOUR

    counts = [
        len(decide(config, files_of(3), NOW).removals),
        len(decide(config, files_of(3), at_four).removals),
        len(decide(config, files_of(3), NOW, at_any_hour=True).removals),
        len(decide(config, files_of(3), NOW, spaces=[Space("/", 75, 25)]).removals),
        len(decide(config, files_of(3), NOW, spaces=[Space("/", 76, 24)]).removals),
    ]

    assert counts == [0, 2, 2, 0, 2]


def test_hours_are_those_of_the_time_zone_that_is_named():
    hours = [hour_of(NOW, zone) for zone in ("UTC", "Asia/Kolkata", "America/New_York")]

    assert hours == [12, 17, 7]
    assert RetentionConfig(delete_when="07 America/New_York").is_hour(NOW)
    assert RetentionConfig(delete_when=" 12 ; 13 ").is_hour(NOW)
    assert not RetentionConfig(delete_when="07").is_hour(NOW)
    assert RetentionConfig(delete_when="").is_hour(NOW)
    assert 0 <= hour_of(NOW, "local") < 24


# --------------------------------------------------------------------------- by size and space


@pytest.mark.parametrize(
    ("max_bytes", "removed"), [(5_000, 0), (4_999, 1), (3_000, 2), (2_500, 3), (1, 4)]
)
def test_files_take_up_no_more_than_is_allowed(max_bytes, removed):
    plan = decide(RetentionConfig(max_bytes=max_bytes), files_of(5), NOW)

    assert len(plan.removals) == removed
    assert {each.reason for each in plan.removals} <= {"size"}


def test_a_full_disk_takes_as_many_files_as_make_the_room_that_is_missing():
    config = RetentionConfig(disk_warn_ratio=0.85)

    below = decide(config, files_of(9), NOW, spaces=[Space("/", 8_500, 1_500)])
    above = decide(config, files_of(9), NOW, spaces=[Space("/", 8_501, 1_499)])
    far = decide(config, files_of(9), NOW, spaces=[Space("/", 10_000, 0)])

    assert (below.removals, below.used_percent) == ((), 85)
    assert (bases_of(above.removals), above.used_percent) == ([0], 86)
    assert len(far.removals) == 2
    assert {each.reason for each in far.removals} == {"space"}
    assert (below.is_disk_full, above.is_disk_full) == (False, True)


def test_another_disk_that_is_full_takes_some_files_at_a_time():
    config = RetentionConfig(disk_warn_ratio=0.5)
    spaces = [Space("log", 1, 99), Space("queues", 99, 1, holds_log=False)]

    plan = decide(config, files_of(BATCH_COUNT + 5), NOW, spaces=spaces)

    assert len(plan.removals) == BATCH_COUNT


def test_puts_are_refused_beyond_the_last_ratio_only():
    config = RetentionConfig(disk_max_ratio=0.5, disk_warn_ratio=0.9)

    at_it = decide(config, files_of(9), NOW, spaces=[Space("/", 90, 10)])
    beyond = decide(config, files_of(9), NOW, spaces=[Space("/", 91, 9)])

    assert (at_it.is_disk_full, beyond.is_disk_full) == (False, True)
    assert beyond.removals


def test_the_ratio_is_counted_as_rocketmq_does():
    # In whole percents, rounded up, of what is used and what may be used.
    assert [Space("/", used, 1_000 - used).percent for used in (0, 1, 10, 11, 900, 901)] == [
        0,
        1,
        1,
        2,
        90,
        91,
    ]
    assert Space("/", 0, 0).percent == 0


def test_each_disk_of_a_store_is_looked_at_once(tmp_path):
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "index").mkdir()
    disk = QuickDisk()
    disk.capacity = 1_000
    (tmp_path / "index" / "x").write_bytes(bytes(600))

    found = spaces_of(disk, str(tmp_path), str(tmp_path / "commitlog"))
    without_log = spaces_of(disk, str(tmp_path / "index"), str(tmp_path / "index" / "commitlog"))

    assert [(space.path, space.holds_log) for space in found] == [
        (str(tmp_path / "commitlog"), True)
    ]
    assert [space.percent for space in without_log] == [60]


def test_the_systems_disk_says_how_full_it_is(tmp_path):
    from reput.files.system.disk import Disk

    used, available = Disk().usage(str(tmp_path))

    assert used > 0
    assert available >= 0


# --------------------------------------------------------------------------- holds


def test_who_needs_the_head_holds_it_and_is_named():
    config = RetentionConfig(reserved_ms=1)
    far, near, high = Hold(4_500, "c", "seen"), Hold(1_500, "b", "needs"), Hold(2_000, "a", "seen")

    plan = decide(config, files_of(5), NOW).held_by([far, near, high])

    assert bases_of(plan.removals) == [0]
    assert bases_of(plan.held) == [1_000, 2_000, 3_000]
    assert plan.holds == (near, high)  # the third one needs nothing that should go
    assert plan.held_size == 3_000


def test_what_should_not_go_anyway_is_held_by_nobody():
    plan = decide(RetentionConfig(), files_of(5), NOW).held_by([Hold(0, "a", "needs")])

    assert (plan.held, plan.holds) == ((), ())


CONFIGS = st.builds(
    RetentionConfig,
    reserved_ms=st.integers(0, 12 * HOUR),
    max_bytes=st.integers(0, 12 * SIZE),
    disk_warn_ratio=st.sampled_from([0.0, 0.3, 0.5, 0.9]),
)


@st.composite
def situations(draw):
    count = draw(st.integers(0, BATCH_COUNT + 3))
    first = draw(st.integers(0, 3)) * SIZE
    ages = draw(st.lists(st.integers(-2, 14), min_size=count, max_size=count))
    files = LogFiles(
        [first + number * SIZE for number in range(count)],
        SIZE,
        lambda base: NOW - ages[(base - first) // SIZE] * HOUR,
    )
    holds = [Hold(offset, "p", "why") for offset in draw(st.lists(st.integers(0, 14 * SIZE)))]
    used = draw(st.integers(0, 20 * SIZE))
    return files, holds, [Space("/", used, 20 * SIZE - used, draw(st.booleans()))]


@given(CONFIGS, situations())
def test_only_whole_files_from_the_head_on_that_nobody_needs_and_never_the_last(config, given_):
    files, holds, spaces = given_

    plan = decide(config, files, NOW, spaces=spaces).held_by(holds)

    both = bases_of([*plan.removals, *plan.held])
    assert both == list(files.bases[: len(both)])
    assert len(both) < max(len(files.bases), 1)
    assert all(each.end_offset <= hold.physical_offset for each in plan.removals for hold in holds)
    assert bool(plan.held) == bool(plan.holds)
    if plan.held:  # the first one that stays is one that somebody needs
        assert plan.holds[0].physical_offset < plan.held[0].end_offset


@given(CONFIGS, situations())
def test_each_file_that_goes_has_a_reason_and_none_with_one_is_forgotten(config, given_):
    files, _, spaces = given_
    removable = list(files.removable)

    plan = decide(config, files, NOW, spaces=spaces)

    going = len(plan.removals)
    total = len(files.bases)
    missing = -(-spaces[0].excess(round(config.disk_warn_ratio * 100)) // SIZE)
    is_full = 0 < round(config.disk_warn_ratio * 100) < spaces[0].percent

    def is_expired(base):
        return config.reserved_ms > 0 and NOW - files.last_timestamp(base) >= config.reserved_ms

    def is_too_much(remaining):
        return config.max_bytes > 0 and remaining * SIZE > config.max_bytes

    for place, base in enumerate(removable):
        asked = (
            all(map(is_expired, removable[: place + 1]))
            or is_too_much(total - place)
            or (is_full and place < (missing if spaces[0].holds_log else BATCH_COUNT))
        )
        assert asked == (place < going), base


@given(CONFIGS, situations(), st.integers(0, 14 * SIZE))
def test_one_more_who_needs_something_or_a_longer_time_never_takes_more(config, given_, offset):
    files, holds, spaces = given_
    longer = attrs.evolve(config, reserved_ms=config.reserved_ms and config.reserved_ms + HOUR)

    plan = decide(config, files, NOW, spaces=spaces).held_by(holds)
    held = plan.held_by([*holds, Hold(offset, "q", "why")])
    kept = decide(longer, files, NOW, spaces=spaces).held_by(holds)
    later = decide(config, files, NOW + HOUR, spaces=spaces).held_by(holds)

    assert len(held.removals) <= len(plan.removals)
    assert len(held.removals) + len(held.held) == len(plan.removals) + len(plan.held)
    assert len(kept.removals) <= len(plan.removals) <= len(later.removals)


# --------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("reserved_ms", -1),
        ("reserved_ms", 1.5),
        ("reserved_ms", True),
        ("delete_when", "24"),
        ("delete_when", "04,05"),
        ("delete_when", "04local"),
        ("delete_when", 4),
        ("delete_when", "04 Mars/Olympus"),
        ("delete_when", "04 ../../etc/passwd"),
        ("delete_when", "04 05"),
        ("delete_when", "local"),
        ("max_bytes", "10XB"),
        ("disk_warn_ratio", 1.1),
        ("disk_warn_ratio", 90),
        ("disk_warn_ratio", float("nan")),
        ("disk_max_ratio", "75%"),
        ("unseen", "wait"),
    ],
)
def test_a_wrong_option_is_named(option, value):
    with pytest.raises(ConfigError, match=option) as raised:
        build_config(RetentionConfig, "retention", {option: value})

    assert raised.value.section == "retention"


def test_rocketmqs_rules_are_options_of_ours():
    config = build_config(RetentionConfig, "retention", dict(ROCKETMQ_RETENTION))

    assert config.is_active
    assert (config.reserved_ms, config.disk_warn_ratio) == (72 * HOUR, 0.9)
