"""Which hooks a put goes through when plugins and their interests change, in any order."""

from __future__ import annotations

import errno
import itertools

import pytest
from trimmedstores import Deriving, open_with

import reput
from reput.errors import ServiceNotAvailableError
from reput.plugin import PutInterest


class Marking(Deriving):
    """Marks every message that is put."""

    name = "marking"

    @reput.hookimpl
    def reput_put(self, messages):
        return [reput.Message(each.topic, b"marked") for each in messages]


class Gate(Deriving):
    """Refuses all messages while it is shut, and is interested in none while it is not."""

    name = "gate"
    is_shut = False

    @property
    def put_interest(self):
        return None if self.is_shut else PutInterest()

    @reput.hookimpl
    def reput_open(self, context):
        self.context = context

    @reput.hookimpl
    def reput_put(self, messages):
        assert self.is_shut, "called for messages that are of no interest"
        raise ServiceNotAvailableError("store", None, None, "shut")

    def turn(self, is_shut):
        self.is_shut = is_shut
        self.context.renew_interest()


class Asking(Deriving):
    """Asks the others about each message that is put."""

    @reput.hookimpl
    def reput_open(self, context):
        self.context = context

    @reput.hookimpl
    def reput_put(self, messages):
        self.context.store.check_put(messages)


class AskingToo(Asking):
    """Another one."""

    name = "asking-too"


STEPS = {
    "add": lambda store: store.add_plugin(Marking()),
    "remove": lambda store: store.remove_plugin("marking"),
    "shut": lambda store: store.plugin("gate").turn(True),
    "open": lambda store: store.plugin("gate").turn(False),
}


ORDERS = [
    order for order in itertools.permutations(STEPS) if order.index("add") < order.index("remove")
]


@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
def test_neither_a_new_interest_nor_a_plugin_that_is_added_undoes_the_other(tmp_path, order):
    is_marked = is_shut = False
    with open_with(tmp_path, Gate()) as store:
        for step in order:
            STEPS[step](store)
            is_marked = {"add": True, "remove": False}.get(step, is_marked)
            is_shut = {"shut": True, "open": False}.get(step, is_shut)
            if is_shut:
                with pytest.raises(ServiceNotAvailableError):
                    store.put(reput.Message("T", b"plain"))
            else:
                place = store.put(reput.Message("T", b"plain")).physical_offset
                assert store.get(place).body == (b"marked" if is_marked else b"plain")


def test_plugins_that_ask_the_others_are_not_asked_for_each_other(tmp_path):
    with open_with(tmp_path, Asking(), AskingToo(), Gate()) as store:
        assert store.put(reput.Message("T", b"1")).queue_offset == 0
        STEPS["shut"](store)

        with pytest.raises(ServiceNotAvailableError, match="shut"):
            store.put(reput.Message("T", b"2"))


class Parking(Deriving):
    """Does what the property DELAY asks for, once the disk has space for its file."""

    name = "parking"
    put_interest = PutInterest(frozenset({"DELAY"}), frozenset({"prices"}))
    is_full = True

    @reput.hookimpl
    def reput_open(self, context):
        if self.is_full:
            raise OSError(errno.EINVAL, "its file cannot be read")

    @reput.hookimpl
    def reput_put(self, messages):
        assert not self.is_full
        return [reput.Message(each.topic, b"parked") for each in messages]


def test_a_message_that_asks_for_a_plugin_that_cannot_be_opened_is_refused(tmp_path):
    parking = Parking()
    asking = reput.Message("orders", b"later", properties={"DELAY": "3"})
    with open_with(tmp_path, parking) as store:
        plain = [store.put(reput.Message(topic, b"now")) for topic in ("orders", "prices")]
        for put in (store.put, lambda message: store.put_many([plain_of(message), message])):
            with pytest.raises(ServiceNotAvailableError, match="parking could not be opened"):
                put(asking)
        assert len(plain) == sum(map(len, store.scan()))

        parking.is_full = False
        store.resume_plugin("parking")
        parked = store.put(asking)

        assert store.log.read_message(parked.physical_offset).body == b"parked"


def plain_of(message):
    return reput.Message(message.topic, b"now")
