"""A table of every row, with an index: the contract, and what a row may be."""

from __future__ import annotations

import math

import numpy as np
import pytest
from words import WordsPlugin, messages_with

import reput
from reput_table import QueryError, Rows, Schema, TablePlugin
from reput_testing import KillContract, PluginContract


class SmallParts(WordsPlugin):
    """Parts of the log of a few messages each."""

    name = "words"
    part_size = 1_500


class TestContract(PluginContract):
    plugin_type = SmallParts
    same_files = False

    def state(self, plugin: WordsPlugin) -> object:
        return plugin.contract_state()


class TestKilled(KillContract):
    plugin_type = SmallParts
    same_files = False
    kills = 4

    def state(self, plugin: WordsPlugin) -> object:
        return plugin.contract_state()


@pytest.fixture
def store(tmp_path):
    with reput.open(tmp_path, plugins=[WordsPlugin()]) as store:
        yield store


def test_words_are_found_by_their_index(store):
    first = store.put(reput.Message("notes", b"the quick brown fox"))
    store.put(reput.Message("notes", b"the lazy dog"))
    second = store.put(reput.Message("notes", b"a fox, again"))
    store.wait_dispatched()
    words = store.plugin("words")

    found = words.query("SELECT physical_offset FROM words WHERE word = ?", ["fox"])
    plan = words.query("EXPLAIN QUERY PLAN SELECT * FROM words WHERE word = 'fox'")

    assert found == [(first.physical_offset,), (second.physical_offset,)]
    assert [each.body for each in messages_with(store, "Fox")] == [
        b"the quick brown fox",
        b"a fox, again",
    ]
    assert "USING INDEX" in str(plan)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT unknown FROM words", r"no such column: unknown.*columns: word, topic, physical_"),
        ("SELECT * FROM word", "no such table: word"),
        ("DELETE FROM _rows", "only reads"),
        ("DROP VIEW words", "only reads"),
        ("PRAGMA journal_mode = OFF", "only reads"),
        ("ATTACH DATABASE '/dev/null' AS other", "only reads"),
        ("SELECT ?", "binding"),
        ("SELECT 1; SELECT 2", "one statement"),
    ],
)
def test_what_is_no_query_is_refused(store, query, reason):
    store.put(reput.Message("notes", b"one"))
    store.wait_dispatched()
    words = store.plugin("words")

    with pytest.raises(QueryError, match=reason):
        words.query(query)

    assert words.query("SELECT word FROM words") == [("one",)]


def test_a_query_that_takes_too_long_is_given_up(store):
    endless = (
        "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    )

    with pytest.raises(QueryError, match=r"longer than 0\.01 s"):
        store.plugin("words").query(endless, timeout=0.01)
    with pytest.raises(ValueError, match="timeout: a number"):
        store.plugin("words").query("SELECT 1", timeout=math.nan)


def test_a_closed_table_answers_no_query_and_stays(tmp_path):
    with reput.open(tmp_path, plugins=[WordsPlugin()]) as store:
        store.put(reput.Message("notes", b"one"))
        words = store.plugin("words")

    with pytest.raises(reput.ReputError, match="not open"):
        words.query("SELECT * FROM words")

    with reput.open(tmp_path, "r", plugins=[WordsPlugin()]) as store:
        assert store.plugin("words").query("SELECT word FROM words") == [("one",)]


class EveryKind(TablePlugin):
    """A column of each type, given in every way."""

    name = "kinds"
    schema = Schema(
        columns={"whole": int, "real": float, "body": bytes, "tag": str, "key": str, "same": str}
    )

    def rows(self, batch: reput.DispatchBatch) -> Rows:
        return {
            "whole": batch.queue_id.astype(np.uint8),
            "real": np.where(batch.queue_id > 0, batch.queue_id / 2, np.nan),
            "body": batch.body,
            "tag": batch.text("TAGS"),
            "key": batch.text("KEYS").tolist(),
            "same": "always",
        }


def test_columns_come_as_arrays_texts_lists_and_single_values(tmp_path):
    with reput.open(tmp_path, plugins=[EveryKind()]) as store:
        store.put(reput.Message("notes", b"\0\xff", 3, tags="t", keys="k"))
        store.put(reput.Message("notes", b"", 0))
        store.wait_dispatched()

        found = store.plugin("kinds").query("SELECT * FROM kinds")

    assert found == [
        (3, 1.5, b"\0\xff", "t", "k", "always"),
        (0, None, b"", None, None, "always"),
    ]


class FromArrow(TablePlugin):
    """Rows that are an Arrow batch."""

    name = "arrowed"
    schema = Schema(columns={"topic": str, "queue_id": int, "body": bytes})

    def rows(self, batch: reput.DispatchBatch) -> object:
        from reput_arrow import to_arrow

        return to_arrow(batch, ["topic", "queue_id", "body"])


def test_rows_may_be_an_arrow_batch(tmp_path):
    pytest.importorskip("reput_arrow")
    with reput.open(tmp_path, plugins=[FromArrow()]) as store:
        store.put(reput.Message("notes", b"\0\xff", 3))
        store.wait_dispatched()

        assert store.plugin("arrowed").query("SELECT * FROM arrowed") == [("notes", 3, b"\0\xff")]


# --------------------------------------------------------------------------- an incomplete table


def warnings_of(caplog):
    return [each.getMessage() for each in caplog.records if each.name == "reput_table.plugin"]


def test_a_query_warns_of_messages_that_a_suspended_plugin_lacks(store, caplog):
    query, words = "SELECT word FROM words", store.plugin("words")
    store.put(reput.Message("notes", b"first"))
    store.wait_dispatched()
    store.suspend_plugin("words")
    assert words.query(query) == [("first",)]
    assert warnings_of(caplog) == []

    size = store.put(reput.Message("notes", b"second")).size
    assert words.query(query) == [("first",)]
    with words.select(query) as selected:
        assert selected.lag_size == size
    (warned,) = warnings_of(caplog)
    store.resume_plugin("words")
    store.wait_dispatched()
    caplog.clear()

    assert words.query(query) == [("first",), ("second",)]
    assert f"plugin=words lag_size={size} gets_messages=no" in warned
    assert warnings_of(caplog) == []


def test_a_query_warns_of_messages_that_were_there_when_the_plugin_was_opened(tmp_path, caplog):
    with reput.open(tmp_path, plugins=[]) as store:
        size = store.put(reput.Message("notes", b"first")).size
    with reput.open(tmp_path, plugins=[WordsPlugin()], threads=False) as store:
        assert store.plugin("words").query("SELECT word FROM words") == []
        (behind,) = warnings_of(caplog)
        caplog.clear()
        store.wait_dispatched()
        assert store.plugin("words").query("SELECT word FROM words") == [("first",)]
        store.put(reput.Message("notes", b"second"))  # it is dispatched in a moment
        assert store.plugin("words").query("SELECT word FROM words") == [("first",)]
        assert warnings_of(caplog) == []

    assert f"plugin=words lag_size={size} gets_messages=yes" in behind


def test_a_reader_warns_of_messages_that_the_writer_has_not_flushed(store, tmp_path, caplog):
    store.put(reput.Message("notes", b"first"))
    store.wait_dispatched()
    with reput.open(tmp_path, "r", plugins=[WordsPlugin()]) as reader:
        reader.plugin("words").query("SELECT word FROM words")
    (warned,) = warnings_of(caplog)
    caplog.clear()
    store.flush()

    with reput.open(tmp_path, "r", plugins=[WordsPlugin()]) as reader:
        assert reader.plugin("words").query("SELECT word FROM words") == [("first",)]

    assert "gets_messages=unknown" in warned
    assert warnings_of(caplog) == []
