"""The script's part about clients that come, tell what they are, and go."""

from __future__ import annotations

from samecalls.run import CallRun
from samecalls.tables import GROUPS, NAMES, duration, publishing, resource, subscribing

from reput_server.grpc.messagetypes import m


def settle(run: CallRun) -> None:
    """Settings of clients that the rest of the script uses."""
    run.tell("producer", publishing("normal", "fifo", "delay", "mixed"), "c")
    run.tell("producer of nothing", publishing(), "p0")
    run.tell("producer of transactions", publishing("transaction"), "p1")
    run.tell("producer again", publishing("normal"), "c")
    for group in GROUPS:
        run.tell(f"simple consumer of {group}", subscribing(group, "normal"), f"s-{group}")
    for group in ("g", "ordered", "never"):
        run.tell(f"push consumer of {group}", subscribing(group, "tags", kind=2), f"l-{group}")
    run.tell("consumer of an unknown group", subscribing("new", "normal"), "s-new")
    run.tell("consumer of an unknown topic", subscribing("g", "nowhere"), "s-nowhere")
    run.tell("consumer of nothing", subscribing("g"), "s-nothing")


def settle_badly(run: CallRun) -> None:
    """Settings that are wrong."""
    for what, name in NAMES.items():
        run.tell(f"producer: topic {what}", publishing(name), f"b-p-{what}".encode().hex())
        run.tell(f"consumer: group {what}", subscribing(name), f"b-g-{what}".encode().hex())
    for what in ("with a slash", "retry", "unknown"):
        run.tell(f"consumer: topic {what}", subscribing("g", NAMES[what]), "b-t" + what[-3:])
    nothing = m.TelemetryCommand(settings=m.Settings(client_type=1))
    run.tell("neither producer nor consumer", nothing, "n1")
    for kind in (0, 1, 4, 5, 99):
        run.tell(f"consumer of type {kind}", subscribing("g", "normal", kind=kind), f"k{kind}")
        beat = m.HeartbeatRequest(group=resource("g"), client_type=kind)
        run.ask(f"heartbeat of a consumer of type {kind}", "Heartbeat", beat, f"k{kind}")
    for kind in (0, 2, 3):
        run.tell(f"producer of type {kind}", publishing("normal", client_type=kind), f"q{kind}")
    no_type = publishing("normal")
    no_type.settings.ClearField("client_type")
    run.tell("producer without a type", no_type, "q-none")
    no_group = subscribing("g")
    no_group.settings.subscription.ClearField("group")
    run.tell("consumer without a group", no_group, "k-none")
    full = publishing(
        "normal",
        access_point=m.Endpoints(scheme=1, addresses=[m.Address(host="127.0.0.1", port=8081)]),
        backoff_policy=m.RetryPolicy(
            max_attempts=99, customized_backoff=m.CustomizedBackoff(next=[duration(7)])
        ),
        user_agent=m.UA(language=2, version="5.2.0", platform="p", hostname="h"),
        metric=m.Metric(on=True),
    )
    run.tell("producer with everything", full, "full-p")
    full = subscribing(
        "g",
        "normal",
        backoff_policy=m.RetryPolicy(
            max_attempts=99, customized_backoff=m.CustomizedBackoff(next=[duration(7)])
        ),
        user_agent=m.UA(language=2, version="5.2.0", platform="p", hostname="h"),
    )
    full.settings.subscription.fifo = True
    full.settings.subscription.receive_batch_size = 7
    full.settings.subscription.long_polling_timeout.seconds = 7
    run.tell("consumer with everything", full, "full-s")


def beat(run: CallRun) -> None:
    """Heartbeats."""
    run.ask("heartbeat of a producer", "Heartbeat", m.HeartbeatRequest(client_type=1))
    for group in GROUPS:
        request = m.HeartbeatRequest(group=resource(group), client_type=3)
        run.ask(f"heartbeat of {group}", "Heartbeat", request, f"s-{group}")
    nothing = m.HeartbeatRequest(client_type=3)
    run.ask("heartbeat without a group", "Heartbeat", nothing, "s-g")
    other = m.HeartbeatRequest(group=resource("other"), client_type=3)
    run.ask("heartbeat of another group", "Heartbeat", other, "s-g")
    for what, name in NAMES.items():
        request = m.HeartbeatRequest(group=resource(name), client_type=3)
        run.ask(f"heartbeat: group {what}", "Heartbeat", request, "s-many")
    run.ask(
        "heartbeat of an unknown client", "Heartbeat", m.HeartbeatRequest(client_type=1), "nobody"
    )


def beat_on(run: CallRun) -> None:
    """Clients that are silent for two minutes are forgotten."""
    for who, group in {"s-g": "g", "l-g": "g", "s-disabled": "disabled"}.items():
        request = m.HeartbeatRequest(group=resource(group), client_type=3)
        run.ask(f"heartbeat of {who}", "Heartbeat", request, who)
    for who in ("c", "p0"):
        request = m.HeartbeatRequest(client_type=1)
        run.ask(f"heartbeat of {who}", "Heartbeat", request, who)


def headers(run: CallRun) -> None:
    """Metadata that are missing or odd."""
    route = m.QueryRouteRequest(topic=resource("normal"))
    known = {"x-mq-client-id": "c", "x-mq-language": "JAVA", "x-mq-client-version": "5.2.0"}
    for what, metadata in {
        "nothing": {},
        "no id": {"x-mq-language": "JAVA"},
        "a blank id": known | {"x-mq-client-id": " "},
        "a long id": known | {"x-mq-client-id": "i" * 900},
        "no language": {"x-mq-client-id": "c"},
        "an odd language": known | {"x-mq-language": "KLINGON"},
        "HTTP": known | {"x-mq-language": "HTTP"},
        "an odd version": known | {"x-mq-client-version": "x"},
        "a namespace": known | {"x-mq-namespace": "shop"},
        "an odd authorization": known | {"authorization": "x"},
    }.items():
        run.ask(f"route with {what}", "QueryRoute", route, metadata=metadata)
        beat = m.HeartbeatRequest(client_type=1)
        run.ask(f"heartbeat with {what}", "Heartbeat", beat, metadata=metadata)


def leave(run: CallRun) -> None:
    """Clients go."""

    def go(name: str, who: str, group: str | None = None) -> None:
        request = m.NotifyClientTerminationRequest()
        if group is not None:
            request.group.name = group
        run.ask(name, "NotifyClientTermination", request, who)

    go("end of an unknown client", "nobody")
    go("end of a producer", "p1")
    go("end of a producer again", "p1")
    run.ask("heartbeat after the end", "Heartbeat", m.HeartbeatRequest(client_type=1), "p1")
    go("end of a consumer", "s-many", "many")
    go("end of a consumer without a group", "s-twice")
    go("end of a consumer of another group", "s-never", "other")
    for at, (what, name) in enumerate(NAMES.items()):
        if at % 4 == 0:
            run.tell(f"consumer that ends: {what}", subscribing("g", "normal"), f"e{at}")
            go(f"end: group {what}", f"e{at}", name)
