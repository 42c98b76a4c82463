"""Other measurements of consumer groups: rebalances, saved offsets, waiting, idle threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.case import Case
from benchmarks.cases.consumer import PLUGINS
from benchmarks.stores import open_store
from benchmarks.tables import GROUPS
from benchmarks.trial import Latencies, Trial
from benchmarks.workload import TOPIC_COUNT, Workload

_QUEUE_COUNT = 1_000
_GROUP_COUNT = 10_000
_PAUSE = 0.01  # seconds between two messages: the consumer waits again


def cases() -> Iterator[Case]:
    """A rebalance, a save, the way from put to handler, and an idle consumer."""
    for subject, measure in (
        ("rebalance", rebalance),
        ("offsets", save_offsets),
        ("latency", put_to_handler),
        ("idle", idle),
    ):
        yield Case(name=f"consumer.{subject}", table=GROUPS, run=measure, needs=("reput_consumer",))


def rebalance(trial: Trial) -> None:
    """A second member joins a group that reads 1,000 queues, and leaves it."""
    import reput

    rounds = trial.count(50, least=3)
    joined, left, clock = [], [], time.perf_counter_ns
    shares = 0, 0
    config = {"consumequeue": {"units_per_file": 1_000}}
    with open_store(trial.directory / "store", plugins=PLUGINS, config=config) as store:
        store.put_many([reput.Message("orders", b"x", number) for number in range(_QUEUE_COUNT)])
        store.wait_dispatched()
        groups = store.plugin("consumer")
        first = groups.consumer("bench", "orders", start="earliest", name="a")
        trial.settle()
        label = f"a member joins one that has {_QUEUE_COUNT:,} queues"
        with trial.timed(label, rounds, unit="members") as measured:
            for _ in range(rounds):
                began = clock()
                second = groups.consumer("bench", "orders", start="earliest", name="b")
                joined.append(clock() - began)
                shares = len(first.queues), len(second.queues)
                began = clock()
                second.close()
                left.append(clock() - began)
        trial.require(sum(shares) >= _QUEUE_COUNT, f"shares of {shares} queues")
    measured.latencies = Latencies.of("join", joined)
    trial.measurements.append(
        type(measured)(
            label="the member leaves",
            count=rounds,
            size=0,
            unit="members",
            seconds=sum(left) / 1e9,
            latencies=Latencies.of("leave", left),
        )
    )


def save_offsets(trial: Trial) -> None:
    """Offsets of four queues of 10,000 groups are changed, and saved durably."""
    from reput_consumer import MessageQueue

    groups, rounds = trial.count(_GROUP_COUNT, least=10), trial.count(10, least=2)
    queues = [MessageQueue("orders", "broker-a", number) for number in range(4)]
    times = []
    with open_store(trial.directory / "store", plugins=PLUGINS) as store:
        port = store.plugin("consumer").port
        trial.settle()
        for number in range(rounds):
            offsets = dict.fromkeys(queues, number + 1)
            for group in range(groups):
                port.commit(f"group-{group}", offsets)
            cpu, began = time.process_time_ns(), time.perf_counter_ns()
            trial.require(port.save(), "nothing was saved")
            times.append((time.perf_counter_ns() - began, time.process_time_ns() - cpu))
    measured = [wall for wall, _ in times]
    with trial.timed(f"the offsets of {groups:,} groups are saved", rounds, unit="saves") as row:
        pass
    row.seconds, row.latencies = sum(measured) / 1e9, Latencies.of("save", measured)
    row.facts["processor"] = f"{sum(cpu for _, cpu in times) / rounds / 1e6:.0f} ms a save"


def put_to_handler(trial: Trial) -> None:
    """Put one message, wait until the function has it, pause, repeat."""
    count = trial.count(1_000, least=50)
    work, times = Workload(100), []
    clock, pause = time.perf_counter_ns, time.sleep
    handled = threading.Event()

    def handle(message: Any) -> None:
        times.append(clock() - began)
        handled.set()

    with open_store(trial.directory / "store", plugins=PLUGINS) as store:
        topics = [work.row(number).topic for number in range(TOPIC_COUNT)]
        consumer = store.plugin("consumer").consumer("bench", topics, start="earliest")
        runner = threading.Thread(target=consumer.run, args=(handle,), kwargs={"threads": 4})
        runner.start()
        trial.settle()
        with trial.timed("put until the function has the message", count) as measured:
            for message in work.messages(count):
                pause(_PAUSE)
                handled.clear()
                began = clock()
                store.put(message)
                trial.require(handled.wait(60), "a message did not arrive")
        consumer.stop()
        runner.join()
        consumer.close()
    measured.seconds = sum(times) / 1e9
    measured.latencies = Latencies.of("put until handled", times)
    measured.facts["pause"] = f"{_PAUSE * 1e3:.0f} ms before each"


def idle(trial: Trial) -> None:
    """Measure the processor time of a consumer of 32 queues to which nothing is put."""
    seconds = max(5.0 * trial.scale, 1.0)
    with open_store(trial.directory / "store", plugins=PLUGINS) as store:
        store.put_many(list(Workload(100).messages(1_000)))
        store.wait_dispatched()
        store.flush()
        _sleep(trial, "idle, the store alone", seconds)
        topics = sorted({each.topic for each in store.queues()})
        groups = store.plugin("consumer")
        consumer = groups.consumer("bench", topics, start="earliest")
        runner = threading.Thread(target=consumer.run, args=(lambda message: None,))
        runner.start()
        while groups.progress("bench").lag:
            time.sleep(0.01)  # before the measurement: until nothing is left to consume
        consumer.commit(durable=True)
        _sleep(trial, "idle, 20 threads waiting for messages of 32 queues", seconds)
        consumer.stop()
        runner.join()
        consumer.close()


def _sleep(trial: Trial, label: str, seconds: float) -> None:
    time.sleep(0.5)  # what happened before has ended then, and does not count
    with trial.timed(label, 1, unit="waits") as measured:
        time.sleep(seconds)  # the measured work: nothing, for so long
    measured.facts["processor"] = f"{measured.cpu_seconds / measured.seconds:.3%} of a core"
