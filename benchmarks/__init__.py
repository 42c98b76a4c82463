"""Measures the store beside other stores that do the same work: ``python -m benchmarks --help``.

Reading order: `benchmarks.workload` (what is stored), `benchmarks.case` and `benchmarks.trial`
(what a measurement is), `benchmarks.cases` (the work), `benchmarks.runner` (processes and rounds),
`benchmarks.report` (tables).
"""
