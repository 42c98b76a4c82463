"""Metrics say what a store does; every name is listed, and the board asks for names that exist."""

from __future__ import annotations

import json
import re
import sys
import urllib.request
from pathlib import Path

import prometheus_client
import pytest
from commands import commands
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from statefiles import change_manifest

import reput
import reput_tools.metrics
from reput_tools.metrics.metriclist import METRICS
from reput_tools.metrics.prometheus import StoreCollector, registry_of
from reput_tools.metrics.sampler import Sample, Sampler, of_path, of_store

pytestmark = pytest.mark.sizes(dispatch={"retry_pause_ms": 1})

ROOT = Path(__file__).parents[2]
SMALL = {"commitlog": {"file_size": 1 << 16}}
PLUGINS = ["consumequeue", "integrity"]


@pytest.fixture
def root(tmp_path):
    path = tmp_path / "store"
    with reput.open(path, plugins=PLUGINS, config=SMALL) as store:
        for number in range(30):
            store.put(reput.Message("orders" if number % 3 else "bills", b"%d" % number))
    return path


def values(text):
    """Values of a text for Prometheus by name and labels."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def run(*arguments):
    with commands() as call:
        return call(*arguments)


# ---------------------------------------------------------------------------- numbers


def test_an_open_store_says_what_it_holds_and_does(tmp_path):
    config = {"commitlog": SMALL["commitlog"] | {"flush": "sync"}}
    with reput.open(tmp_path / "s", plugins=PLUGINS, config=config) as store:
        receipts = [store.put(reput.Message("orders", b"x" * 50)) for _ in range(10)]
        store.wait_dispatched()
        store.flush()
        store.read("orders", 0, 0)
        found = values(reput_tools.metrics.text(store))
        end = store.log.max_physical_offset

    assert end > receipts[-1].physical_offset
    assert found[("reput_up",)] == 1
    assert found[("reput_writer_up",)] == 1
    assert found[("reput_log_appended_bytes_total",)] == end
    assert found[("reput_log_size_bytes",)] == end
    assert found[("reput_log_unflushed_bytes",)] == 0
    assert found[("reput_topic_messages_total", ("topic", "orders"))] == 10
    assert found[("reput_topic_stored_messages", ("topic", "orders"))] == 10
    assert found[("reput_reads_total",)] == 1
    assert found[("reput_read_messages_total",)] == 10
    assert found[("reput_flush_wait_seconds_count",)] >= 10
    assert found[("reput_flush_wait_seconds_sum",)] > 0
    for plugin in PLUGINS:
        assert found[("reput_plugin_messages_total", ("plugin", plugin))] == 10
        assert found[("reput_plugin_dispatched_bytes_total", ("plugin", plugin))] == end
        assert found[("reput_plugin_lag_bytes", ("plugin", plugin))] == 0
        assert found[("reput_plugin_batch_seconds_total", ("plugin", plugin))] > 0
        assert found[("reput_plugin_up", ("plugin", plugin))] == 1
    assert found[("reput_disk_used_bytes", ("part", "commitlog"))] > 0
    assert 0 < found[("reput_disk_filled_ratio",)] < 1
    facts = {dict(key[1:])["fact"] for key in found if key[0] == "reput_plugin_fact"}
    assert "summed_to" in facts


def test_waits_add_up_from_bound_to_bound(tmp_path):
    config = {"commitlog": SMALL["commitlog"] | {"flush": "sync"}}
    with reput.open(tmp_path / "s", plugins=[], config=config) as store:
        for _ in range(20):
            store.put(reput.Message("orders", b"x"))
        found = values(reput_tools.metrics.text(store))

    buckets = [
        (float(dict(key[1:])["le"]), value)
        for key, value in found.items()
        if key[0] == "reput_flush_wait_seconds_bucket"
    ]
    counts = [count for _, count in sorted(buckets)]
    assert counts == sorted(counts)
    assert counts[-1] == found[("reput_flush_wait_seconds_count",)] == 20
    assert sorted(buckets)[-1][0] == float("inf")


def test_a_plugin_that_stands_is_shown(tmp_path):
    class Failing(reput.Plugin):
        name = "failing"

        @reput.hookimpl
        def reput_dispatch(self, batch):
            raise RuntimeError("not today")

    config = SMALL | {"dispatch": {"retry_count": 1}}
    with reput.open(tmp_path / "s", plugins=[Failing()], config=config) as store:
        store.put(reput.Message("orders", b"x"))
        store.wait_dispatched(10)
        found = values(reput_tools.metrics.text(store))

    labels = ("plugin", "failing")
    assert found[("reput_plugin_up", labels)] == 0
    assert found[("reput_plugin_state", labels, ("state", "suspended"))] == 1
    assert found[("reput_plugin_failures_total", labels)] == 2
    assert found[("reput_plugin_lag_messages", labels)] == 1
    assert ("reput_queues",) not in found  # no plugin knows of queues


def test_many_topics_are_one_beyond_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("reput_tools.metrics.sampler.TOPICS_MAX", 2)
    with reput.open(tmp_path / "s", plugins=["consumequeue"], config=SMALL) as store:
        for number in range(4):
            for _ in range(number + 1):
                store.put(reput.Message(f"topic{number}", b"x"))
        store.wait_dispatched()
        found = values(reput_tools.metrics.text(store))

    counted = {
        dict(key[1:])["topic"]: value
        for key, value in found.items()
        if key[0] == "reput_topic_messages_total"
    }
    assert counted == {"topic3": 4, "topic2": 3, "(others)": 3}
    assert found[("reput_topics",)] == 4


# ---------------------------------------------------------------------------- several, closed


def test_several_stores_are_told_apart(root, tmp_path):
    registry = CollectorRegistry()
    with (
        reput.open(root, plugins=PLUGINS) as one,
        reput.open(tmp_path / "other", plugins=[], config=SMALL) as other,
    ):
        reput_tools.metrics.collector(one, other, registry=registry)
        found = values(generate_latest(registry).decode())

    assert found[("reput_topics", ("store", str(root)))] == 2
    assert found[("reput_log_size_bytes", ("store", str(tmp_path / "other")))] == 0


def test_stores_with_the_same_labels_are_refused():
    collector = StoreCollector()
    sampler = Sampler(list)
    collector.add(sampler, {"store": "a"})

    with pytest.raises(ValueError, match="tell the stores apart"):
        collector.add(sampler, {"store": "a"})
    with pytest.raises(ValueError, match="names like those"):
        collector.add(sampler, {"shop": "b"})


def test_registering_reads_no_store():
    def refuse():
        raise AssertionError

    registry_of(Sampler(refuse))


def test_a_closed_store_is_down(root):
    registry = CollectorRegistry()
    with reput.open(root, plugins=PLUGINS) as store:
        reput_tools.metrics.collector(store, registry=registry)

    found = values(generate_latest(registry).decode())

    assert found[("reput_up",)] == 0
    assert not any(key[0] == "reput_log_size_bytes" for key in found)


def test_a_store_is_read_at_most_once_in_a_while():
    now, calls = [10.0], []

    def read():
        calls.append(now[0])
        return [Sample("reput_up", 1)]

    sampler = Sampler(read, 5.0, lambda: now[0])
    for moment in (10.0, 14.9, 15.0, 19.9):
        now[0] = moment
        sampler.samples()

    assert calls == [10.0, 15.0]


def test_a_store_that_is_gone_is_down_and_comes_back(root, tmp_path):
    now = [0.0]
    sampler = Sampler(lambda: of_path(root), 1.0, lambda: now[0])
    root.rename(tmp_path / "away")

    gone = sampler.by_name()["reput_up"][0].value
    (tmp_path / "away").rename(root)
    now[0] = 2.0
    back = sampler.by_name()["reput_up"][0].value

    assert (gone, back) == (0, 1)


# ---------------------------------------------------------------------------- names


def test_every_listed_metric_has_a_value_somewhere(root, tmp_path):
    config = {"commitlog": SMALL["commitlog"] | {"flush": "sync"}}
    with reput.open(tmp_path / "s", plugins=PLUGINS, config=config) as store:
        store.put(reput.Message("orders", b"x"))
        store.wait_dispatched()
        found = {sample.name for sample in of_store(store)}

    assert found == set(METRICS)


def test_names_follow_the_rules_of_prometheus():
    for metric in METRICS.values():
        assert re.fullmatch(r"reput_[a-z_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert metric.text.endswith(".")


def board():
    return json.loads((ROOT / "extras/tools/grafana/store/board.json").read_text(encoding="utf-8"))


def test_each_query_of_the_board_names_metrics_and_labels_that_exist():
    queries = [target["expr"] for panel in board()["panels"] for target in panel["targets"]]
    queries += [each["query"] for each in board()["templating"]["list"] if each["type"] == "query"]
    series = {
        name: metric
        for metric in METRICS.values()
        for name in (
            [metric.name]
            if metric.kind != "histogram"
            else [f"{metric.name}_{part}" for part in ("bucket", "sum", "count")]
        )
    }

    used = set()
    for query in queries:
        names = re.findall(r"\breput_\w+", query)
        assert names, query
        assert set(names) <= set(series), query
        used |= set(names)
        labels = set(re.findall(r"(\w+)=~?\"", query))
        labels |= {
            name for group in re.findall(r"by \((.*?)\)", query) for name in group.split(", ")
        }
        known = {"instance", "le", *(label for name in names for label in series[name].labels)}
        assert labels <= known, query
        if "rate(" in query or "increase(" in query:
            assert all(series[name].kind != "gauge" for name in names), query
    assert len(used) > 20


def test_the_panels_of_the_board_do_not_overlap():
    taken = set()
    for panel in board()["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    ids = [panel["id"] for panel in board()["panels"]]
    assert len(set(ids)) == len(ids)


def test_legends_of_the_board_name_labels_of_their_metrics():
    for panel in board()["panels"]:
        for target in panel["targets"]:
            labels = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            names = re.findall(r"\breput_\w+", target["expr"])
            known = {"instance"} | {
                label for name in names if name in METRICS for label in METRICS[name].labels
            }
            assert labels <= known, target


# ---------------------------------------------------------------------------- opentelemetry


def test_opentelemetry_gets_the_same_numbers(root):
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    with reput.open(root, plugins=PLUGINS) as store:
        reput_tools.metrics.instrument(store, provider.get_meter("test"), {"store": "orders"})
        (resource,) = reader.get_metrics_data().resource_metrics
        end = store.log.max_physical_offset
    found = {
        metric.name: [(dict(point.attributes), point.value) for point in metric.data.data_points]
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    provider.shutdown()

    assert found["reput_log_appended_bytes"] == [({"store": "orders"}, end)]
    assert ({"store": "orders", "topic": "bills"}, 10) in found["reput_topic_messages"]
    assert "reput_flush_wait_seconds_count" in found
    assert "reput_flush_wait_seconds_sum" in found


def test_every_metric_has_an_instrument(root):
    pytest.importorskip("opentelemetry")
    from opentelemetry.metrics import NoOpMeter

    made = []

    class Meter(NoOpMeter):
        def create_observable_counter(self, name, callbacks=None, unit="", description=""):
            made.append((name, "counter", unit))

        def create_observable_gauge(self, name, callbacks=None, unit="", description=""):
            made.append((name, "gauge", unit))

    with reput.open(root, plugins=PLUGINS) as store:
        reput_tools.metrics.instrument(store, Meter("test"))

    expected = {
        (each.name.removesuffix("_total"), each.kind)
        for each in METRICS.values()
        if each.kind != "histogram"
    }
    waits = {(f"reput_flush_wait_seconds_{part}", "counter") for part in ("count", "sum")}
    assert {(name, kind) for name, kind, _ in made} == expected | waits
    assert ("reput_log_size_bytes", "gauge", "By") in made
    assert ("reput_flush_wait_seconds_sum", "counter", "s") in made
    assert ("reput_flush_wait_seconds_count", "counter", "1") in made


# ---------------------------------------------------------------------------- the command


def test_the_command_prints_what_prometheus_reads(root):
    outcome = run("metrics", root)

    found = values(outcome.out)
    assert outcome.code == 0
    assert found[("reput_topic_messages_total", ("topic", "orders"))] == 20
    assert found[("reput_writer_up",)] == 0
    assert ("reput_flush_wait_seconds_count",) not in found  # only the writer knows


def test_the_command_prints_json(root):
    outcome = run("metrics", root, "--json")

    found = {each["name"]: each for each in outcome.json["metrics"]}
    assert found["reput_topics"] == {
        "name": "reput_topics",
        "kind": "gauge",
        "labels": {},
        "value": 2,
    }


def test_the_command_works_beside_a_writer(root):
    with reput.open(root, plugins=PLUGINS) as store:
        store.put(reput.Message("orders", b"x"))
        store.wait_dispatched()
        store.flush()
        found = values(run("metrics", root).out)

    assert found[("reput_topic_messages_total", ("topic", "orders"))] == 21
    assert found[("reput_writer_up",)] == 1


def test_a_missing_plugin_hides_nothing_else(root):
    change_manifest(root, lambda text: text.replace(b'"integrity"', b'"elsewhere"'))

    outcome = run("metrics", root)

    assert outcome.code == 0
    assert "elsewhere" in outcome.err
    assert values(outcome.out)[("reput_log_size_bytes",)] > 0


def test_the_command_serves_until_it_is_ended(root, monkeypatch):
    """The server runs, a request is made while the command waits, and Ctrl-C ends it."""
    answers = []
    real = prometheus_client.start_http_server

    def start(*arguments):
        server, thread = real(*arguments)

        def ask_and_end():
            url = f"http://127.0.0.1:{server.server_port}/metrics"
            with urllib.request.urlopen(url, timeout=10) as answer:
                answers.append(answer.read().decode())
            raise KeyboardInterrupt

        monkeypatch.setattr(thread, "join", ask_and_end)
        return server, thread

    monkeypatch.setattr(prometheus_client, "start_http_server", start)
    outcome = run("metrics", root, "--listen", "127.0.0.1:0")

    assert outcome.code == 130
    assert "Serving http://127.0.0.1:" in outcome.err
    assert values(answers[0])[("reput_topics",)] == 2


def test_without_the_client_of_prometheus_the_extra_is_named_and_json_works(root, monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    outcome = run("metrics", root)

    assert outcome.code == 5
    assert "reput-tools[prometheus]: pip install './extras/tools[prometheus]'" in outcome.err
    assert run("metrics", root, "--listen", "127.0.0.1:0").code == 5
    assert run("metrics", root, "--json").code == 0


def test_an_address_that_is_none_or_taken_is_refused(root):
    from socket import socket

    for address in ("9464", "127.0.0.1:", "127.0.0.1:99999", ":9464"):
        assert run("metrics", root, "--listen", address).code == 2
    with socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        outcome = run("metrics", root, "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert outcome.code == 5
    assert "choose another address" in outcome.err
    assert run("metrics", root, "--listen", "127.0.0.1:0", "--json").code == 2
