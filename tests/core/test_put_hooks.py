"""Which hooks a put goes through when plugins change and puts are refused, in any order."""

from __future__ import annotations

import itertools

import pytest
from retainedstores import Deriving, open_with

import reput
from reput.errors import DiskFullError
from reput_testing.crashes.insides import insides


class Marking(Deriving):
    """Marks every message that is put."""

    name = "marking"

    @reput.hookimpl
    def reput_put(self, messages):
        return [reput.Message(each.topic, b"marked") for each in messages]


def _refuse(messages):
    raise DiskFullError("store", None, None, "full")


STEPS = {
    "add": lambda store: store.add_plugin(Marking()),
    "remove": lambda store: store.remove_plugin("marking"),
    "fill": lambda store: insides(store).retention.puts.guard(_refuse),
    "empty": lambda store: insides(store).retention.puts.guard(None),
}


ORDERS = [
    order for order in itertools.permutations(STEPS) if order.index("add") < order.index("remove")
]


@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
def test_neither_who_fills_the_disk_nor_who_adds_a_plugin_undoes_what_the_other_did(
    tmp_path, order
):
    # Each changes its own part, so that it need not know what the other's is: a thread that
    # installs what it has read a moment before takes back what came in between.
    is_marked = is_full = False
    with open_with(tmp_path) as store:
        for step in order:
            STEPS[step](store)
            is_marked = {"add": True, "remove": False}.get(step, is_marked)
            is_full = {"fill": True, "empty": False}.get(step, is_full)
            if is_full:
                with pytest.raises(DiskFullError):
                    store.put(reput.Message("T", b"plain"))
            else:
                place = store.put(reput.Message("T", b"plain")).physical_offset
                assert store.get(place).body == (b"marked" if is_marked else b"plain")
