from __future__ import annotations

import pytest

import reput
from reput.plugin import installed
from reput_testing import ManualClock
from reput_tools.cli.kit.exitcodes import ExitCode


def timed_store(path, *messages, every_ms=1_000):
    """A store without plugins; message ``i`` is stored at ``1,700,000,000,000 + i`` seconds."""
    clock = ManualClock(1_700_000_000_000)
    config = {"commitlog": {"file_size": 1 << 16}}
    with reput.open(path, plugins=[], config=config, clock=clock) as store:
        for message in messages:
            store.put(message)
            clock.now += every_ms
    return path


@pytest.fixture
def path(tmp_path):
    """A store of six messages, four of them of the topic ``orders``."""
    return timed_store(
        tmp_path / "store",
        reput.Message("orders", b"0", tags="paid", keys="k1 all"),
        reput.Message("other", b"1", tags="paid", keys="k1 all"),
        reput.Message("orders", b"2", tags="sent", keys="k2 all", properties={"UNIQ_KEY": "U2"}),
        reput.Message("orders", b"3", tags="paid", keys="all"),
        reput.Message("orders", b"4", keys="k1x", sys_flag=0x4),  # no consumer sees it
        reput.Message("orders", b"5", keys="all"),
    )


def bodies(outcome):
    return "".join(line["body"] for line in outcome.lines)


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        (("--key", "all"), "0235"),
        (("--key", "k1"), "0"),
        (("--key", "U2"), "2"),
        (("--tag", "paid"), "03"),
        (("--tag", "paid || sent"), "023"),
        (("--tag", "*"), "0235"),
        (("--since", "@1700000002000"), "235"),
        (("--until", "@1700000002000"), "02"),
        (("--since", "2023-11-14T22:13:22Z", "--until", "2023-11-14T22:13:23Z"), "23"),
        (("--key", "all", "--tag", "paid", "--since", "@1700000000001"), "3"),
        (("--tag", "*", "--count", "2"), "02"),
    ],
)
def test_what_meets_all_conditions_is_printed_in_its_order(run, path, conditions, expected) -> None:
    outcome = run("grep", path, "-t", "orders", *conditions, "--json")

    assert (outcome.code, bodies(outcome)) == (ExitCode.OK, expected)


@pytest.mark.parametrize("conditions", [("--key", "k"), ("--tag", "none"), ("--since", "-1s")])
def test_nothing_found_is_told_apart(run, path, conditions) -> None:
    outcome = run("grep", path, "-t", "orders", *conditions)

    assert (outcome.code, outcome.out) == (ExitCode.NOT_FOUND, "")
    assert "no message of topic 'orders' meets the conditions" in outcome.err


def test_lines_are_those_of_cat(run, path) -> None:
    found = run("grep", path, "-t", "orders", "--key", "U2")
    formatted = run("grep", path, "-t", "orders", "--key", "U2", "--format", "%o %T %s")

    assert found.out == run("cat", path, "orders", "--scan", "--from", "1", "--count", "1").out
    assert formatted.out == "1 sent 2\n"


@pytest.mark.parametrize("time", ["earliest", "12", "yesterday", ""])
def test_a_time_that_is_none_is_a_usage_error(run, path, time) -> None:
    outcome = run("grep", path, "-t", "orders", "--since", time)

    assert outcome.code == ExitCode.USAGE
    assert "2026-01-31T12:00:00Z" in outcome.err


def test_a_condition_needs_the_plugin_that_understands_it(run, path) -> None:
    outcome = run("grep", path, "-t", "orders", "--where", "region = 'eu'")

    if any(found.name == "filter" for found in installed()):
        assert outcome.code == ExitCode.NOT_FOUND
    else:
        assert outcome.code == ExitCode.UNAVAILABLE
        assert "pip install ./plugins/filter" in outcome.err


@pytest.mark.parametrize(
    ("key", "keys"),
    [(("-e", "xxx"), [["k0"], ["k2"]]), (("--key", "k2"), [["k2"]])],
    ids=["read", "by key"],
)
def test_damage_on_the_way_is_told_and_the_rest_is_found(run, tmp_path, key, keys) -> None:
    body = b"x" * 100
    messages = [reput.Message("orders", body, keys=f"k{number}") for number in range(3)]
    path = timed_store(tmp_path / "store", *messages)
    (log,) = (path / "commitlog").iterdir()
    data = bytearray(log.read_bytes())
    second = data.index(body, data.index(body) + len(body))
    data[second - 84 : second - 80] = b"\xff\xff\xff\xff"
    log.write_bytes(data)

    outcome = run("grep", path, "-t", "orders", *key, "--json")

    assert (outcome.code, [line["keys"] for line in outcome.lines]) == (1, keys)
    assert "messages may be missing" in outcome.err


class TestTimesOfALongLog:
    """Five files of 64 KiB, a message of 1,000 bytes every ten seconds."""

    @pytest.fixture
    def path(self, tmp_path):
        messages = [
            reput.Message("orders", b"%d" % number + b" " * 996, keys="k") for number in range(250)
        ]
        return timed_store(tmp_path / "store", *messages, every_ms=10_000)

    @pytest.fixture
    def read(self, monkeypatch):
        """Start and end of every batch that is read."""
        read = []
        scan = reput.Store.scan

        def noting(store, *range_, **options):
            for batch in scan(store, *range_, **options):
                read.append((batch.start_offset, batch.end_offset))
                yield batch

        monkeypatch.setattr(reput.Store, "scan", noting)
        return read

    @pytest.mark.parametrize("key", [(), ("--key", "k")])
    def test_only_the_files_that_may_hold_them_are_read(self, run, path, read, key) -> None:
        times = ("--since", "@1700001400000", "--until", "@1700001420000")

        outcome = run("grep", path, "-t", "orders", *key, *times, "--json")

        assert [line["body"].strip() for line in outcome.lines] == ["140", "141", "142"]
        # That of the times, and one more that says that they are over.
        assert (read[0][0], read[-1][1]) == (2 << 16, 4 << 16)

    def test_all_is_read_where_no_time_is_given(self, run, path, read) -> None:
        outcome = run("grep", path, " ", "--json")

        assert len(outcome.lines) == 250
        assert (read[0][0], read[-1][1] > 4 << 16) == (0, True)

    def test_a_time_behind_the_log_reads_its_last_file_only(self, run, path, read) -> None:
        outcome = run("grep", path, "-t", "orders", "--since", "@1800000000000")

        assert outcome.code == ExitCode.NOT_FOUND
        assert read[0][0] == 4 << 16


@pytest.mark.costly
def test_a_clock_that_was_put_back_a_little_hides_nothing(run, tmp_path) -> None:
    """Around a border of files the clock goes back by 50 s: on both sides are times of both."""
    clock = ManualClock(1_700_000_000_000)
    config = {"commitlog": {"file_size": 1 << 16}}
    path, stored = tmp_path / "store", []
    with reput.open(path, plugins=[], config=config, clock=clock) as store:
        for number in range(180):
            clock.now += -50_000 if number % 12 == 0 else 5_000
            stored.append(clock.now)
            store.put(reput.Message("orders", b"%d" % number + b" " * 996))

    for moment in sorted(set(stored)):
        since = run("grep", path, "-t", "orders", "--since", f"@{moment}", "--json").lines
        until = run("grep", path, "-t", "orders", "--until", f"@{moment}", "--json").lines
        assert len(since) == sum(time >= moment for time in stored)
        assert len(until) == sum(time <= moment for time in stored)


def test_an_empty_log_holds_nothing_of_any_time(run, tmp_path) -> None:
    outcome = run("grep", timed_store(tmp_path / "store"), "-t", "orders", "--since", "-1h")

    assert outcome.code == ExitCode.NOT_FOUND


def test_a_topic_where_a_text_is_expected_is_told_how_to_be_one(run, path) -> None:
    outcome = run("grep", path, "orders", "--key", "k1")

    assert outcome.code == ExitCode.NOT_FOUND
    assert "'orders' is a topic: -t orders looks into its messages" in outcome.err
