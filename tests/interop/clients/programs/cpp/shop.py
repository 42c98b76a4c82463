"""A producer and a push consumer of the wheel ``rocketmq``, which stands on the library in C++.

Arguments: the name server, and how many messages are sent. Prints how many were stored and taken.
"""

from __future__ import annotations

import os
import sys
import threading

from rocketmq.client import Message, Producer, PushConsumer, RecvMessage, SendStatus


def main(names: str, count: int) -> None:
    producer = Producer("shop")
    producer.set_namesrv_addr(names)
    producer.start()
    stored = 0
    for number in range(count):
        message = Message("orders")
        message.set_tags("a")
        message.set_keys(f"k{number}")
        message.set_body(f"body-{number}")
        stored += producer.send_sync(message).status == SendStatus.OK
    sys.stdout.write(f"sent {stored}\n")
    sys.stdout.flush()

    taken: set[bytes] = set()
    is_all = threading.Event()

    def take(message: RecvMessage) -> None:
        taken.add(message.body)
        if len(taken) == count:
            is_all.set()

    consumer = PushConsumer("billing")
    consumer.set_namesrv_addr(names)
    consumer.subscribe("orders", take, "a")
    consumer.start()
    is_all.wait(90)
    sys.stdout.write(f"taken {len(taken)}\n")
    sys.stdout.flush()
    # The library's threads end with the process; to shut it down takes it half a minute.
    os._exit(0)


main(sys.argv[1], int(sys.argv[2]))
