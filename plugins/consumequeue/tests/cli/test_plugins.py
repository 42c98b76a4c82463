from __future__ import annotations

import reput
from reput_tools.cli.kit.exitcodes import ExitCode


def test_the_plugin_is_listed_with_its_hooks_and_options(run) -> None:
    installed = {each["name"]: each for each in run("plugins", "--json").json["installed"]}

    found = installed["consumequeue"]
    assert found["distribution"] == "reput-consumequeue"
    assert found["version"] == reput.__version__
    assert found["error"] is None
    assert found["default"] is True
    assert {"reput_open", "reput_dispatch", "reput_read", "reput_queues"} <= set(found["hooks"])
    options = {option["name"]: option for option in found["options"]}
    assert options["units_per_file"]["default"] == 300_000
    assert all(option["description"] for option in found["options"])


def test_the_plugin_of_a_store_has_its_place_in_the_log(run, queue_store) -> None:
    path = queue_store(*(reput.Message("orders", b"x") for _ in range(100)))
    with reput.open(path, mode="r") as store:
        end = store.log.max_physical_offset

    outcome = run("plugins", path, "--json")

    assert outcome.code == ExitCode.OK
    (state,) = outcome.json["plugins"]
    assert state == {
        "name": "consumequeue",
        "version": reput.__version__,
        "state": "reading",
        "dispatched_to": end,
        "lag_size": 0,
        "lag_count": 0,
        "lag_is_exact": True,
        "policy": "suspend",
        "batch_count": state["batch_count"],
        "message_count": 100,
        "mean_batch_ms": state["mean_batch_ms"],
        "max_batch_ms": state["max_batch_ms"],
        "skipped_count": 0,
        "total_batch_ms": state["total_batch_ms"],
        "failure_count": 0,
        "last_error": None,
        "facts": state["facts"],
    }
    assert outcome.json["plan"][0]["name"] == "consumequeue"
