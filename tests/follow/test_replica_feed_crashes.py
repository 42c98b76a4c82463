"""Crashes of a replica: an opening finds a prefix of whole records, and the rest is fed again."""

from __future__ import annotations

import os
import shutil

import attrs
import pytest

import reput
from reput.files import Disk
from reput_server.follow import DivergedError, ReplicaFeed
from reput_testing import KillPoints, PowerCuts, QuickDisk

pytestmark = pytest.mark.shows("killed-replica")

FILE_SIZE = 4_096
OVERLAP = 3_000


@attrs.frozen
class Master:
    """A log that followers are fed with."""

    data: bytes
    """From physical offset 0 on, whole files."""
    ends: tuple[int, ...]
    """Where its records end, ascending, and 0."""

    @classmethod
    def make(cls, root, sizes):
        config = {"commitlog": {"file_size": FILE_SIZE}}
        with reput.open(root, plugins=(), config=config, disk=QuickDisk(), threads=False) as store:
            ends = [0, *(store.put(_message(*each)).end_offset for each in enumerate(sizes))]
            data = b"".join(store.log.files.read(base, FILE_SIZE) for base in store.log.files.bases)
        return cls(data, tuple(ends))

    @property
    def end(self):
        return self.ends[-1]

    def reached(self, offset):
        """The end of the last whole record below ``offset``."""
        return max(end for end in self.ends if end <= offset)


def _message(number, size):
    # Long properties, too: no checksum covers them.
    body, rest = bytes([65 + number % 26]) * (size // 2), "v" * (size - size // 2)
    return reput.Message("orders", body, number % 3, properties={"rest": rest} if rest else None)


def open_replica(root, disk):
    return reput.open(
        root,
        plugins=(),
        config={"commitlog": {"file_size": FILE_SIZE}},
        master="broker-a",
        disk=disk,
        threads=False,
    )


def log_of(store):
    """The bytes of a log from 0 to its end, blanks included."""
    data = b"".join(store.log.files.read(base, FILE_SIZE) for base in store.log.files.bases)
    return data[: store.log.max_physical_offset]


def check_left(root, master, flushed, fed, disk=None):
    """Open what a crash has left, see that it is a prefix, and feed the rest."""
    with open_replica(root, disk or QuickDisk()) as store:
        feed = ReplicaFeed(store)
        end = store.log.max_physical_offset
        assert end in master.ends or end % FILE_SIZE == 0  # the next file is begun
        assert flushed <= end <= max(fed, flushed)
        assert log_of(store) == master.data[:end]
        assert feed.fed_offset == end
        assert not any(loss.action == "filled" for loss in store.losses())
        start = max(end - OVERLAP, 0)
        feed.feed(start, master.data[start : master.end])
        count = sum(len(batch) for batch in store.scan(check_crc=True))
        assert count == len(master.ends) - 1
    files = {name: (root / "commitlog" / name).read_bytes() for name in _names(root)}
    assert b"".join(files.values()) == master.data


def _names(root):
    return sorted(os.listdir(root / "commitlog"))


@attrs.define(eq=False)
class Life:
    """One replica, fed in frames, flushed now and then, and opened a second time."""

    master: Master
    disk: Disk | None = None
    store: object = None
    fed: int = 0

    def note(self):
        """How much must be there, and how much may be."""
        flushed = 0 if self.store is None else self.store.flushed_offset
        return flushed, self.fed

    def live(self, root, frame):
        self.store = open_replica(root, self.disk)
        half = self.master.end // 2
        self.feed(0, half, frame)
        self.store.close()
        self.store = open_replica(root, self.disk)
        self.feed(self.store.log.max_physical_offset, self.master.end, frame)
        self.store.close()
        self.store = None

    def feed(self, start, end, frame):
        feed = ReplicaFeed(self.store)
        for number, at in enumerate(range(start, end, frame)):
            stop = min(at + frame, end)
            self.fed = max(self.fed, stop)
            feed.feed(at, self.master.data[at:stop])
            if number % 3 == 2:
                self.store.flush()


@pytest.mark.proof
@pytest.mark.parametrize("frame", [700, 1_900, 5_000])
def test_whatever_a_power_cut_leaves_is_a_prefix(tmp_path, frame, record_property):
    master = Master.make(tmp_path / "master", [60, 900, 20, 2600, 0, 700, 1500, 40, 40, 2000, 300])
    cuts = PowerCuts(tmp_path / "cuts", tries=60)
    life = Life(master)
    disk = life.disk = cuts.disk(life.note)
    life.live(os.path.join(disk.directory, "store"), frame)
    end = disk.now("the end")
    disk.points.append(attrs.evolve(end, note=(master.end, master.end)))

    cuts.try_all(
        disk.points,
        lambda state, root: check_left(root / "store", master, *state.point.note),
    )

    record_property("crash states", cuts.tried_count)
    cuts.check_tried(at_least=40)


@pytest.mark.parametrize("frame", [700, 5_000])
def test_killed_between_any_two_operations_a_prefix_is_left(tmp_path, frame):
    master = Master.make(tmp_path / "master", [60, 900, 20, 2600, 0, 700, 1500, 40, 40, 2000, 300])
    life = Life(master)
    disk = KillPoints(tmp_path / "store", tmp_path / "killed", life.note)
    life.disk = disk
    with disk.watching():
        life.live(tmp_path / "store", frame)

    disk.check_each(lambda root, point: check_left(root, master, *point.note))

    assert len(disk.points) > 50


@pytest.mark.proof
@pytest.mark.costly
def test_cut_at_any_byte_the_stream_leaves_whole_records(tmp_path):
    # A record, one that ends its file, its blank, and the next file's first ones.
    master = Master.make(tmp_path / "master", [20, 3700, 60, 30])
    first, second, third = master.ends[1:4]
    assert second < FILE_SIZE < third
    cuts = [*range(first + 2), *range(second - 3, FILE_SIZE + 2), *range(third - 9, third + 2)]
    with open_replica(tmp_path / "replica", QuickDisk()) as store:
        feed = ReplicaFeed(store)
        for before, cut in zip([0, *cuts], cuts, strict=False):
            feed.feed(before, master.data[before:cut])
            assert feed.fed_offset == cut
            copy = tmp_path / "copy"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(tmp_path / "replica", copy)  # what a kill leaves
            check_left(copy, master, master.reached(cut), cut)


def test_a_record_that_a_crash_has_torn_is_fed_again_and_is_no_loss(tmp_path):
    master = Master.make(tmp_path / "master", [20, 1500, 60, 30])
    with open_replica(tmp_path / "replica", QuickDisk()) as store:
        feed = ReplicaFeed(store)
        feed.feed(0, master.data[: master.end])
        shutil.copytree(tmp_path / "replica", tmp_path / "torn")
    with open(tmp_path / "torn" / "commitlog" / f"{0:020d}", "r+b") as file:
        file.seek(1024)  # a sector of the second record's properties was not written
        file.write(bytes(512))

    with open_replica(tmp_path / "torn", QuickDisk()) as store:
        assert store.log.max_physical_offset == master.ends[1]
        assert store.log.last_record_offset == 0
        assert log_of(store) == master.data[: master.ends[1]]
    check_left(tmp_path / "torn", master, master.ends[1], master.ends[1])


@pytest.mark.shows("divergence")
def test_what_was_flushed_is_not_replaced_by_other_bytes_of_the_master(tmp_path):
    master = Master.make(tmp_path / "master", [20, 1500, 60, 30])
    other = Master.make(tmp_path / "other", [20, 1500, 61, 30])
    root = tmp_path / "replica"
    with open_replica(root, QuickDisk()) as store:
        feed = ReplicaFeed(store)
        feed.feed(0, master.data[: master.end])
        store.flush()
        shutil.copytree(root, tmp_path / "killed")

    with open_replica(tmp_path / "killed", QuickDisk()) as store:
        feed = ReplicaFeed(store)
        start = max(feed.fed_offset - OVERLAP, 0)
        with pytest.raises(DivergedError):
            feed.feed(start, other.data[start : other.end])
        assert log_of(store) == master.data[: master.end]


def test_a_replica_without_a_record_may_begin_with_another_file(tmp_path):
    master = Master.make(tmp_path / "master", [3000, 3000, 3000])
    root = tmp_path / "replica"
    with open_replica(root, QuickDisk()) as store:
        feed = ReplicaFeed(store)
        feed.feed(FILE_SIZE, master.data[FILE_SIZE : FILE_SIZE + 100])
    with open_replica(root, QuickDisk()) as store:
        feed = ReplicaFeed(store)
        assert feed.fed_offset == 0
        feed.feed(0, master.data[: master.end])
    with open_replica(root, QuickDisk()) as store:
        assert store.losses() == []
        assert log_of(store) == master.data[: master.end]


def test_closed_in_the_middle_of_a_blank_it_goes_on_before_it(tmp_path):
    master = Master.make(tmp_path / "master", [20, 3700, 60, 30])
    border = master.ends[2]
    for extra in (7, 8, 9, FILE_SIZE - border - 1, FILE_SIZE - border):
        root = tmp_path / f"replica {extra}"
        with open_replica(root, QuickDisk()) as store:
            feed = ReplicaFeed(store)
            feed.feed(0, master.data[: border + extra])
        with open_replica(root, QuickDisk()) as store:
            feed = ReplicaFeed(store)
            assert store.clean
            assert store.losses() == []
            assert store.log.max_physical_offset in (border, FILE_SIZE)
            name = f"{0:020d}"
            if feed.fed_offset == border:
                assert not any((root / "commitlog" / name).read_bytes()[border:])
            store.promote()
            store.put(_message(3, 60))
        with open_replica_again(root) as store:
            assert store.recovery.finding is None
            assert sum(len(batch) for batch in store.scan()) == 3


def test_promoted_in_the_middle_of_a_blank_it_puts_there(tmp_path):
    master = Master.make(tmp_path / "master", [20, 3600, 300, 30])
    border = master.ends[2]
    assert FILE_SIZE - border > 200
    with open_replica(tmp_path / "replica", QuickDisk()) as store:
        feed = ReplicaFeed(store)
        feed.feed(0, master.data[:border] + master.data[border : border + 100])
        store.promote()
        assert store.put(_message(3, 0)).physical_offset == border
        shutil.copytree(tmp_path / "replica", tmp_path / "killed")
    for name in ("replica", "killed"):
        with open_replica_again(tmp_path / name) as store:
            assert store.losses() == []
            assert sum(len(batch) for batch in store.scan()) == 3


def open_replica_again(root):
    return reput.open(root, plugins=(), disk=QuickDisk(), threads=False)


def changed_after_a_kill(tmp_path, master, position, data):
    """A replica that was killed with all records in its log, and whose bytes were changed."""
    with open_replica(tmp_path / "replica", QuickDisk()) as store:
        feed = ReplicaFeed(store)
        feed.feed(0, master.data[: master.end])
        shutil.copytree(tmp_path / "replica", tmp_path / "killed")
    with open(tmp_path / "killed" / "commitlog" / f"{0:020d}", "r+b") as file:
        file.seek(position)
        file.write(data)
    return tmp_path / "killed"


def test_damage_ends_the_log_also_where_sound_records_follow(tmp_path):
    master = Master.make(tmp_path / "master", [20, 300, 60, 30])
    body = master.data.index(b"B" * 150)  # of the second record
    root = changed_after_a_kill(tmp_path, master, body, b"-")

    with open_replica(root, QuickDisk()) as store:
        assert store.log.max_physical_offset == master.ends[1]
        assert [loss.action for loss in store.losses()] == ["cut"]
    check_left(root, master, master.ends[1], master.ends[1])


def test_a_run_that_a_kill_has_interrupted_is_no_loss(tmp_path):
    master = Master.make(tmp_path / "master", [20, 300, 60, 30])
    root = changed_after_a_kill(tmp_path, master, master.ends[2], bytes(4))  # its size comes last

    with open_replica(root, QuickDisk()) as store:
        assert store.log.max_physical_offset == master.ends[2]
        assert store.losses() == []
    assert not list((root / "reput").glob("lost+found/*"))
    check_left(root, master, master.ends[2], master.ends[2])
