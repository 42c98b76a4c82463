"""The plugin keeps what every plugin promises, also when power, process or disk fail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import attrs
import pytest
from hypothesis import strategies as st
from transactionlogs import HALF, sample_transactions, state_of, transaction_logs

from reput import Message, MessageView
from reput_testing import CrashContract, ExpectedState, KillContract, PluginContract, SmallLog
from reput_transaction import TransactionPlugin

pytestmark = pytest.mark.sizes(transaction={"snapshot_size": 4_096})


def as_given(view: MessageView) -> Message:
    """The message as a user gives it: tags by themselves."""
    properties = dict(view.properties)
    tags = properties.pop("TAGS", None)
    return attrs.evolve(view.to_message(), tags=tags, properties=properties)


class SmallPlugin(TransactionPlugin):
    """Takes many snapshots, also in the process that is killed."""

    snapshot_size: ClassVar[int] = 4_096


class Transactions:
    plugin_name = "transaction"
    # What it makes of a log; what it puts by itself has tests of its own.
    config: ClassVar = {"automatic": False}

    def log(self) -> SmallLog:
        return sample_transactions()

    def logs(self) -> st.SearchStrategy[SmallLog]:
        return transaction_logs()

    def state(self, plugin: Any) -> object:
        return state_of(plugin)

    def messages(self) -> list[Message]:
        """Half messages, as users give them; `log` has all kinds."""
        views = sample_transactions().messages()
        return [as_given(view) for view in views if view.topic == HALF][:20]


class TestContract(Transactions, PluginContract):
    # Snapshots save reading: without one the next older is used, and nothing else is missing.
    undetectable = frozenset({"removed"})

    def trimmed_state(self, plugin: Any) -> object:
        # How far op messages are done with is known to those only who saw the half messages.
        return {key: value for key, value in self.state(plugin).items() if key != "op_offset"}


class LenientWitness(ExpectedState):
    """Passes over records whose last sector was never written, as documented: half messages have
    long properties, and those have no checksum."""

    def compare(self, found: Sequence[MessageView], note: tuple[int, int, bool]) -> None:
        super().compare([v for v in found if not v.properties_text.endswith(b"\0")], note)


@pytest.mark.proof
class TestCrashes(Transactions, CrashContract):
    crash_message_count = 60
    max_states = 20

    def witness(self, flush: str) -> ExpectedState:
        return LenientWitness(super().witness(flush).options)

    def crash_messages(self) -> list[Message]:
        return [as_given(view) for view in list(self.log().messages())[: self.crash_message_count]]


@pytest.mark.proof
class TestKilled(Transactions, KillContract):
    plugin_type = SmallPlugin
