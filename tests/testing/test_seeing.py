"""The kit sees whether a plugin acts on its messages, and what it takes from elsewhere then."""

from __future__ import annotations

import datetime as dt
import json
import os
import time
from datetime import UTC
from datetime import datetime as moment
from time import time_ns
from typing import Any

import attrs
import pytest
from ledgerplugin import HurriedContract, LedgerContract, LedgerPlugin, failures_of

import reput
from reput_testing import CrashContract, KillContract, sample_log

ORDERS = [reput.Message("orders", b'{"price": %d}' % number, tags="paid") for number in range(5)]


@attrs.define(eq=False)
class PricesPlugin(LedgerPlugin):
    """A good plugin, which passes over every message that is not a JSON object with a price."""

    def note(self, batch: reput.DispatchBatch) -> None:
        for row, body in enumerate(batch.body.as_bytes()):
            try:
                price = json.loads(body or b"")["price"]
            except (ValueError, TypeError, KeyError):
                continue
            self.entries.append([int(batch.physical_offset[row]), self.entry_of(batch, price)])

    def entry_of(self, batch: reput.DispatchBatch, price: Any) -> Any:
        return price


@attrs.define(eq=False)
class TakesTheTime(PricesPlugin):
    def entry_of(self, batch: reput.DispatchBatch, price: Any) -> Any:
        return [price, int(time.time()) // 60]


@attrs.define(eq=False)
class TakesTheTimeByItsName(PricesPlugin):
    def entry_of(self, batch: reput.DispatchBatch, price: Any) -> Any:
        return [price, time_ns() // 86_400_000_000_000]


@attrs.define(eq=False)
class ImportsTheTimeLate(PricesPlugin):
    def entry_of(self, batch: reput.DispatchBatch, price: Any) -> Any:
        from time import time as now

        return [price, int(now()) // 3_600]


@attrs.define(eq=False)
class TakesTheDate(PricesPlugin):
    def entry_of(self, batch: reput.DispatchBatch, price: Any) -> Any:
        return [price, moment.now(UTC).year]


@attrs.define(eq=False)
class TakesTheDateOfTheModule(PricesPlugin):
    def entry_of(self, batch: reput.DispatchBatch, price: Any) -> Any:
        assert isinstance(moment(2026, 1, 1, tzinfo=UTC), dt.datetime)
        return [price, str(dt.date.today())]  # noqa: DTZ011 (that is its mistake)


@attrs.define(eq=False)
class CountsTheBatch(PricesPlugin):
    def entry_of(self, batch: reput.DispatchBatch, price: Any) -> Any:
        return [price, len(batch)]


class Unfed(HurriedContract):
    pass


class Fed(HurriedContract):
    def messages(self) -> list[reput.Message]:
        return ORDERS


def contract_of(plugin_type: type[Any], base: type[HurriedContract]) -> Any:
    return type("Contract", (base,), {"plugin_type": plugin_type})()


@pytest.mark.costly
def test_a_plugin_that_passes_over_every_message_fails_and_is_told_what_to_fill_in(tmp_path):
    failures = failures_of(PricesPlugin, tmp_path, Unfed)

    assert failures.keys() == {"test_messages_change_its_state"}
    text = str(failures["test_messages_change_its_state"]).partition("\n")[0]
    assert "the messages of log() changed nothing in state()" in text
    assert "fill in messages() of the contract" in text


@pytest.mark.costly
def test_with_messages_that_it_acts_on_it_keeps_all_rules(tmp_path):
    assert failures_of(PricesPlugin, tmp_path, Fed) == {}


def test_messages_of_the_plugin_itself_are_those_of_its_contracts(tmp_path):
    class KnowsItsMessages(PricesPlugin):
        @staticmethod
        def contract_messages() -> list[reput.Message]:
            return ORDERS

    contract = type("Contract", (Unfed,), {"plugin_type": KnowsItsMessages})()

    contract.test_messages_change_its_state(tmp_path)

    assert contract.messages() == tuple(ORDERS)


@pytest.mark.parametrize(
    "bad",
    [
        TakesTheTime,
        TakesTheTimeByItsName,
        ImportsTheTimeLate,
        TakesTheDate,
        TakesTheDateOfTheModule,
    ],
)
def test_a_time_of_day_in_a_row_is_found(tmp_path, bad):
    with pytest.raises(AssertionError, match="it was built at another time: another state"):
        contract_of(bad, Fed).test_when_it_is_built_changes_nothing(tmp_path)


@pytest.mark.parametrize("bad", [TakesTheTime, CountsTheBatch])
def test_without_messages_that_it_acts_on_only_that_is_found(tmp_path, bad):
    contract = contract_of(bad, Unfed)

    contract.test_when_it_is_built_changes_nothing(tmp_path / "time")
    contract.test_where_batches_end_changes_nothing(tmp_path / "batches")
    with pytest.raises(AssertionError, match="fill in messages"):
        contract.test_messages_change_its_state(tmp_path / "seen")


def test_the_size_of_a_batch_in_a_row_is_found(tmp_path):
    with pytest.raises(AssertionError, match="batches ended elsewhere: another state"):
        contract_of(CountsTheBatch, Fed).test_where_batches_end_changes_nothing(tmp_path)


def test_the_clock_is_right_again_after_the_rule(tmp_path):
    before = time.time

    contract_of(PricesPlugin, Fed).test_when_it_is_built_changes_nothing(tmp_path)

    assert time.time is before
    assert abs(time.time_ns() / 1e9 - moment.now(UTC).timestamp()) < 60


def test_the_messages_of_a_plugin_are_among_the_first_of_every_log():
    log = sample_log(messages=ORDERS)

    views = list(log.messages())

    assert [view.body for view in views[1:10:2]] == [message.body for message in ORDERS]
    assert len(views) > 30


# --------------------------------------------------------------------------- crashes and kills


class Crashes(CrashContract):
    plugin_type = PricesPlugin
    state, files_of = LedgerContract.state, LedgerContract.files_of


class FedCrashes(Crashes):
    messages = Fed.messages


class Kills(KillContract):
    plugin_type = PricesPlugin
    state, files_of = LedgerContract.state, LedgerContract.files_of


class FedKills(Kills):
    messages = Fed.messages


def test_a_crash_contract_whose_messages_change_nothing_fails(tmp_path):
    with pytest.raises(AssertionError, match=r"crash_messages\(\) changed .* fill in messages\(\)"):
        Crashes().test_crash_messages_change_its_state(tmp_path)


def test_a_crash_contract_with_messages_has_what_it_compares(tmp_path):
    FedCrashes().test_crash_messages_change_its_state(tmp_path)


@pytest.mark.costly
def test_a_kill_contract_whose_messages_change_nothing_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("REPUT_KILLS", "15")
    monkeypatch.setenv("REPUT_KILL_SEED", "7")
    (tmp_path / "loop").mkdir()
    (tmp_path / "points").mkdir()

    with pytest.raises(AssertionError, match=r"killed writers changed .* fill in messages\(\)"):
        Kills().test_after_every_kill_it_agrees_with_the_log(tmp_path / "loop")
    with pytest.raises(AssertionError, match=r"log\(\) changed .* fill in messages\(\)"):
        Kills().test_a_kill_between_any_two_file_operations_costs_nothing(
            tmp_path / "points", lambda name, value: None
        )


@pytest.mark.costly
def test_a_kill_contract_with_messages_has_what_it_compares(tmp_path, monkeypatch):
    monkeypatch.setenv("REPUT_KILLS", "15")
    monkeypatch.setenv("REPUT_KILL_SEED", "7")
    (tmp_path / "loop").mkdir()
    (tmp_path / "points").mkdir()

    FedKills().test_after_every_kill_it_agrees_with_the_log(tmp_path / "loop")
    FedKills().test_a_kill_between_any_two_file_operations_costs_nothing(
        tmp_path / "points", lambda name, value: None
    )


def test_a_plugin_without_a_dispatch_has_nothing_that_messages_could_change(tmp_path):
    class Enriches(reput.Plugin):
        @reput.hookimpl
        def reput_enrich(self, batch: reput.DispatchBatch) -> dict[str, Any]:
            return {}

    contract = type("Contract", (HurriedContract,), {"plugin_type": Enriches})()
    contract.state = lambda plugin: None
    contract.files_of = lambda root: [os.path.join(root, "enriches")]

    with pytest.raises(pytest.skip.Exception, match="no hook reput_dispatch"):
        contract.test_messages_change_its_state(tmp_path)
