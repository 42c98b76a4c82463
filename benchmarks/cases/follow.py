"""Following a master: how fast its log is taken, how late messages are, what idleness costs."""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.case import BODIES, Case, body_name
from benchmarks.tables import FOLLOW, FOLLOW_LAG, FOLLOW_WORDS, IDLE
from benchmarks.trial import Latencies, Trial
from benchmarks.workload import Workload

_PLUGINS = ("consumequeue", "index")
_FULL_SIZE = 600_000_000
_BATCH = 1_000
_FULL_LATENCIES = 1_000
_PAUSE = 0.005
_LOOK_EVERY = 50e-6
_NEEDS = ("reput_server.follow", "reput_index")
_WAIT = 300.0
_WORDS_RATE = 10_000  # messages a second
_WORDS_BATCH, _CLOSED_BATCH = 100, 10
_WORDS_SECONDS, _CLOSED_SECONDS = 20.0, 4.0
_WORDS_LOOK = 0.05  # seconds between two queries
_TURNS = 3


def cases() -> Iterator[Case]:
    """Take a log, beside a slave of Java; lag; a word index; an idle follower."""
    for body in BODIES:
        name = f"follow.take.{body_name(body)}"
        yield Case(name=name, table=FOLLOW, run=take, body_size=body, needs=_NEEDS)
    served = (*_NEEDS, "reput_server", "reput_client", "psutil")
    yield Case(
        name="follow.beside.1KiB",
        table=FOLLOW,
        run=beside,
        body_size=1_024,
        needs=served,
        repeats=False,
    )
    yield Case(name="follow.lag.1KiB", table=FOLLOW_LAG, run=lag, body_size=1_024, needs=served)
    yield Case(
        name="follow.words.100B",
        table=FOLLOW_WORDS,
        run=words,
        body_size=100,
        needs=(*served, "reput_table"),
        repeats=False,
    )
    yield Case(name="follow.idle", table=IDLE, run=idle, needs=_NEEDS, repeats=False)


def take(trial: Trial) -> None:
    """Take a log from a master that has it in memory, with queues and index."""
    from benchmarks.served.memorymaster import memory_master

    count = _fill(trial, trial.directory / "master")
    trial.settle(trial.size_of(count) * 2)
    for plugins in ((), _PLUGINS):
        label = " and ".join(("reput follow", *plugins))
        with memory_master(trial.directory / "master") as address:
            _take(trial, label, address, count, plugins)


def beside(trial: Trial) -> None:
    """Take the log of ``reput serve``, by a follower and by a slave of RocketMQ."""
    from benchmarks.served.servers import VERSION, support
    from reput_client.remoting import parse_address
    from reput_server.follow import BrokerClient

    count = _fill(trial, trial.directory / "master", plugins=(*_PLUGINS, "consumer"))
    unavailable = support("mavenparts").JavaUnavailableError
    with contextlib.ExitStack() as stack:
        try:
            released = support("realbroker").fetch(VERSION)
        except unavailable as error:
            print(f"reput alone: {error}")
            return
        names = stack.enter_context(released.name_server(trial.directory / "names"))
        facts = stack.enter_context(
            _serving(trial.directory / "master", "--register", names.address)
        )
        end = _end_of(facts["broker"])
        slave = stack.enter_context(
            released.broker(
                trial.directory / "slave",
                names.address,
                name=facts["broker_name"],
                brokerClusterName=facts["cluster"],
                brokerRole="SLAVE",
                brokerId=1,
                mappedFileSizeCommitLog=1 << 30,
                mappedFileSizeConsumeQueue=300_000 * 20,
                maxHashSlotNum=5_000_000,
                maxIndexNum=20_000_000,
            )
        )
        with BrokerClient(parse_address(slave.address)) as asked:
            began = _wait(lambda: _end_at(asked))
            size = trial.body_size * count
            label = f"slave of RocketMQ {VERSION}, from reput serve"
            with trial.timed(label, count, size) as measured:
                _wait(lambda: _end_at(asked) >= end)
            measured.facts["came before it was seen"] = f"{began / 1e6:.0f} MB"
        _take(trial, "reput follow, from reput serve", facts["broker"], count, _PLUGINS)


def lag(trial: Trial) -> None:
    """Send one message after the other to ``reput serve``; read each in the follower's store."""
    from reput_client import Client
    from reput_server.follow import following, open_replica

    count = trial.count(_FULL_LATENCIES, least=100)
    clock, body, times = time.perf_counter_ns, bytes(trial.body_size), []
    with (
        _serving(trial.directory / "master") as facts,
        Client(facts["name_server"]) as client,
        client.producer("bench") as producer,
    ):
        message = _message(body)
        producer.send(message)
        own = trial.directory / "own"
        with (
            open_replica(own, facts["broker"], plugins=_PLUGINS) as store,
            following(store, facts["broker"]) as follower,
        ):
            follower.wait_caught_up(_WAIT)
            label = "reput follow, behind reput serve"
            with trial.timed(label, count, baseline=True) as measured:
                for _ in range(count):
                    time.sleep(_PAUSE)  # a steady rate, so that no message waits for others
                    sent = producer.send(message)
                    began, queue = clock(), sent.queue
                    while not store.read(queue.topic, queue.queue_id, sent.queue_offset, 1):
                        time.sleep(_LOOK_EVERY)
                    times.append(clock() - began)
            measured.latencies = Latencies.of("after the send was answered, until readable", times)


def words(trial: Trial) -> None:
    """Index the words of a real broker's messages: how late, and what the broker loses by it."""
    from benchmarks.served.servers import VERSION, support
    from benchmarks.stores import example_plugin
    from reput_server.follow import following, open_replica

    seconds = max(_WORDS_SECONDS * trial.scale, 2.0)
    turn_seconds = max(_CLOSED_SECONDS * trial.scale, 0.5)
    unavailable = support("mavenparts").JavaUnavailableError
    with contextlib.ExitStack() as stack:
        try:
            released = support("realbroker").fetch(VERSION)
        except unavailable as error:
            print(f"not measured: {error}")
            return
        names = stack.enter_context(released.name_server(trial.directory / "names"))
        broker = stack.enter_context(released.broker(trial.directory / "broker", names.address))
        ask = stack.enter_context(_producer(names.address, trial.body_size))
        ask(0.2, None, _CLOSED_BATCH)  # the topic exists
        plugins = ["consumequeue", example_plugin("words.py", "WordsPlugin")]
        store = stack.enter_context(
            open_replica(trial.directory / "own", broker.address, plugins=plugins)
        )

        with following(store, broker.address) as follower:
            follower.wait_caught_up(_WAIT)
            ask(1.0, _WORDS_RATE, _WORDS_BATCH)  # warm
            store.wait_dispatched()
            looks: list[tuple[int, int]] = []
            label = "the docs' word index, at 10,000 messages a second"
            with trial.timed(label, int(seconds * _WORDS_RATE)) as measured, _looking(store, looks):
                sent = ask(seconds, _WORDS_RATE, _WORDS_BATCH)
                _wait(lambda: looks and looks[-1][0] >= sent[-1][0])
            late = list(_lateness(sent, looks))
            measured.count = len(late)
            ends = [f"t{sent[0][0] + 1 - sent[0][1]:012}", f"t{sent[-1][0]:012}"]
            between = "SELECT count(*) FROM words WHERE word BETWEEN ? AND ?"
            ((found,),) = store.plugin("words").query(between, ends)
            trial.require(found == len(late), "each message is in the table once")
            measured.latencies = Latencies.of("before its send, until in the table", late)
            # Fewer where the machine is too busy for the broker to answer so many.
            measured.facts["sent"] = f"{len(late) / seconds:,.0f} a second"
            measured.facts["queries"] = f"{len(looks) / measured.seconds:.0f} a second"

        rates: dict[bool, list[float]] = {False: [], True: []}
        for turn in range(2 * _TURNS):
            is_followed = bool(turn % 2)
            with contextlib.ExitStack() as turns:
                if is_followed:
                    turns.enter_context(following(store, broker.address)).wait_caught_up(_WAIT)
                    store.wait_dispatched()
                made = ask(turn_seconds, None, _CLOSED_BATCH)
                rates[is_followed].append(sum(size for _, size, _ in made) / turn_seconds)
            store.wait_dispatched()
        for is_followed, found in rates.items():
            label = f"RocketMQ {VERSION}, {'with' if is_followed else 'without'} the follower"
            with trial.timed(label, round(sorted(found)[len(found) // 2])) as measured:
                pass
            measured.seconds = 1.0
            measured.facts["each turn"] = ", ".join(f"{each:,.0f}/s" for each in found)


def idle(trial: Trial) -> None:
    """Measure an idle follower's processor time, and its memory over a long flood before."""
    from benchmarks.served.memorymaster import memory_master
    from reput_server.follow import following, open_replica

    seconds = max(20.0 * trial.scale, 3.0)
    trial.body_size = 1_024
    count = _fill(trial, trial.directory / "master")
    peak = [0]
    with (
        memory_master(trial.directory / "master") as address,
        open_replica(trial.directory / "own", address, plugins=_PLUGINS) as store,
        following(store, address) as follower,
    ):
        with _sampled(peak):
            follower.wait_caught_up(_WAIT)
            store.flush()
        time.sleep(1.0)  # the last flushes are over; idleness itself is what is measured
        with trial.timed("reput follow, idle", 1, unit="waits") as measured:
            time.sleep(seconds)
    measured.facts["processor"] = f"{measured.cpu_seconds / measured.seconds:.3%} of a core"
    measured.facts["anonymous memory, peak"] = f"{peak[0] / 1e6:.0f} MB of {count:,} messages"


# --------------------------------------------------------------------------- parts


def _fill(trial: Trial, path: Path, plugins: tuple[str, ...] = ()) -> int:
    """Make a store with messages, in a process of its own; return how many."""
    batches = trial.count(_FULL_SIZE // ((trial.body_size + 200) * _BATCH), least=5)
    given = str(path), trial.body_size, batches, plugins
    process = multiprocessing.get_context("spawn").Process(target=_make, args=given)
    process.start()
    process.join()
    trial.require(process.exitcode == 0, "a store of messages")
    return batches * _BATCH


def _make(path: str, body_size: int, batches: int, plugins: tuple[str, ...]) -> None:
    import reput

    work = Workload(body_size)
    with reput.open(path, plugins=plugins) as store:
        for at in range(batches):
            store.put_many(work.columns(at * _BATCH, _BATCH))
        store.wait_dispatched()


def _take(trial: Trial, label: str, address: str, count: int, plugins: tuple[str, ...]) -> None:
    from reput_server.follow import following, open_replica

    path, end = trial.directory / f"own-{len(trial.measurements)}", _end_of(address)
    with open_replica(path, address, plugins=plugins) as store:
        with (
            trial.timed(label, count, trial.body_size * count) as measured,
            following(store, address) as follower,
        ):
            follower.wait_caught_up(_WAIT)
        measured.facts["log"] = f"{end / measured.seconds / 1e6:.0f} MB/s"
        trial.require(store.log.max_physical_offset == end, "the log's end")


def _end_of(address: str) -> int:
    from reput_client.remoting import parse_address
    from reput_server.follow import BrokerClient

    with BrokerClient(parse_address(address)) as broker:
        return broker.log_range().max_offset


def _end_at(broker: Any) -> int:
    """Return where a broker's log ends; 0 as long as it has none, which it says by an error."""
    from reput_server.follow import BrokerError

    try:
        return int(broker.log_range().max_offset)
    except BrokerError:
        return 0


@contextlib.contextmanager
def _serving(path: Path, *options: str) -> Iterator[dict[str, Any]]:
    """Serve a store with its HA port, in a process of its own."""
    from benchmarks.served.servers import served

    given = ("--replicas", "127.0.0.1:0", *options)
    with served(path, *given) as (facts, _):
        yield facts


def _message(body: bytes) -> Any:
    import reput

    return reput.Message("bench", body, tags="TagA", keys="order")


@contextlib.contextmanager
def _producer(names: str, body_size: int) -> Iterator[Any]:
    """Give a function that has a process of its own send, and returns what it sent and when."""
    here, there = multiprocessing.Pipe()
    given = names, body_size, there
    process = multiprocessing.get_context("spawn").Process(target=_produce, args=given)
    process.start()

    def ask(*order: Any) -> Any:
        here.send(order)
        return here.recv()

    try:
        yield ask
    finally:
        here.send(None)
        process.join()


def _produce(names: str, body_size: int, orders: Any) -> None:
    """Send batches, each message with a word of its own that names its place in the order."""
    import reput
    from reput_client import Client

    number, rest = 0, b" order of one book" + b" " * body_size
    with Client(names) as client, client.producer("bench") as producer:
        while (order := orders.recv()) is not None:
            seconds, rate, size = order
            began = time.monotonic()
            sent: list[tuple[int, int, int]] = []
            while (now := time.monotonic()) < began + seconds:
                if rate is not None and (ahead := len(sent) * size / rate - (now - began)) > 0:
                    time.sleep(ahead)  # the rate is what is asked for
                    continue
                messages = [
                    reput.Message("words", (b"t%012d" % (number + at) + rest)[:body_size])
                    for at in range(size)
                ]
                at = time.monotonic_ns()
                producer.send_batch(messages)
                number += size
                sent.append((number - 1, size, at))
            orders.send(sent)


@contextlib.contextmanager
def _looking(store: Any, looks: list[tuple[int, int]]) -> Iterator[None]:
    """Note again and again which message is the last one in the table, and when."""
    stops = threading.Event()
    query = "SELECT max(word) FROM words WHERE word >= 't0' AND word < 'u'"

    def look() -> None:
        while not stops.wait(_WORDS_LOOK):
            ((word,),) = store.plugin("words").query(query)
            looks.append((int(word[1:]), time.monotonic_ns()))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        stops.set()
        thread.join()


def _lateness(sent: list[tuple[int, int, int]], looks: list[tuple[int, int]]) -> Iterator[int]:
    """Yield for each message how long after the call that sent it a query found it, ns.

    The table has messages in their order, which is that of one producer's sends.
    """
    seen = iter(looks)
    last, at = next(seen)
    for number, size, called in sent:
        while last < number:
            last, at = next(seen)
        yield from [at - called] * size


def _wait(holds: Any) -> Any:
    end = time.monotonic() + _WAIT
    while not (found := holds()):
        if time.monotonic() > end:
            raise TimeoutError("the slave took no log")
        time.sleep(0.005)  # the Java slave tells nobody; bounded by the time above
    return found


@contextlib.contextmanager
def _sampled(peak: list[int]) -> Iterator[None]:
    """Note the most anonymous memory that this process has."""
    stops = threading.Event()

    def sample() -> None:
        while not stops.wait(0.02):
            status = Path("/proc/self/status").read_text("ascii")
            line = next(line for line in status.splitlines() if line.startswith("RssAnon:"))
            peak[0] = max(peak[0], int(line.split()[1]) * 1_024)

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield
    finally:
        stops.set()
        thread.join()
