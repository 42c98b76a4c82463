"""`reput verify` on what stands beside log and derived files, and on stores that are in use."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading

import pytest
from brokerdirectories import unpacked
from statefiles import change_manifest, forget, put_value
from verifiedstores import (
    SMALL,
    START,
    bad,
    checked,
    flip,
    flip_log,
    kinds,
    only,
    own_store,
    places,
    tree,
)

import reput
from reput import Message
from reput.errors import CorruptFileError, NoReaderError, StoreNotFoundError
from reput.files import Disk
from reput_tools.doctor.findings import Severity
from reput_tools.doctor.repair.brokerconfigrepair import plan_config
from reput_tools.doctor.verification.verifyrun import verify
from reput_tools.offline import inspect_store, lock_store, rebuild


def reasons(report, part):
    return [each.reason for each in report.not_checked if each.part == part]


# --------------------------------------------------------------------------- checkpoint, config


def test_a_checkpoint_ahead_of_the_log_is_told(root):
    flip(root / "checkpoint", 2, 0x10)

    found = only(checked(root), "checkpoint.ahead")

    assert (found.severity, found.position) == (Severity.WARNING, 0)


def test_a_short_checkpoint_and_bytes_after_its_values_are_told(root):
    flip(root / "checkpoint", 100)
    assert only(checked(root), "checkpoint.rest").position == 100

    (root / "checkpoint").write_bytes(b"123")
    short = only(checked(root), "checkpoint.short")
    assert (short.position, short.found) == (3, "end of file at byte 3")


def test_a_link_in_the_place_of_the_checkpoint_is_named(root):
    (root / "checkpoint").unlink()
    (root / "checkpoint").symlink_to("elsewhere")

    found = {each.kind: each for each in checked(root).findings}

    assert "symbolic link" in found["checkpoint.unreadable"].found


@pytest.mark.parametrize("name", ["checkpoint", "lock", "reput/state", "index"])
def test_what_is_in_place_of_a_file_is_found_and_the_rest_is_checked(root, name):
    path = root / name
    path = path if path.is_file() else min(path.iterdir())
    path.unlink()
    os.mkfifo(path) if name == "lock" else path.mkdir()

    report = checked(root)

    found = only(report, "store.not-a-file")
    assert (found.file, found.severity) == (str(path.relative_to(root)), Severity.DAMAGE)
    assert report.checked.messages


def test_directories_of_others_may_have_names_like_those_of_files(root):
    number = "20261130223506123"
    for name in (f"others/{number}", f"config/{number}", f"consumequeue/{number}/0"):
        (root / name).mkdir(parents=True)

    kinds = {each.kind for each in checked(root).findings}

    assert "store.strange" in kinds
    assert "store.not-a-file" not in kinds


def with_config(root, **files):
    (root / "config").mkdir()
    for name, text in files.items():
        (root / "config" / f"{name}.json").write_text(text)


def test_offsets_after_the_end_of_their_queues_are_told(root):
    table = {"t0@shop": "{0:20,1:999}", "gone@shop": "{0:5}"}
    text = ",".join(f'"{name}":{offsets}' for name, offsets in table.items())
    with_config(root, consumerOffset=f'{{"offsetTable":{{{text}}}}}')

    found = only(checked(root), "config.offset-beyond")

    assert found.found == "offset 999 of group shop of t0/1"
    assert found.expected.startswith("at most 20,")
    assert found.severity is Severity.WARNING


def test_a_delay_level_after_the_end_of_its_queue_is_told(golden_store):
    root = golden_store("delay")
    with_config(root, delayOffset='{"offsetTable":{1:3,2:100000}}')

    assert only(checked(root), "config.offset-beyond").found == "offset 100000 of delay level 2"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "config.json"),
        ("[1]", "config.json"),
        ("[" * 100_000, "config.json"),
        ('{"offsetTable":[1]}', "config.shape"),
        ('{"offsetTable":{"t0@shop":3}}', "config.shape"),
        ('{"offsetTable":{"t0@shop":{"x":3}}}', "config.shape"),
        ('{"offsetTable":{"t0@shop":{0:"x"}}}', "config.shape"),
    ],
)
def test_a_damaged_config_is_told_beside_what_is_healthy(text, kind, root):
    with_config(root, consumerOffset=text, topics='{"topicConfigTable":{}}')

    report = checked(root)

    found = only(report, kind)
    assert (found.file, found.severity) == ("config/consumerOffset.json", Severity.DAMAGE)
    assert report.checked.plugins == ["consumequeue", "index"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("topics.json", "timermetrics"),
        ("subscriptionGroup.json", "transactionMetrics"),
        ("topics.json", "topics.json.bak"),
    ],
)
def test_a_document_with_the_content_of_another_is_found_and_its_backup_is_used(one, other, root):
    version = '"dataVersion":{"counter":1}'
    right = {
        "topics.json": f'{{{version},"TopicConfigTable":{{}}}}',
        "timermetrics": f'{{{version},"timingCount":{{}}}}',
        "subscriptionGroup.json": f'{{{version},"subscriptionGroupTable":{{}}}}',
        "transactionMetrics": f'{{{version},"transactionCount":{{}}}}',
        "topics.json.bak": '{"topicConfigTable":{},"later":1}',
    }
    (root / "config").mkdir()
    for name in (one, other, "topics.json.bak"):
        (root / "config" / name).write_text(right[name])
    assert checked(root).is_healthy

    if one != other.removesuffix(".bak"):
        (root / "config" / one).write_text(right[other])
        (root / "config" / other).write_text(right[one])
    else:
        (root / "config" / one).write_text('{"members":1}')

    found = [each for each in checked(root).findings if each.kind == "config.shape"]
    wrong = {one, other} - {"topics.json.bak"}
    assert {each.file for each in found} == {f"config/{name}" for name in wrong}
    assert all(each.severity == Severity.DAMAGE for each in found)
    planned = {each.name: each.data for each in plan_config(str(root), Disk().at(str(root)), {})}
    assert planned[one] == (right["topics.json.bak"].encode() if one == "topics.json" else None)


@pytest.mark.parametrize("name", ["liteTopics.json", "later.json.bak", "topics.json.old"])
def test_settings_of_a_later_release_are_named_and_not_damaged(name, root):
    (root / "config").mkdir()
    (root / "config" / name).write_text("not JSON")

    found = only(checked(root), "config.strange")

    assert (found.file, found.severity) == (f"config/{name}", Severity.NOTICE)
    assert plan_config(str(root), Disk().at(str(root)), {}) == []


# --------------------------------------------------------------------------- reput's own files


@pytest.mark.parametrize(
    ("hurt", "kinds_found"),
    [
        (lambda data: bytes(len(data)), {"reput.manifest", "reput.state"}),
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), {"reput.journal"}),
    ],
    ids=["slots", "journal"],
)
def test_a_damaged_state_file_is_told(hurt, kinds_found, root):
    path = root / "reput" / "state"
    path.write_bytes(hurt(path.read_bytes()))

    report = checked(root)

    assert {each.kind for each in report.findings} == kinds_found
    assert {(each.file, each.severity) for each in report.findings} == {
        ("reput/state", Severity.DAMAGE)
    }
    assert report.exit_code == 1
    assert report.checked.plugins == ["consumequeue", "index"]


def test_a_directory_of_a_broker_is_healthy_after_a_rebuild(tmp_path):
    root = unpacked("rocketmq-5.5.0/default", tmp_path)

    rebuild(root, ["index"], jobs=1)

    assert not [each for each in checked(root).findings if each.severity > Severity.NOTICE]
    assert inspect_store(root).written_by == "rocketmq 5.4"
    with reput.open(root, "w", plugins=["consumequeue"]):
        pass
    assert inspect_store(root).written_by == "reput"
    (root / "reput" / "state").unlink()
    assert only(checked(root), "reput.manifest").severity is Severity.DAMAGE


@pytest.mark.parametrize(
    ("right", "wrong", "kind"),
    [
        (b"items_per_file", b"itemz_per_file", "reput.manifest"),
        (b'"items_per_file": 60', b'"items_per_file": -5', "reput.manifest"),
        (b'"index"]', b'"indez"]', "reput.manifest"),
        (b'"file_size"', b'"file_zize"', "log.unreadable"),
    ],
)
def test_options_and_plugins_that_no_reader_takes_are_told(right, wrong, kind, root):
    change_manifest(root, lambda text: text.replace(right, wrong))

    assert only(checked(root), kind).severity >= Severity.DAMAGE


@pytest.mark.parametrize(("first", "last"), [(0, -1), (0, 1)])
def test_index_files_in_another_order_than_their_contents_are_told(first, last, root):
    files = sorted((root / "index").iterdir())
    assert len(files) > 1
    one, other = files[first], files[last]
    one.rename(root / "kept")
    other.rename(one)
    (root / "kept").rename(other)

    found = [each for each in checked(root).findings if each.kind == "index.order"]

    assert [each.severity for each in found] == [Severity.DAMAGE] * 2
    assert {each.file for each in found} == {f"index/{each.name}" for each in (one, other)}


def test_an_index_file_that_was_renamed_is_told_if_its_order_is_another_one(root):
    *_, last = sorted((root / "index").iterdir())
    later = last.rename(last.with_name("20990101000000000"))
    assert checked(root).is_healthy

    later.rename(last.with_name("20200101000000000"))
    assert "index.order" in kinds(checked(root))


@pytest.mark.parametrize(
    ("call", "kind"), [("queues", None), ("read", "store.queue"), ("query", "store.key")]
)
def test_a_store_is_asked_as_a_reader_asks(call, kind, root, monkeypatch):
    def fail(store, *given, **named):
        raise (
            CorruptFileError("f", 0, "cannot be read")
            if kind
            else NoReaderError("queues", "consumequeue")
        )

    monkeypatch.setattr(f"reput.Store.{call}", fail)

    report = checked(root)

    if kind is None:  # a store without queues is healthy
        assert report.is_healthy
    else:
        assert kinds(report) == [kind]


def test_progress_of_another_log_is_told(root):
    forget(root, ".log")  # which holds the last record's checksum, too
    place = places(root)[-1][0]
    flip_log(root, place + 44)  # born time, which no checksum covers
    assert "reput.state-record" in kinds(checked(root))


def test_recorded_losses_and_dead_letters_are_notices(root):
    entry = {"start_offset": 0, "end_offset": 10, "reason": "BAD_MAGIC"}
    put_value(root, ".losses", json.dumps(entry).encode())
    letters = root / "reput" / "dead-letters"
    letters.mkdir()
    letter = {
        "physical_offset": 0,
        "size": 10,
        "topic": "t0",
        "queue_id": 0,
        "queue_offset": 0,
        "error": "no",
        "timestamp": 1,
    }
    (letters / "index.jsonl").write_text(json.dumps(letter) + "\n")

    report = checked(root)

    assert report.counts == {"reput.losses": 1, "reput.dead-letters": 1}
    assert report.exit_code == 0


# --------------------------------------------------------------------------- plugins


def test_a_plugin_that_is_not_installed_is_said_beside_the_others(root):
    def with_words(text):
        manifest = json.loads(text)
        manifest["plugins"] += ["words"]
        manifest["config"]["words"] = {"size": 3}
        return json.dumps(manifest).encode()

    change_manifest(root, with_words)

    report = checked(root)

    assert report.checked.plugins == ["consumequeue", "index"]
    assert report.findings == ()
    (reason,) = reasons(report, "words")
    assert "not installed" in reason


def test_a_plugin_with_a_wrong_option_is_said_beside_the_others(root):
    def with_wrong_option(text):
        manifest = json.loads(text)
        manifest["config"]["index"] = {"slots_per_file": -1}
        return json.dumps(manifest).encode()

    change_manifest(root, with_wrong_option)

    report = checked(root)

    assert report.checked.plugins == ["consumequeue"]
    assert "slots_per_file" in reasons(report, "index")[0]


def test_derived_files_that_cannot_be_read_are_told_beside_the_others(root):
    for path in (root / "consumequeue").rglob("0" * 18 + "*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:13])

    report = checked(root)

    assert "consumequeue.unreadable" in kinds(report)
    assert "index" in report.checked.plugins


def test_a_plugin_that_lags_is_unfinished_and_not_damaged(root):
    with lock_store(root) as closed:
        closed.suspend("index")
    with reput.open(root, threads=False, clock=lambda: START + 10**9) as store:
        for number in range(10):
            store.put(Message("t1", b"x", keys=f"l{number}"))

    report = checked(root)

    assert kinds(report) == ["reput.suspended"]
    assert only(report, "index.unfinished").severity is Severity.NOTICE

    newest = max((root / "index").iterdir())
    flip(newest, 40 + 4 * 11 + 20 * 3 + 11)  # in what it had come to
    assert kinds(checked(root)) == ["index.item", "reput.suspended"]


def test_files_that_a_broker_completed_are_compared_up_to_the_end_of_the_log(root):
    """A broker does not change what reput noted of its plugins; it changes the checkpoint."""
    before = (root / "reput/state").read_bytes()
    with reput.open(root, threads=False, clock=lambda: START + 10**9) as store:
        for number in range(10):
            store.put(Message("t1", b"x", keys=f"l{number}"))
    (root / "reput/state").write_bytes(before)

    assert kinds(checked(root)) == []


# --------------------------------------------------------------------------- in use


def test_beside_a_writer_the_log_is_checked_and_derived_files_are_not(tmp_path):
    root = tmp_path / "store"
    config = {"commitlog": SMALL["commitlog"]}
    with reput.open(root, plugins=["consumequeue", "index"], config=config) as store:
        stop = threading.Event()

        def put():
            while not stop.is_set():
                store.put(Message("t", b"x" * 100, keys="k"))

        store.put(Message("t", b"x"))
        writer = threading.Thread(target=put)
        writer.start()
        try:
            report = verify(root)
        finally:
            stop.set()
            writer.join()

    assert report.checked.messages >= 1
    assert report.checked.plugins == []
    assert report.counts == {"store.open": 1}
    assert report.exit_code == 0
    for name in ("consumequeue", "index"):
        assert any("open for writing" in each for each in reasons(report, name))


def test_a_store_on_a_file_system_that_cannot_be_written_is_checked(root, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    paths = [root, *root.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        report = checked(root, scratch=str(scratch))
    finally:
        for path in paths:
            path.chmod(0o755 if path.is_dir() else 0o644)

    assert report.is_healthy
    assert report.checked.plugins == ["consumequeue", "index"]
    assert os.listdir(scratch) == []


def test_nothing_is_left_in_the_scratch_directory_after_an_error(root, tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def fail(*_, **__):
        raise RuntimeError("no")

    monkeypatch.setattr("reput_tools.doctor.verification.verifyrun.check_derived", fail)
    before = tree(root)
    with pytest.raises(RuntimeError):
        verify(root, scratch=str(scratch))

    assert os.listdir(scratch) == []
    assert tree(root) == before


def test_a_directory_without_a_store_is_refused(tmp_path):
    with pytest.raises(StoreNotFoundError):
        verify(tmp_path)


def test_an_empty_store_is_healthy(tmp_path):
    with reput.open(tmp_path / "store", plugins=["consumequeue", "index"], threads=False):
        pass

    report = checked(tmp_path / "store", deep=True)

    assert bad(report) == []
    assert report.checked.messages == 0


def test_what_happens_is_told_step_by_step(root):
    steps = []

    verify(root, progress=lambda step, done, total: steps.append((step, done, total)))

    assert list(dict.fromkeys(step for step, *_ in steps)) == ["log", "derived files"]
    for step in ("log", "derived files"):
        own = [(done, total) for name, done, total in steps if name == step]
        assert [done for done, _ in own] == sorted(done for done, _ in own)
        assert own[-1][0] == own[-1][1] > 0


# --------------------------------------------------------------------------- sums of records


def test_a_changed_record_is_a_loss_and_is_not_to_be_followed(tmp_path):
    root = own_store(tmp_path / "store", plugins=("consumequeue", "index", "integrity"))
    place, topic, queue_id, queue_offset = places(root)[50]
    assert checked(root).is_healthy
    flip_log(root, place + 15, 0x02)  # its queue id, which the body's checksum does not cover

    report = checked(root)

    found = only(report, "integrity.record")
    assert found.severity is Severity.LOSS
    assert found.messages[0].physical_offset == place
    units = [each for each in report.findings if each.kind == "consumequeue.unit"]
    own = [
        each
        for each in units
        for message in each.messages
        if (message.topic, message.queue_id) == (topic, queue_id)
        and message.queue_offset == queue_offset
    ]
    assert own
    assert all(each.advice.startswith("repair the log first") for each in units)


@pytest.mark.costly
def test_deliver_times_are_compared_where_the_caller_says_how_long_levels_delay(golden_store):
    root = golden_store("delay")
    levels = {"schedule": {"delay_levels": "1s 2s 4s"}}

    assert checked(root, config=levels).is_healthy

    queue = next((root / "consumequeue" / "SCHEDULE_TOPIC_XXXX").rglob("0" * 20))
    flip(queue, 19)
    assert kinds(checked(root)) == []
    assert kinds(checked(root, config=levels)) == ["consumequeue.unit"]


@pytest.mark.parametrize(("count", "told"), [(10, []), (11, ["store.queues-behind"])])
def test_more_files_without_queues_than_a_broker_looks_at_are_told(tmp_path, count, told):
    root = tmp_path / "store"
    with reput.open(root, plugins=[], config={"commitlog": {"file_size": 4_096}}) as store:
        for _ in range(count):
            store.put(reput.Message("T", bytes(3_000)))
    assert len(list((root / "commitlog").glob("0*"))) == count

    found = checked(root).findings
    assert [each.kind for each in found] == told
    for command in ("info", "fill"):
        run = subprocess.run(
            [sys.executable, "-m", "reput", command, root], check=True, capture_output=True
        )
        assert (b"last ten log files" in run.stdout + run.stderr) == bool(told)
    for each in found:
        words = shlex.split(each.advice.partition(": ")[2])
        assert subprocess.run([sys.executable, "-m", *words], check=False).returncode == 0
        assert [each.kind for each in checked(root).findings] == []
