"""``python -m reput_server.testing``: a broker for tests in any language.

It prints a line of JSON with its addresses when it is ready, and then answers each line of its
input with one of its output, until the input ends:

    {"nameServer": "127.0.0.1:40001", "broker": "127.0.0.1:40002"}
    {"do": "messages", "topic": "orders"}
    {"messages": [{"body": "b25lIGJvb2s=", "tags": "paid", …}]}
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TextIO

import click

from reput_client.remoting import Address, AddressError, parse_address

if TYPE_CHECKING:
    from reput.record import MessageView
    from reput_server.testing.localbroker import LocalBroker


def _messages(broker: LocalBroker, order: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [_shown(each) for each in broker.messages(order["topic"])]}


def _shown(message: MessageView) -> dict[str, Any]:
    from reput.record import unpack_body

    return {
        "body": base64.b64encode(unpack_body(message.body, message.sys_flag)).decode(),
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "properties": message.properties,
        "tags": message.tags,
        "keys": list(message.keys),
    }


def _put(broker: LocalBroker, order: dict[str, Any]) -> dict[str, Any]:
    from reput.record import Message

    broker.put(
        *(
            Message(
                each["topic"],
                base64.b64decode(each["body"], validate=True),
                each.get("queueId", 0),
                each.get("tags"),
                each.get("keys"),
                each.get("properties"),
            )
            for each in order["messages"]
        )
    )
    return {}


_ORDERS: Final[dict[str, Callable[[LocalBroker, dict[str, Any]], dict[str, Any] | None]]] = {
    "messages": _messages,
    "put": _put,
    "topics": lambda broker, order: {"topics": broker.topics()},
    "topic": lambda broker, order: broker.create_topic(
        order["topic"],
        message_type=str(order.get("messageType", "NORMAL")),
        queues=int(order.get("queues", 4)),
    ),
    "group": lambda broker, order: broker.create_group(
        order["group"],
        ordered=order.get("ordered") is True,
        retries=int(order.get("retries", 16)),
    ),
    "wait": lambda broker, order: broker.wait_for(
        order["group"], seconds=float(order.get("seconds", 30))
    ),
    "forward": lambda broker, order: broker.forward(float(order["seconds"])),
    "clear": lambda broker, order: broker.clear(),
    "busy": lambda broker, order: (
        broker.call_faults.refuse(_times(order), order["call"])
        if "call" in order
        else broker.faults.answer_busy(_times(order))
    ),
    "lose": lambda broker, order: (
        broker.call_faults.lose_answers(_times(order), order["call"])
        if "call" in order
        else broker.faults.lose_answers(_times(order))
    ),
    "cut": lambda broker, order: (
        broker.call_faults.cut_at(_times(order), order["call"])
        if "call" in order
        else broker.faults.cut_at(_times(order))
    ),
    "refuse": lambda broker, order: broker.call_faults.refuse(
        int(order.get("times", 1)),
        str(order.get("call", "SendMessage")),
        int(order.get("code", 42_900)),
    ),
    "drop": lambda broker, order: broker.faults.drop_connections(),
    "cut-streams": lambda broker, order: broker.call_faults.cut_streams(),
}


def _times(order: dict[str, Any]) -> int:
    return int(order.get("times", 1))


def answers(broker: LocalBroker, lines: Iterable[str]) -> Iterable[dict[str, Any]]:
    """Yield the answer to each line: ``error`` for an order that is none, or that fails."""
    for line in lines:
        if not line.strip():
            continue
        try:
            order = json.loads(line)
            known = _ORDERS.get(str(order.get("do"))) if isinstance(order, dict) else None
            if known is None:
                expected = ", ".join(_ORDERS)
                raise ValueError(f'an object with "do" expected, which is one of {expected}')
            yield known(broker, order) or {}
        except KeyError as error:
            yield {"error": f"the order lacks {error}"}
        except Exception as error:  # whatever a line requests, the broker continues
            yield {"error": f"{type(error).__name__}: {error}"}


def _address(context: click.Context, option: click.Parameter, text: str) -> Address:
    try:
        return parse_address(text, least_port=0)
    except AddressError as error:
        raise click.BadParameter(str(error)) from None


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--listen", default="127.0.0.1:0", callback=_address, help="Where the broker is.")
@click.option(
    "--namesrv", default="127.0.0.1:0", callback=_address, help="Where the name server is."
)
@click.option("--grpc", is_flag=True, help="Serve clients of RocketMQ 5, too.")
def main(listen: Address, namesrv: Address, grpc: bool) -> None:
    """Run a broker for tests until the input ends; each line of it is an order in JSON."""
    from reput_server.testing.localbroker import LocalBroker

    try:
        with LocalBroker(listen=listen, name_server=namesrv, grpc=grpc) as broker:
            addresses = {"nameServer": broker.name_server, "broker": broker.address}
            _say({**addresses, **({"endpoints": broker.endpoints} if grpc else {})}, sys.stdout)
            for answer in answers(broker, sys.stdin):
                _say(answer, sys.stdout)
    except OSError as error:
        raise click.ClickException(f"the broker cannot listen: {error}") from None


def _say(answer: dict[str, Any], out: TextIO) -> None:
    out.write(json.dumps(answer, ensure_ascii=False) + "\n")
    out.flush()


if __name__ == "__main__":
    main(prog_name="python -m reput_server.testing")
