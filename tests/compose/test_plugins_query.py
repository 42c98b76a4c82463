"""`reput plugins query`: what a plugin that keeps a table answers on the command line."""

from __future__ import annotations

import sys

import attrs
import pytest
from commands import commands

import reput
from reput.files import Disk
from reput.storefiles import StoredPluginStates

SOURCE = """\
from reput_table import Schema, TablePlugin

class ShelfPlugin(TablePlugin):
    name = "shelf"
    schema = Schema(columns={"topic": str, "physical_offset": int})

    def rows(self, batch):
        return {
            "topic": (batch.topic_code, batch.topics),
            "physical_offset": batch.physical_offset,
        }
"""


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store whose plugin ``shelf`` has a row for each of three messages."""
    site = tmp_path / "site"
    about = site / "shelf_plugin-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: shelf-plugin\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[reput.plugins]\nshelf = shelf_plugin:ShelfPlugin\n")
    (site / "shelf_plugin.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(site))
    path = tmp_path / "store"
    with reput.open(path, plugins=["consumequeue", "shelf"]) as opened:
        for topic in ("orders", "bills", "orders"):
            opened.put(reput.Message(topic, b"body"))
        opened.wait_dispatched()
        yield opened
    sys.modules.pop("shelf_plugin", None)


@pytest.fixture
def run():
    with commands() as run:
        yield lambda *arguments: run("plugins", "query", *arguments)


def test_a_table_answers_beside_its_writer(store, run):
    store.flush()

    query = "SELECT topic, count(*) AS n FROM shelf GROUP BY topic ORDER BY n"
    found = run(store.root, "shelf", query)
    document = run(store.root, "shelf", query, "--json")
    text = run(store.root, "shelf", query, "--format", "csv")

    assert [line.split() for line in found.out.splitlines()] == [
        ["topic", "n"],
        ["bills", "1"],
        ["orders", "2"],
    ]
    assert document.lines == [{"topic": "bills", "n": 1}, {"topic": "orders", "n": 2}]
    assert text.out == "topic,n\nbills,1\norders,2\n"


def test_rows_are_read_one_by_one_in_a_block(store):
    with store.plugin("shelf").select("SELECT topic AS t, ? AS x FROM shelf", [7]) as found:
        assert found.columns == ("t", "x")
        assert next(iter(found)) == ("orders", 7)
    store.put(reput.Message("orders", b"body"))
    store.flush()  # no query holds the table any more
    store.wait_dispatched()
    assert store.plugin("shelf").query("SELECT count(*) FROM shelf") == [(4,)]


@pytest.mark.parametrize(
    ("plugin", "query", "code", "part"),
    [
        ("shelf", "SELECT nothing FROM shelf", 2, "columns: topic, physical_offset"),
        ("shelf", "DELETE FROM shelf", 2, "shelf"),
        ("shelf", "", 2, "empty"),
        ("consumequeue", "SELECT 1", 3, "keeps no table"),
        ("shelv", "SELECT 1", 3, "did you mean 'shelf'"),
    ],
)
def test_an_error_is_one_line_with_a_code(store, run, plugin, query, code, part):
    store.flush()

    outcome = run(store.root, plugin, query)

    assert outcome.code == code, outcome
    assert outcome.out == ""
    assert outcome.err.startswith("reput: ")
    assert outcome.err.count("\n") == 1
    assert part in outcome.err


# --------------------------------------------------------------------------- an incomplete table


QUERY = "SELECT topic FROM shelf ORDER BY physical_offset"


def test_the_table_of_a_suspended_plugin_says_so(store, run):
    store.suspend_plugin("shelf")
    size = store.put(reput.Message("late", b"body")).size
    store.flush()

    found = run(store.root, "shelf", QUERY)
    document = run(store.root, "shelf", QUERY, "--json")
    text = run(store.root, "shelf", QUERY, "--format", "csv")

    assert found.code == 0
    assert found.err.count("\n") == 1
    assert f"'shelf' is suspended, and its table lacks the last {size} B of the log" in found.err
    assert f"reput resume {store.root} shelf" in found.err
    assert document.lines == [
        {"topic": topic, "_lag_size": size} for topic in ("orders", "bills", "orders")
    ]
    assert text.out == "topic\norders\nbills\norders\n"


def test_the_table_of_a_plugin_that_is_behind_says_how_it_catches_up(store, run):
    store.suspend_plugin("shelf")
    store.put(reput.Message("late", b"body"))
    store.close()
    resumed = StoredPluginStates.of(store.root, Disk().at(store.root))
    resumed.save("shelf", attrs.evolve(resumed.load("shelf"), state="running", asked=False))

    found = run(store.root, "shelf", QUERY)
    with reput.open(store.root) as again:
        again.wait_dispatched()
    later = run(store.root, "shelf", QUERY)

    assert f"`reput backfill {store.root} shelf` dispatches it" in found.err
    assert found.err.count("\n") == 1
    assert (later.err, later.out.split()[-1]) == ("", "late")
