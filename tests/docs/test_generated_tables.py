"""The tables of metrics and of Spark's options are computed from the lists that the code uses."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest
from pages import DOCS, text_of

from reput_tools.metrics.metriclist import Metric


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that fills the pages, which is not installed."""
    monkeypatch.syspath_prepend(str(DOCS / "site"))
    return importlib.import_module("metrictables")


def test_a_metric_has_a_row_with_its_kind_labels_and_meaning(tables: ModuleType) -> None:
    found = tables.metrics(
        [
            Metric("reput_up", "gauge", "1 if `store` is <open>."),
            Metric("reput_got_total", "counter", "Messages.", ("topic", "group")),
        ]
    )

    assert found.splitlines()[2:] == [
        "| `reput_up` | gauge |  | 1 if `store` is \\<open\\>. |",
        "| `reput_got_total` | counter | `topic`, `group` | Messages. |",
    ]


@pytest.mark.parametrize(
    ("page", "subject", "name"),
    [
        ("docs/metrics.md", "store", "reput_log_size_bytes"),
        ("docs/serve-metrics.md", "server", "reput_server_connections"),
    ],
)
def test_each_page_has_the_place_of_its_own_metrics(
    tables: ModuleType, page: str, subject: str, name: str
) -> None:
    mark = f"<!-- metrics of a {subject} -->"

    assert f"\n{mark}\n" in text_of(page)
    assert f"| `{name}` |" in tables.MARKS[mark]()


@pytest.mark.parametrize(
    ("mark", "name"),
    [
        ("<!-- options of reads -->", "OPTIONS"),
        ("<!-- options of a stream out of a log -->", "STREAM_OPTIONS"),
        ("<!-- options of a stream into a store -->", "SINK_OPTIONS"),
    ],
)
def test_each_option_of_spark_has_a_row_with_its_meaning(
    monkeypatch: pytest.MonkeyPatch, mark: str, name: str
) -> None:
    monkeypatch.syspath_prepend(str(DOCS / "site"))
    spark = importlib.import_module("sparkoptions")
    options = getattr(spark, name)

    assert text_of("docs/reference/spark.md").count(f"\n{mark}\n") == 1
    assert spark.MARKS[mark]().splitlines()[2:] == [
        f"| `{option}` | {meaning} |" for option, meaning in options.items()
    ]
    assert len(options) > 3


def test_each_column_of_messages_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS / "site"))
    module = importlib.import_module("columntable")

    read, written = (text().splitlines()[2:] for text in module.MARKS.values())

    assert all(text_of("docs/reference/columns.md").count(mark) == 1 for mark in module.MARKS)
    assert [row.split("`")[1] for row in read] == [each.name for each in module.COLUMNS]
    assert [row.split("`")[1] for row in written] == [each.name for each in module.INPUT_COLUMNS]
    assert "| `body` | binary | " in "\n".join(read)
