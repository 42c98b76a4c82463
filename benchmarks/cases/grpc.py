"""``reput serve --grpc`` beside RocketMQ's proxy and broker, by the Java client of release 5."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.case import BODIES, Case, body_name
from benchmarks.tables import GRPC_BESIDE
from benchmarks.trial import Measurement, Trial

_THREADS = 64
_TOPIC = "load"
_NEEDS = ("reput_server", "reput_server.grpc", "psutil")
_WARM_UP_MS, _MS = 500, 4_000
_FIRST_MS = 8_000
"""For how long each server gets all senders before anything is measured: the JVMs compile."""
_FULL_TAKEN = 10_000
_LEAST_TAKEN = 100
_COLD_STARTS = 3


def cases() -> Iterator[Case]:
    """Sends, then receives and acknowledgements, by body; and cold starts."""
    for body in BODIES:
        yield _case(f"grpc.beside.{body_name(body)}", under_load, body)
    yield _case("grpc.beside.start", cold, BODIES[0])


def _case(name: str, work: Any, body: int) -> Case:
    run = partial(_measure, work=work)
    return Case(name=name, table=GRPC_BESIDE, run=run, body_size=body, needs=_NEEDS, repeats=False)


def _measure(trial: Trial, *, work: Any) -> None:
    from benchmarks.served.servers import support

    try:
        work(trial)
    except support("mavenparts").JavaUnavailableError as error:
        print(f"nothing is measured: {error}")


def under_load(trial: Trial) -> None:
    """64 threads share a producer; then 64 threads share a consumer of what was sent."""
    with _client(trial) as (java, servers), contextlib.ExitStack() as stack:
        contenders = [
            stack.enter_context(start(trial.directory / f"server-{number}"))
            for number, start in enumerate(servers)
        ]
        for each in contenders:
            _fill(trial, each, java)
        _take_turns(trial, contenders, java)


def _fill(trial: Trial, contender: Any, java: Any) -> None:
    """Send more messages than are taken later, and take some: all that is timed has run once."""
    contender.create_topic(_TOPIC)
    words = contender.endpoints, _TOPIC, _THREADS, trial.body_size, 0, _part(trial, _FIRST_MS)
    stored = 0
    while stored < 2 * _taken(trial):
        stored += java.do("send", *words)["all"]
    java.do("take", contender.endpoints, _TOPIC, "warm-up", _THREADS, _taken(trial))


def _take_turns(trial: Trial, contenders: list[Any], java: Any) -> None:
    from benchmarks.served.turns import take_turns

    warm_up, ms = _part(trial, _WARM_UP_MS), _part(trial, _MS)

    def send(contender: Any, _: int) -> Any:
        words = contender.endpoints, _TOPIC, _THREADS, trial.body_size
        return java.do("send", *words, warm_up, ms)

    def take(contender: Any, number: int) -> Any:
        words = contender.endpoints, _TOPIC, f"take-{number}"  # a group begins at the beginning
        return java.do("take", *words, _THREADS, _taken(trial))

    for label, work in (
        (f"{_THREADS} threads send", send),
        (f"{_THREADS} threads receive and acknowledge", take),
    ):
        take_turns(trial, label, contenders, work)
        for each, measured in zip(contenders, trial.measurements[-len(contenders) :], strict=True):
            measured.facts["resident"] = f"{each.resident() / 1e6:.0f} MB"


def cold(trial: Trial) -> None:
    """From before the first process starts until a client, which runs, has received a message."""
    rounds = _COLD_STARTS if trial.scale >= 1 else 1
    with _client(trial) as (java, servers):
        # The first one is the client's own cold start.
        _cold_once(trial, servers[-1], java, "warm-up")
        found = [
            [_cold_once(trial, start, java, f"{at}-{number}") for number in range(rounds)]
            for at, start in enumerate(servers)
        ]
    for each in found:
        seconds, name, resident = sorted(each)[len(each) // 2]
        facts = {
            "starts": ", ".join(f"{one:.1f} s" for one, *_ in each),
            "resident": f"{resident / 1e6:.0f} MB",
        }
        label = f"cold start to the first message: {name}"
        measured = Measurement(label=label, count=1, size=0, seconds=seconds, facts=facts)
        trial.measurements.append(measured)


def _cold_once(trial: Trial, start: Any, java: Any, name: str) -> tuple[float, str, int]:
    began = time.perf_counter()
    with start(trial.directory / f"server-{name}") as contender:
        contender.create_topic("first")
        java.do("first", contender.endpoints, "first", "first", trial.body_size)
        return time.perf_counter() - began, contender.name, contender.resident()


@contextlib.contextmanager
def _client(trial: Trial) -> Iterator[tuple[Any, list[Any]]]:
    """Start the client; gives it, and what starts each server that is measured.

    Raises:
        mavenparts.JavaUnavailableError: Java, Maven or the artifacts are not available.
    """
    from benchmarks.served.grpcservers import grpc_contender, proxy_and_broker
    from benchmarks.served.load import java5_load

    with java5_load(trial.directory) as java:
        yield java, [proxy_and_broker, grpc_contender]


def _taken(trial: Trial) -> int:
    return trial.count(_FULL_TAKEN, _LEAST_TAKEN)


def _part(trial: Trial, ms: int) -> int:
    return max(int(ms * min(trial.scale * 3, 1)), 20)
