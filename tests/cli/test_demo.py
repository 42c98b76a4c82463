"""What of the demo can be said where no plugin is installed."""

from __future__ import annotations

from importlib import resources

import pytest

from reput_tools.cli.command.demo import democommand
from reput_tools.cli.command.demo import orders as demoorders
from reput_tools.cli.command.demo.orders import QueueSum
from reput_tools.cli.kit import demostore
from reput_tools.cli.kit.exitcodes import ExitCode


def test_the_recorded_store_is_part_of_the_package_and_says_who_wrote_it() -> None:
    data = resources.files("reput_tools.cli") / "data"

    assert (data / "demo-store.tar.gz").is_file()
    assert "Apache RocketMQ" in (data / "README.md").read_text(encoding="utf-8")


def test_the_recorded_store_unpacks_to_what_java_described(run, tmp_path) -> None:
    size = demostore.unpack(str(tmp_path))

    queues = demostore.java_queues()
    document = run("info", tmp_path, "--scan", "--json").json
    counted = {
        (topic["topic"], queue["queue_id"]): queue["message_count"]
        for topic in document["topics"]
        for queue in topic["queues"]
    }
    assert size > 30 << 20
    assert document["clean"] is True
    assert counted == {queue: len(units) for queue, units in queues.items() if units}
    assert sum(counted.values()) == 60_000


def test_the_orders_are_always_the_same_and_fill_several_queues() -> None:
    first = [
        each for chunks in demoorders.orders(1000, 300, 1000) for part in chunks for each in part
    ]
    second = [each for chunks in demoorders.orders(1000, 7, 99) for part in chunks for each in part]
    sums: dict[tuple[str, int], QueueSum] = {}

    demoorders.add_to_sums(sums, first)

    assert first == second
    assert sum(each.message_count for each in sums.values()) == 1000
    assert len(sums) == 16


def test_a_directory_that_holds_something_is_left_alone(run, tmp_path, monkeypatch) -> None:
    (tmp_path / "thesis.tex").touch()
    monkeypatch.setattr("reput_tools.cli.command.demo.democommand._require_a_reader", lambda: None)

    outcome = run("demo", "--directory", tmp_path)

    assert outcome.code == ExitCode.USAGE
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_without_a_plugin_it_says_what_to_install(run, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("reput.plugin.installed", list)

    outcome = run("demo", "--directory", tmp_path / "demo")

    assert outcome.code == ExitCode.UNAVAILABLE
    assert "pip install ./plugins/consumequeue" in outcome.err
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize("count", ["0", "-1", "many"])
def test_a_count_that_is_none_is_a_usage_error(run, count) -> None:
    assert run("demo", "--count", count).code == ExitCode.USAGE


@pytest.mark.parametrize("has_pages", [True, False])
def test_the_demo_ends_with_the_command_that_shows_its_store_in_a_browser(
    capsys, monkeypatch, has_pages
) -> None:
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: name if has_pages or name != "reput_web" else None
    )

    democommand._print_next("/tmp/a store", "7F00")

    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    place = next(at for at, line in enumerate(lines) if line.endswith("browse '/tmp/a store'"))
    assert ("http://127.0.0.1:8787/" in lines[place - 1]) is has_pages
    assert ("pip install ./extras/web" in lines[place - 1]) is not has_pages
