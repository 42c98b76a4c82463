"""The metrics of stores and of servers as tables: ``python docs/site/metrictables.py`` prints them.

The site has them where a page says ``<!-- metrics of a store -->`` or
``<!-- metrics of a server -->``; the rows are the lists from which the metrics are served.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import partial

from markdowntext import code, inline, table

from reput_server.monitoring.metriclist import METRICS as SERVER_METRICS
from reput_tools.metrics.metriclist import METRICS as STORE_METRICS
from reput_tools.metrics.metriclist import Metric

_TITLES = ("metric", "kind", "labels", "meaning")


def metrics(found: Iterable[Metric]) -> str:
    """Return a table with a row for each metric."""
    rows = (
        (code(each.name), each.kind, ", ".join(map(code, each.labels)), inline(each.text))
        for each in found
    )
    return table(_TITLES, rows).rstrip()


MARKS = {
    "<!-- metrics of a store -->": partial(metrics, STORE_METRICS.values()),
    "<!-- metrics of a server -->": partial(metrics, SERVER_METRICS.values()),
}

if __name__ == "__main__":
    sys.stdout.write("\n\n".join(text() for text in MARKS.values()) + "\n")
