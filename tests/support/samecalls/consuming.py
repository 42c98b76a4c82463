"""The script's part about receiving, and what is done with messages that were received."""

from __future__ import annotations

from typing import Any

from samecalls.run import CallRun, Receive
from samecalls.tables import (
    acked,
    changed,
    duration,
    forwarded,
    message,
    milliseconds,
    received,
    sent,
)

from reput_server.grpc.messagetypes import m


def show(run: CallRun) -> None:
    """Messages of each kind as a consumer sees them."""
    given = {
        "plain": message("shown", message_id="plain"),
        "full": message(
            "shown",
            message_id="full",
            tag="paid",
            keys=["k1", "k2"],
            trace_context="trace",
            user={"color": "red", "empty": ""},
            born_timestamp=m.Timestamp(seconds=1_700_000_000),
        ),
        "in order": message("shown", message_type=2, message_group="g", message_id="in order"),
        "large": message("shown", b"x" * 100_000, message_id="large"),
        "other bytes": message("shown", bytes(range(256)), message_id="bytes"),
    }
    for what, each in given.items():
        run.ask(f"send to show {what}", "SendMessage", sent(each))
        run.receive(Receive(f"show {what}", received("g", "shown"), "s-g"))
    renewed = received("g", "shown", auto_renew=True, invisible_duration=None)
    run.ask("send to show renewed", "SendMessage", sent(message("shown", message_id="renewed")))
    run.receive(Receive("show renewed", renewed, "l-g"))


def select(run: CallRun) -> None:
    """Filters."""
    for at, tag in enumerate(("a", "b", "c", "", "a")):
        user = {"n": str(at)}
        each = message("tags", str(at).encode(), tag=tag, message_id=f"tag-{at}", user=user)
        run.ask(f"send tag {at}", "SendMessage", sent(each))
    cases = {
        "*": (1, "*"),
        "a": (1, "a"),
        "a or b": (1, "a || b"),
        "a or b without blanks": (1, "a||b"),
        "nothing": (1, ""),
        "blank": (1, " "),
        "bars": (1, "||"),
        "unknown tag": (1, "z"),
        "no type": (0, "a"),
        "odd type": (7, "a"),
        "SQL": (2, "n > 2"),
        "SQL of tags": (2, "TAGS = 'a'"),
        "SQL of nothing": (2, ""),
        "bad SQL": (2, "n >"),
        "SQL of a number": (2, "1"),
        "SQL of true": (2, "TRUE"),
        "SQL of an unknown name": (2, "unknown IS NULL"),
        "long": (1, " || ".join(f"t{at}" for at in range(500))),
    }
    run.receive(
        *(
            Receive(
                f"select {what}",
                received(
                    f"select-{at}",
                    "tags",
                    filter_expression=m.FilterExpression(type=kind, expression=text),
                ),
                "s-g",
            )
            for at, (what, (kind, text)) in enumerate(cases.items())
        )
    )


def ask_oddly(run: CallRun) -> None:
    """Requests to receive with odd fields."""
    cases = {
        "batch 0": {"batch_size": 0},
        "batch -1": {"batch_size": -1},
        "batch 33": {"batch_size": 33},
        "invisible for nothing": {"invisible_duration": None},
        "invisible for 0 s": {"invisible_duration": duration(0)},
        "invisible for -1 s": {"invisible_duration": m.Duration(seconds=-1)},
        "invisible for 9.999 s": {"invisible_duration": duration(9.999)},
        "invisible for 10 s": {"invisible_duration": duration(10)},
        "invisible for 12 h": {"invisible_duration": duration(43_200)},
        "invisible for longer": {"invisible_duration": duration(43_201)},
        "polling for 0 s": {"long_polling_timeout": duration(0)},
        "polling for -1 s": {"long_polling_timeout": m.Duration(seconds=-1)},
        "polling for nothing": {"long_polling_timeout": None},
        "polling for a day": {"long_polling_timeout": duration(86_400)},
        "renewed": {"auto_renew": True, "invisible_duration": None},
        "attempt": {"attempt_id": "attempt"},
    }
    long = received("g", "empty", long_polling_timeout=duration(20))
    run.receive(
        *(
            Receive(f"receive with {what}", received("g", "empty", **fields), "s-g")
            for what, fields in cases.items()
        ),
        Receive("receive in 3 s", received("g", "empty"), "s-g", 3),
        Receive("receive in 6 s", long, "s-g", 6),
        Receive("receive by an unknown client", received("g", "empty"), "nobody"),
        Receive("receive by a producer", received("g", "empty"), "p0"),
        Receive("receive of another group", received("other", "empty"), "s-g"),
        Receive("receive of a group that is disabled", received("disabled", "empty"), "s-disabled"),
        *(
            Receive(f"receive of {topic}", received("g", topic), "s-g")
            for topic in ("readonly", "writeonly", "closed")
        ),
    )
    other = received("g", "empty")
    other.message_queue.broker.name = "nobody"
    another = received("g", "empty")
    another.message_queue.id = 77
    run.receive(
        Receive("receive of another broker", other, "s-g"),
        Receive("receive of another queue", another, "s-g"),
    )


def settle(run: CallRun) -> None:
    """Acknowledgements, deadlines and dead letters by handles, right and wrong."""
    for at in range(12):
        each = message("acks", str(at).encode(), message_id=f"ack-{at}")
        run.ask(f"send to acknowledge {at}", "SendMessage", sent(each))
    found: list[Any] = []
    while len(found) < 12:
        name = f"receive to acknowledge {len(found)}"
        [some] = run.receive(Receive(name, received("g", "acks", batch_size=12), "s-g"))
        found += some
    handles = [each.system_properties.receipt_handle for each in found]
    asks = {
        "one": acked("g", "acks", ("ack-0", handles[0])),
        "one again": acked("g", "acks", ("ack-0", handles[0])),
        "two": acked("g", "acks", ("ack-1", handles[1]), ("ack-2", handles[2])),
        "one twice": acked("g", "acks", ("ack-3", handles[3]), ("ack-3", handles[3])),
        "one and nonsense": acked("g", "acks", ("ack-4", handles[4]), ("ack-9", "nonsense")),
        "nonsense": acked("g", "acks", ("ack-9", "nonsense")),
        "an empty handle": acked("g", "acks", ("ack-9", "")),
        "a handle cut off": acked("g", "acks", ("ack-9", handles[5][:-4])),
        "nothing": acked("g", "acks"),
        "without an id": acked("g", "acks", ("", handles[5])),
        "by another id": acked("g", "acks", ("other", handles[6])),
        "of another topic": acked("g", "normal", ("ack-7", handles[7])),
        "of an unknown topic": acked("g", "nowhere", ("ack-7", handles[7])),
        "of another group": acked("ordered", "acks", ("ack-7", handles[7])),
    }
    for what, request in asks.items():
        run.ask(f"acknowledge {what}", "AckMessage", request, "s-g")
    changes = {
        "30 s": changed("g", "acks", handles[8]),
        "the old handle": changed("g", "acks", handles[8]),
        "an acknowledged one": changed("g", "acks", handles[0]),
        "nonsense": changed("g", "acks", "nonsense"),
        "an empty handle": changed("g", "acks", ""),
        "of another topic": changed("g", "normal", handles[9]),
        "of another group": changed("ordered", "acks", handles[9]),
        "0 s": changed("g", "acks", handles[9], 0),
        "12 h": changed("g", "acks", handles[10], 43_200),
        "longer": changed("g", "acks", handles[11], 43_201),
        "5 s": changed("g", "acks", handles[11], 5),
        "-1 s": changed("g", "acks", handles[11], -1),
    }
    for what, change in changes.items():
        run.ask(f"change {what}", "ChangeInvisibleDuration", change, "s-g")
    renewed = run.exchanges["change 30 s"].answers[0].receipt_handle
    run.ask(
        "acknowledge by the old handle", "AckMessage", acked("g", "acks", ("i", handles[8])), "s-g"
    )
    run.ask(
        "acknowledge by the new handle", "AckMessage", acked("g", "acks", ("i", renewed)), "s-g"
    )


def give_up(run: CallRun) -> None:
    """Dead letters."""
    for at in range(3):
        each = message("dead", str(at).encode(), message_id=f"dead-{at}")
        run.ask(f"send what dies {at}", "SendMessage", sent(each))
    found: list[Any] = []
    while len(found) < 3:
        name = f"receive what dies {len(found)}"
        [some] = run.receive(Receive(name, received("g", "dead"), "s-g"))
        found += some
    handles = [each.system_properties.receipt_handle for each in found]
    for what, request in {
        "one": forwarded("g", "dead", handles[0]),
        "one again": forwarded("g", "dead", handles[0]),
        "nonsense": forwarded("g", "dead", "nonsense"),
        "an empty handle": forwarded("g", "dead", ""),
        "of another topic": forwarded("g", "normal", handles[1]),
        "of an unknown group": forwarded("other", "dead", handles[2]),
    }.items():
        run.ask(f"dead letter: {what}", "ForwardMessageToDeadLetterQueue", request, "s-g")


def order(run: CallRun) -> None:
    """A group that reads in order."""
    for at in range(4):
        each = message(
            "one", str(at).encode(), message_type=2, message_group="o", message_id=f"order-{at}"
        )
        run.ask(f"send in order {at}", "SendMessage", sent(each))

    def ask(name: str, attempt: str | None, size: int = 2) -> list[Any]:
        request = received("ordered", "one", batch_size=size, attempt_id=attempt)
        [found] = run.receive(Receive(f"in order: {name}", request, "s-ordered"))
        return found

    ask("first", "a1")
    again = ask("the same attempt", "a1")
    ask("another attempt", "a2")
    for at, each in enumerate(again):
        entry = each.system_properties.message_id, each.system_properties.receipt_handle
        run.ask(f"in order: ack {at}", "AckMessage", acked("ordered", "one", entry), "s-ordered")
        if at == 0:
            ask("half acknowledged", "a3")
    ask("after all", "a4")


def begin_again(run: CallRun) -> None:
    """Messages that nobody acknowledges; `come_again` looks for them, after their deadline."""
    for at in range(2):
        each = message("again", str(at).encode(), message_id=f"again-{at}", tag="t", keys=["k"])
        run.ask(f"send what comes again {at}", "SendMessage", sent(each))
    for group in ("g", "never"):
        seen = 0
        while seen < 2:
            request = received(group, "again", invisible_duration=duration(10))
            name = f"receive what comes again in {group} {seen}"
            [found] = run.receive(Receive(name, request, f"s-{group}"))
            seen += len(found)


def come_again(run: CallRun) -> None:
    """What `begin_again` left."""
    run.pause(12)
    for at in range(2):
        request = received("g", "again", batch_size=1, long_polling_timeout=duration(20))
        run.receive(Receive(f"what comes again {at}", request, "s-g", 60))
    run.receive(Receive("what is dead", received("never", "again"), "s-never"))


def send_later(run: CallRun) -> None:
    """A delayed message, which `receive_later` looks for."""
    later = milliseconds(run.now_ms + 1_000)
    each = message("due", message_type=3, delivery_timestamp=later, message_id="due", tag="t")
    run.ask("send what is due", "SendMessage", sent(each))


def receive_later(run: CallRun) -> None:
    """What has become of delayed messages and of transactions."""
    run.pause(3)
    run.receive(Receive("what is due", received("g", "due"), "s-g"))
    run.receive(Receive("what is committed", received("g", "halves"), "s-g"))
