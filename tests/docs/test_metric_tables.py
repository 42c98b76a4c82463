"""The tables of metrics are computed from the lists from which the metrics are served."""

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
