"""``reput serve`` beside a real broker: the same stock client, ours, and no client at all."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.case import BODIES, Case, body_name
from benchmarks.tables import SERVE, SERVE_DURABLE, SERVE_PUSH
from benchmarks.trial import Trial

_SENDERS = (1, 16, 64)
_RAW = ((1, 1), (1, 64), (64, 1))
"""Connections, and requests that each has under way; the first is for sends that are alone."""
_TOPIC = "load"
_NEEDS = ("reput_server", "reput_client", "psutil")
_WARM_UP_MS, _MS = 300, 1_500
_FIRST_MS = 3_000
"""For how long each server gets 64 senders before anything is measured: the JVMs compile."""
_FULL_CONSUMED = 200_000
_FULL_LATENCIES = 500
_PAUSE_MS = 5


def cases() -> Iterator[Case]:
    """Sends by body and flush, and a push consumer."""
    for flush, table in (("async", SERVE), ("sync", SERVE_DURABLE)):
        for body in BODIES:
            yield Case(
                name=f"serve.{flush}.{body_name(body)}",
                table=table,
                run=partial(send, flush=flush),
                body_size=body,
                needs=_NEEDS,
                repeats=False,
            )
    yield Case(
        name="serve.push.100B",
        table=SERVE_PUSH,
        run=push,
        body_size=100,
        needs=_NEEDS,
        repeats=False,
    )


def send(trial: Trial, *, flush: str) -> None:
    """1, 16 and 64 threads send for a while, by the stock client, and by ours."""
    from benchmarks.served import own
    from benchmarks.served.turns import take_turns

    size, warm_up, ms = trial.body_size, _part(trial, _WARM_UP_MS), _part(trial, _MS)
    with _servers(trial, flush) as (contenders, java):
        if java is not None:
            for each in contenders:
                java.do("send", each.name_server, _TOPIC, 64, size, 0, _part(trial, _FIRST_MS))

            def by_java(contender: Any, _: int, *, senders: int) -> Any:
                words = contender.name_server, _TOPIC, senders, size, warm_up, ms
                return java.do("send", *words)

            def raw(contender: Any, _: int, *, connections: int, each: int) -> Any:
                words = contender.broker, _TOPIC, connections, each, size
                return java.do("raw", *words, warm_up, ms, 1 << 40)

            for senders in _SENDERS:
                label = f"{senders} of the Java client"
                take_turns(trial, label, contenders, partial(by_java, senders=senders))
            for connections, under_way in _RAW if flush == "async" else _RAW[1:]:
                ways = f"{connections} connection{'s' * (connections > 1)}"
                label = f"{ways} with {under_way} under way, no client"
                work = partial(raw, connections=connections, each=under_way)
                take_turns(trial, label, contenders, work)

        def by_own(contender: Any, _: int, *, senders: int) -> Any:
            return own.send(contender.name_server, _TOPIC, senders, size, warm_up, ms // 2)

        for senders in _SENDERS:
            label = f"{senders} of our client"
            take_turns(trial, label, contenders, partial(by_own, senders=senders))


def push(trial: Trial) -> None:
    """A stock push consumer takes all messages, then each new one as it comes."""
    from benchmarks.served.turns import take_turns

    count, latencies = trial.count(_FULL_CONSUMED, 2_000), trial.count(_FULL_LATENCIES, 20)
    with _servers(trial, "async") as (contenders, java):
        if java is None:
            return
        for each in contenders:
            words = each.broker, "taken", 4, 16, trial.body_size, 0, 60_000
            java.do("send", each.name_server, "taken", 1, trial.body_size, 0, 50)  # makes the topic
            java.do("send", each.name_server, "told", 1, trial.body_size, 0, 50)
            java.do("raw", *words, count // 4)

        def consume(contender: Any, number: int) -> Any:
            return java.do("consume", contender.name_server, "taken", f"all-{number}", count)

        def latency(contender: Any, number: int) -> Any:
            words = contender.name_server, "told", f"told-{number}", latencies, _PAUSE_MS
            return java.do("latency", *words)

        take_turns(trial, "take the existing messages", contenders, consume)
        take_turns(trial, "take each as it comes", contenders, latency)


def _part(trial: Trial, ms: int) -> int:
    return max(int(ms * min(trial.scale * 3, 1)), 20)


@contextlib.contextmanager
def _servers(trial: Trial, flush: str) -> Iterator[tuple[list[Any], Any]]:
    """Start the servers and the stock client; the real broker and that one if they can be had."""
    from benchmarks.served.load import JavaLoad
    from benchmarks.served.servers import reput_server, rocketmq_broker, support

    unavailable = support("mavenparts").JavaUnavailableError
    with contextlib.ExitStack() as stack:
        contenders, java = [], None
        try:
            directory = trial.directory / "rocketmq"
            contenders.append(stack.enter_context(rocketmq_broker(directory, flush)))
            java = stack.enter_context(JavaLoad(trial.directory))
        except unavailable as error:
            print(f"reput alone: {error}")
        contenders.append(stack.enter_context(reput_server(trial.directory / "reput", flush)))
        yield contenders, java
