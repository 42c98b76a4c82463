"""The script's parts about names in all calls, routes and shares."""

from __future__ import annotations

from samecalls.run import CallRun, Receive
from samecalls.tables import GROUPS, NAMES, TOPICS, assigned, named, received, resource

from reput_server.grpc.messagetypes import m


def routes(run: CallRun) -> None:
    """Routes and shares of all topics."""
    for topic in TOPICS:
        request = m.QueryRouteRequest(topic=resource(topic))
        run.ask(f"route of {topic}", "QueryRoute", request)
        for group in ("g", "ordered", "unknown"):
            run.ask(f"share of {topic} for {group}", "QueryAssignment", assigned(topic, group))
    for group in GROUPS:
        run.ask(f"share for {group}", "QueryAssignment", assigned("normal", group))
    for what, host in {"an address": "127.0.0.1", "a name": "localhost"}.items():
        endpoints = m.Endpoints(scheme=1, addresses=[m.Address(host=host, port=8081)])
        request = m.QueryRouteRequest(topic=resource("normal"), endpoints=endpoints)
        run.ask(f"route by {what}", "QueryRoute", request)
    for space in ("shop", "a/b", "%"):
        request = m.QueryRouteRequest(topic=resource("normal", space))
        run.ask(f"route in the namespace {space}", "QueryRoute", request)


def names(run: CallRun) -> None:
    """All calls that name something, with all names."""
    for name, call, request in named():
        run.ask(name, call, request)
    run.receive(
        *(
            Receive(f"ReceiveMessage: topic {what}", received("g", name), "s-g")
            for what, name in NAMES.items()
        )
    )
    run.receive(
        *(
            Receive(f"ReceiveMessage: group {what}", received(name, "empty"), "s-g")
            for what, name in NAMES.items()
        )
    )
