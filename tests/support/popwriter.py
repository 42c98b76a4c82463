"""One life of a process whose group pops, until somebody kills it.

    python popwriter.py STORE MODE

Not a test module. It pops the messages of the topic ``orders`` with 1,000 and more out at a time,
acknowledges most of them, refuses some, and saves its offsets now and then. What happened goes to
stdout, a line each and at once: ``got``, ``ack`` or ``no`` with ``TOPIC QUEUE OFFSET BODY
ATTEMPT``, and ``saved``. In MODE ``ordered`` the group is read in order; ``last``
in front of either ends by itself when everything is acknowledged.
"""

from __future__ import annotations

import os
import random
import sys

import reput
from reput_consumer import ConsumerPlugin, PopRequest
from reput_consumer.group.membersettings import Start
from reput_consumer.metadata.subscriptiongroups import GroupSettings

PLUGINS = ("consumequeue", "consumer")
QUEUES = 4
_AT_ONCE = 1_200


def say(*words: object) -> None:
    """Print a line that a kill cannot take back, nor tear."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def main(path: str, mode: str) -> None:
    """Live."""
    chance = random.Random()
    is_ordered, is_last = "ordered" in mode, "last" in mode
    with reput.open(path, plugins=PLUGINS) as store:
        plugin = store.plugin(ConsumerPlugin)
        plugin.subscription_groups.put(
            GroupSettings(group="g", consume_message_orderly=is_ordered, retry_max_times=10_000)
        )
        popper = plugin.popper
        out = []
        while True:
            request = PopRequest(
                group="g",
                topic="orders",
                max_count=32,
                invisible_ms=600_000,
                start=Start("earliest"),
            )
            found = popper.pop(request) if is_last or len(out) < _AT_ONCE else []
            for each in found:
                view = each.view
                place = view.topic, view.queue_id, each.queue_offset, view.body.decode()
                say("got", *place, each.attempt_count)
                out.append((each, place))
            if not is_ordered:
                chance.shuffle(out)
            ends_all = is_last or is_ordered
            few = 24 if len(out) > _AT_ONCE - 50 else 0  # most are out when it is killed
            for each, place in out[: len(out) if ends_all else few]:
                if not ends_all and chance.random() < 0.1:
                    say("no", *place, each.attempt_count)
                    popper.renew("g", "orders", each.handle, 0)
                elif popper.ack("g", "orders", each.handle):
                    say("ack", *place, each.attempt_count)
            out = [] if ends_all else out[few:]
            if chance.random() < 0.05:
                plugin.port.save()
                say("saved")
            store.wait_dispatched()
            if is_last and not found and plugin.progress("g").lag == 0:
                return


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
