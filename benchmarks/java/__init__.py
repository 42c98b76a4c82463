"""Beside Apache RocketMQ's own store: ``python -m benchmarks --java``.

Reading order: `benchmarks.java.rows` (the table and its targets), `benchmarks.java.jobs` (the work:
reput's side and Java's), `benchmarks.java.cases` (reput's side), `benchmarks.java.program` (Java's
side), `benchmarks.java.group` (rounds), `benchmarks.java.table` (figures).
"""
